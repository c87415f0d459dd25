"""Runs programs of earlier versions: their settings files, their processes, their queues."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.fixtures.cluster import Database

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent


def ini(folder: Path, section: str, **keys: object) -> str:
    """A settings file of one section; its path."""
    file = folder / f"{keys.get('job_name', section)}.ini"
    lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
    file.write_text(f"[{section}]\n{lines}")
    return str(file)


def run(
    program: str, *arguments: str, crash: str = "", expect: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; ``crash`` is LONDISTE_CRASH, where it dies by SIGKILL."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("LONDISTE_CRASH", None)
    if crash:
        environment["LONDISTE_CRASH"] = crash
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / program), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    wanted = -9 if crash else expect
    assert wanted is None or done.returncode == wanted, done.stderr
    return done


def send(db: Database, queue: str, *events: tuple[str, ...]) -> None:
    """Inserts events and creates a tick."""
    for event in events:
        fields = [*event, *[None] * (6 - len(event))]
        db.execute("select pgq.insert_event(%s, %s, %s, %s, %s, %s, %s)", queue, *fields)
    tick(db, queue)


def tick(db: Database, queue: str) -> None:
    """Creates a tick."""
    db.execute("select pgq.force_tick(%s)", queue)
    db.execute("select pgq.ticker(%s)", queue)


def column(db: Database, statement: str) -> list[object]:
    """The first column of a result."""
    return [row[0] for row in db.execute(statement)]
