"""The quickstart of the queue works as it is printed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quickstart-queue.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"(?s)```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"))


def test_the_printed_commands_deliver_an_event(database: Database, tmp_path: Path) -> None:
    for text in blocks("python"):
        (tmp_path / text.split("\n", 1)[0].removeprefix("# ")).write_text(text)
    steps = "\n".join(blocks("sh"))
    before, event, after = steps.partition("python signup.py\n")
    assert 'LONDISTE_DB="dbname=shop"' in before and event
    script = tmp_path / "all.sh"
    script.write_text(
        f'set -e\nlondiste() {{ "{sys.executable}" -m londiste "$@"; }}\n'
        f'python() {{ "{sys.executable}" "$@"; }}\n'
        + before.replace('"dbname=shop"', '"$TEST_DSN"')
        # The test says when; a reader is slow enough.
        + f"read -r go\n{event}read -r go\n{after}"
    )
    said = tmp_path / "said"
    with said.open("wb") as output:
        shell = subprocess.Popen(
            ["bash", str(script)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TEST_DSN": database.dsn},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    assert shell.stdin

    def says(text: str) -> bool:
        return text in said.read_text()

    try:
        wait_for(lambda: says("waiting for signups"), what="the consumer", timeout=180)
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        wait_for(lambda: says("hello anna@example.com"), what="the greeting", timeout=180)
        shell.stdin.write(b"go\n")
        shell.stdin.close()
        wait_for(lambda: shell.poll() is not None, what="the last commands", timeout=180)
        assert shell.returncode in (0, 3), said.read_text()
        assert "greeter" in said.read_text()
        assert database.execute("select mail from greeting") == [("anna@example.com",)]
    finally:
        # The shell's children are in its group; the shell itself may have ended.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
