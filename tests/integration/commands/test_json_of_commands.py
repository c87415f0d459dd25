"""Every command with ``--json`` is run here or in a test that is named here.

What they print is compared with docs/reference/json.md by a fixture of tests/conftest.py, and by
the runner of processes in tests/support/scenarios/processes.py.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.documents import VERSION
from londiste.cli.errors import run
from londiste.pgq import batches, dead_letters, delayed, producer
from tests.fixtures.cluster import Database
from tests.fixtures.line import Command, Line, LineNode
from tests.fixtures.one_file import OneFile
from tests.support.documents import GENERATE

ROOT = Path(__file__).parents[3]

#: Commands that need more than two nodes, or daemons: where their documents are printed.
ELSEWHERE = {
    "demo": "tests/scenarios/commands/test_demo.py",
    "migrate": "tests/support/scenarios/relocation.py",
    "resurrect": "tests/scenarios/cascade/test_resurrect.py",
    "lake": "tests/scenarios/queue/test_lake_killed.py",
    "selftest": "tests/scenarios/selftest/test_selftest.py",
}

SCHEMA = """
    create table t (id int primary key, v text);
    create table u (id int primary key, t int references t);
    create sequence s;
"""


@pytest.fixture
def pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.BRANCH, root, schema=SCHEMA)
    return root, leaf


def words(argv: tuple[str, ...]) -> str:
    """The command of a call."""
    names = [name for name, _ in GENERATE["commands"]()]
    return next(" ".join(argv[:n]) for n in (3, 2, 1) if " ".join(argv[:n]) in names or n == 1)


def test_every_command_prints_documents_of_its_types(
    pair: tuple[LineNode, LineNode], line: Line, command: Command
) -> None:
    root, leaf = pair
    ran: set[str] = set()
    bad: list[Any] = []

    def call(node: LineNode, *argv: str, code: int = 0) -> dict[str, Any]:
        answer = command(node, *argv, "--json")
        if answer.code != code:
            bad.append((argv, answer))
        document: dict[str, Any] = answer.json
        assert document["version"] == VERSION
        ran.add(words(argv))
        return document

    for node in pair:
        assert call(node, "add-table", "t", "u", "--expect-sync", "--dry-run")["steps"]
        assert call(node, "add-table", "t", "u", "--expect-sync")["done"]
        assert call(node, "add-seq", "s")["done"]
    assert call(leaf, "missing") == {"version": VERSION, "missing": []}
    assert call(leaf, "missing", "--all-nodes")["differences"] == []
    line.tick()
    line.once(leaf)
    for argv in (
        ("tables",),
        ("tables", "-v"),
        ("seqs",),
        ("fkeys",),
        ("columns",),
        ("triggers",),
        ("show-handlers",),
        ("members",),
        ("node-info",),
        ("status",),
        ("sync-watermark",),
        ("wait-sync", "--timeout", "20"),
        ("copy", "status"),
        ("copy", "status", "--done"),
        ("copy", "throttle"),
        ("copy", "run", "--dry-run"),
        ("batch", "show"),
        ("events", "show"),
        ("events", "conflicts"),
        ("events", "conflicts", "--rows"),
        ("debug", "crash-points"),
        ("queue", "list"),
        ("queue", "status"),
        ("queue", "consumers"),
        ("queue", "config"),
        ("compare", "--dry-run"),
        ("repair", "--dry-run"),
        ("resync", "t", "--dry-run"),
        ("pause", "--timeout", "0"),
        ("resume", "--timeout", "0"),
        ("change-provider", "--provider", "root", "--dry-run"),
        ("switchover", "--dry-run"),
        ("takeover", "root", "--dry-run"),
        ("change-policy", "t", "keep_local"),
        ("change-handler", "t", "--handler", "nop", "--dry-run"),
        ("uninstall", "--dry-run"),
        ("install",),
        ("install", "--adopt", "--dry-run"),
    ):
        call(leaf, *argv)
    # Nothing is known yet.
    assert call(leaf, "compare", "--status", code=3)["coverage"] is None
    call(root, "rename-node", "leaf", "other", "--dry-run")
    call(root, "move-node", "leaf", leaf.database.dsn, "--dry-run")
    for name in ("tag-dead", "tag-alive", "drop-node"):
        call(root, name, "leaf", "--dry-run")
    call(root, "wait-root")
    call(root, "wait-provider")
    call(root, "change-form", "t", "row")
    call(root, "execute", "run", "--sql", "alter table t add n int", "--name", "n", "--dry-run")
    assert call(root, "execute", "run", "--sql", "alter table t add n int", "--name", "n")["done"]
    assert call(root, "execute", "status")["scripts"]
    call(root, "ticker", "--once", "--db", root.database.dsn)
    call(root, "check", code=command(root, "check").code)
    # A verdict that is not ok is a result.
    assert call(root, "status", "--check", code=command(root, "status", "--check").code)["nodes"]
    for name in ("create-root", "create-branch", "create-leaf"):
        refused = command(root, name, "x", "--json")
        assert (refused.code, refused.json["exit_code"]) == (refused.code, refused.code)
        ran.add(name)
    call(leaf, "remove-seq", "s")
    call(leaf, "remove-table", "t", "u")
    doctor = command(root, "doctor", root.database.dsn, leaf.database.dsn, "--json")
    assert isinstance(doctor.json["findings"], list)
    ran.add("doctor")
    _queues(root, call)
    assert not bad
    every = {name for name, _ in GENERATE["commands"]()} - {"plan", "apply"}
    left = {
        name
        for name in every - ran
        if not any(name == one or name.startswith(f"{one} ") for one in ELSEWHERE)
    }
    assert not left
    for path in ELSEWHERE.values():
        assert "json" in (ROOT / path).read_text(encoding="utf-8"), path


def _queues(root: LineNode, call: Any) -> None:
    """The commands about queues alone."""
    call(root, "queue", "install", "--dry-run")
    call(root, "queue", "create", "mail", "--set", "ticker_max_count=1")
    call(root, "queue", "register", "mail", "c")
    with root.database.connect() as conn:
        for data in ("one", "two", "three"):
            producer.insert_event(conn, "mail", "t", data)
        late = delayed.insert_event_at(
            conn, "mail", datetime.now(UTC) + timedelta(hours=1), "t", "late"
        )
    made = call(root, "queue", "tick", "mail")["ticks"]
    assert made[0]["queue"] == "mail"
    with root.database.connect() as conn:
        batch = batches.next_batch(conn, "mail", "c")
        assert batch is not None
        ids = [event.id for chunk in batches.events(conn, batch) for event in chunk]
        dead_letters.event_failed(conn, batch.id, ids[0], "bad")
        dead_letters.event_failed(conn, batch.id, ids[1], "worse")
    assert call(root, "queue", "batch", str(batch.id))["events"] >= 3
    call(root, "queue", "retry", "event", str(batch.id), str(ids[2]), "--seconds", "3600")
    assert len(call(root, "queue", "events", "mail")["events"]) == 3
    assert call(root, "queue", "retry", "list")["events"][0]["after"].endswith("Z")
    with root.database.connect() as conn:
        batches.finish_batch(conn, batch.id)
    assert len(call(root, "queue", "dead", "list", "mail", "c")["events"]) == 2
    assert call(root, "queue", "dead", "count")["consumers"]
    call(root, "queue", "dead", "retry", "mail", "c", str(ids[0]))
    call(root, "queue", "dead", "drop", "mail", "c", "--all")
    assert call(root, "queue", "delayed", "list", "mail")["events"]
    call(root, "queue", "delayed", "cancel", "mail", str(late))
    assert call(root, "queue", "ticks", "mail")["ticks"]
    call(root, "queue", "pause-consumer", "mail", "c")
    call(root, "queue", "resume-consumer", "mail", "c")
    call(root, "queue", "maint")
    call(root, "queue", "rebase", "--dry-run")
    call(root, "queue", "rebase")
    call(root, "queue", "shell", "-c", "select 1 as n")
    call(root, "queue", "unregister", "mail", "c", "--close-batch")
    call(root, "queue", "drop", "mail")
    call(root, "tick")


def test_plan_and_apply_print_documents_of_their_types(one_file: OneFile) -> None:
    one_file.write({"n1": "root", "n2": "leaf of n1"}, "")
    planned = one_file("plan", "--json")
    assert (planned.code, len(planned.json["actions"])) == (2, 3), planned
    assert len(one_file("apply", "--dry-run", "--json").json["actions"]) == 3
    applied = one_file("apply", "--json")
    assert (applied.code, bool(applied.json["done"])) == (0, True), applied
    assert one_file("plan", "--json").json == {"version": VERSION, "actions": []}


def test_a_failing_command_tells_what_it_has_done(
    pgq_db: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cli, ["queue", "ticks", "nope", "--db", pgq_db.dsn, "--json"]) == 2
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["exit_code"] == 2
    assert f"error: {found['error']}\n" in printed.err
    assert f"hint: {found['hint']}\n" in printed.err
