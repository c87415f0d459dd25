"""The commands of the README run as written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

README = Path(__file__).parents[2] / "README.md"
OLD = "host=old.example dbname=shop user=repl"
NEW = "host=new.example dbname=shop user=repl"


def block(heading: str) -> str:
    """The first code under a heading."""
    found = re.search(
        rf"## {heading}\n(?:(?!\n## ).)*?\n```\n(.*?)```", README.read_text(encoding="utf-8"), re.S
    )
    assert found
    return found.group(1)


def test_one_command_replicates_a_database(
    new_database: Callable[..., Database], tmp_path: Path
) -> None:
    old, new = new_database(pgq=False), new_database(pgq=False)
    old.execute("create table orders (id int primary key, what text)")
    old.execute("insert into orders select i, 'thing ' || i from generate_series(1, 1000) i")
    found = re.search(r"(?m)^londiste replicate .*$", README.read_text(encoding="utf-8"))
    assert found
    script = found.group().replace(OLD, old.dsn).replace(NEW, new.dsn)
    done = subprocess.run(
        # It would keep them in sync until Ctrl-C.
        ["bash", "-euo", "pipefail", "-c", f"{script} --once"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert new.value("select count(*) from orders") == 1000


@pytest.mark.slow
def test_the_eleven_commands_replicate_a_table(
    new_database: Callable[..., Database], tmp_path: Path
) -> None:
    old, new = new_database(pgq=False), new_database(pgq=False)
    old.execute("create table orders (id int primary key, what text)")
    old.execute("insert into orders select i, 'thing ' || i from generate_series(1, 1000) i")
    script = block("Eleven commands that replicate a table")
    assert OLD in script
    assert NEW in script
    script = script.replace(OLD, old.dsn).replace(NEW, new.dsn)
    script = re.sub("pip install londiste4 .*\n", "", script)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        # The example says nothing of the engine; a table of this size is copied without Spark.
        "LONDISTE_POLL_INTERVAL": "0.1",
    }
    environment = {k: v for k, v in environment.items() if not k.startswith("PG")}

    def run(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    try:
        done = run(script)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"public\.orders +yes +1000 +1000", done.stdout), done.stdout
        old.execute("update orders set what = 'changed' where id = 7")
        wait_for(
            lambda: new.value("select what from orders where id = 7") == "changed",
            what="the change on the leaf",
        )
        shown = run("londiste -c leaf.toml status --json")
        assert json.loads(shown.stdout), shown.stderr
        assert "NOT RUNNING" not in run("londiste -c leaf.toml status").stdout
    finally:
        ended = [
            run(f"londiste -c {name}.toml --set pidfile={pid}.pid {command} -k")
            for name, pid, command in (
                ("root", "ticker", "ticker"),
                ("root", "root", "worker"),
                ("leaf", "leaf", "worker"),
            )
        ]
    assert [e.returncode for e in ended] == [0, 0, 0], [e.stderr for e in ended]
    for name in ("ticker", "root", "leaf"):
        wait_for(lambda n=name: not (tmp_path / f"{n}.pid").exists(), what=f"the end of {name}")


def test_the_commands_of_the_queue_show_the_event_that_was_inserted(
    new_database: Callable[..., Database], tmp_path: Path
) -> None:
    shop = new_database(pgq=False)
    text = block("A queue without replication")
    place = "host=shop.example dbname=shop user=app"
    assert place in text
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text.replace(place, shop.dsn)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "anna@example.com" in done.stdout
    assert "no problems found" in done.stderr
