"""Processes log as the configuration file specifies, and refuse a wrong file at start."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cluster import Database
from tests.fixtures.line import QUEUE, Line
from tests.fixtures.process import Program
from tests.support.waiting import wait_for

CONFIG = """
[formatters.json]
class = "londiste.daemon.logjson.Json"
[handlers.file]
class = "londiste.daemon.loghandlers.RotatingFile"
filename = "{path}"
formatter = "json"
[root]
handlers = ["file"]
"""


def lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line[-1:]]


def test_lines_of_worker_and_copy_say_job_queue_batch_and_tick(line: Line, tmp_path: Path) -> None:
    (tmp_path / "log.toml").write_text(CONFIG.format(path=tmp_path / "out"))
    keys = {"log_config": str(tmp_path / "log.toml")}
    table = "create table t (id int primary key, v text);"
    root = line.node("root", NodeType.ROOT, schema=table)
    leaf = line.node(
        "leaf", NodeType.LEAF, root, schema=table + "alter table t add check (id < 5)", **keys
    )
    line.add(root, "public.t")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.t", expect_sync=False)
    line.start(leaf)
    line.wait(
        lambda: (
            line.tick()
            and leaf.database.value("select merge_state = 'ok' from londiste.table_info")
        ),
        "the copy",
    )
    root.database.execute("insert into t values (7, 'refused')")
    last = line.tick()
    (failed,) = wait_for(
        lambda: [one for one in lines(tmp_path / "out") if one.get("error")][:1],
        what="the error in the log",
    )
    assert (failed["job"], failed["queue"], failed["consumer"]) == (
        "leaf_worker",
        QUEUE,
        "leaf_worker",
    )
    assert failed["tick"] == last
    assert failed["batch"] == root.database.value(
        "select sub_batch from pgq.subscription where sub_batch is not null"
    )
    assert failed["level"] == "ERROR"
    assert failed["hint"]
    of_copy = [one for one in lines(tmp_path / "out") if one.get("table") == "public.t"]
    assert {(one["job"], one["queue"], one["consumer"]) for one in of_copy} == {
        ("leaf_worker", QUEUE, "leaf_worker.copy.public.t")
    }
    assert failed["pid"] not in {one["pid"] for one in of_copy}


def test_sighup_reads_the_file_again_and_a_wrong_one_changes_nothing(
    pgq_db: Database, program: Callable[..., Program], tmp_path: Path
) -> None:
    config = tmp_path / "log.toml"
    config.write_text(CONFIG.format(path=tmp_path / "one"))
    running = program("--set", f"log_config={config}", "ticker", "--db", pgq_db.dsn)

    def messages(name: str) -> list[str]:
        return [one["message"] for one in lines(tmp_path / name)]

    wait_for(lambda: any("serving" in m for m in messages("one")), what="the first file")
    config.write_text(CONFIG.format(path=tmp_path / "two"))
    running.signal(signal.SIGHUP)
    wait_for(lambda: "reloaded the settings" in messages("two"), what="the second file")
    assert "reloaded the settings" not in messages("one")
    config.write_text("[root]\nlevel = 'LOUD'")
    running.signal(signal.SIGHUP)
    wait_for(
        lambda: any("log_config not reloaded" in m for m in messages("two")),
        what="the refusal in the old log",
    )
    assert {one["job"] for one in lines(tmp_path / "two")} == {"ticker"}
    running.signal(signal.SIGTERM)
    assert running.end() == 0


@pytest.mark.parametrize("daemon", [(), ("-d",)])
def test_a_wrong_file_is_said_in_one_line_and_nothing_is_started(
    program: Callable[..., Program], tmp_path: Path, daemon: tuple[str, ...]
) -> None:
    (tmp_path / "log.toml").write_text(CONFIG.format(path="/no/such/directory/log"))
    pid = tmp_path / "pid"
    running = program(
        *("--set", f"log_config={tmp_path / 'log.toml'}", "--set", f"pidfile={pid}"),
        *("ticker", "--db", "host=/nowhere dbname=x", *daemon),
    )
    assert running.end() == 2
    first, second = running.text.splitlines()
    assert first.startswith(f"error: log_config {tmp_path}/log.toml: ")
    assert "No such file or directory" in first
    assert second.startswith("hint: ")
    assert not pid.exists()


def test_housekeeping_that_fails_says_which_operation_of_which_queue(
    pgq_db: Database, program: Callable[..., Program], tmp_path: Path
) -> None:
    config = tmp_path / "log.toml"
    config.write_text(CONFIG.format(path=tmp_path / "out"))
    pgq_db.execute(
        "select pgq.create_queue('q'), pgq.set_queue_config('q', 'extra_maint', '{public.broken}');"
        "create function public.broken(text) returns int language sql as 'select 1/0'"
    )
    running = program("--set", f"log_config={config}", "ticker", "--db", pgq_db.dsn)
    (failed,) = wait_for(
        lambda: [one for one in lines(tmp_path / "out") if one.get("operation")][:1],
        what="the failure in the log",
    )
    assert (failed["job"], failed["queue"]) == ("ticker", "q")
    assert failed["operation"] == "public.broken"
    assert failed["sqlstate"] == "22012"
    assert failed["database"].startswith(f"{pgq_db.name}@")
    running.signal(signal.SIGTERM)
    assert running.end() == 0
