"""``migrate status`` and ``finish`` where no migration, or another command, is under way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.errors import run
from londiste.migrate import setup
from londiste.orchestration.connections import Connections
from tests.fixtures.cascade import Nodes, refused_at_once
from tests.fixtures.cluster import Database


def test_databases_without_a_migration_are_not_called_finished_or_new(
    new_database: Callable[..., Database], capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ["--from", new_database(pgq=False).dsn, "--to", new_database(pgq=False).dsn]
    capsys.readouterr()
    assert run(cli, ["migrate", "status", *pair]) == 0
    printed = capsys.readouterr()
    assert "none: not begun, or finished" in printed.out
    assert "next: to migrate: londiste migrate check" in printed.err
    assert "after londiste migrate finish" in printed.err and "nothing is left" in printed.err
    assert run(cli, ["migrate", "finish", *pair]) == 0
    printed = capsys.readouterr()
    said = "no migration between these databases: it is finished, or has not begun"
    assert printed.err.strip() == said


def test_what_an_interrupted_finish_has_left_is_named(
    new_database: Callable[..., Database], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = new_database(pgq=True), new_database()
    pair = ["--from", old.dsn, "--to", new.dsn]
    old.execute(f"comment on schema londiste is '{setup.MADE.format(queue='migrate')}'")
    capsys.readouterr()
    assert run(cli, ["migrate", "status", *pair]) == 0
    assert "continues a finish, and removes the SQL" in capsys.readouterr().err
    assert run(cli, ["migrate", "finish", *pair]) == 0
    assert not old.value("select to_regnamespace('pgq') is not null")


def test_status_with_one_silent_database_shows_what_the_other_one_knows(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    old = nodes_of.root("old")
    new = nodes_of.below(old, "new", NodeType.BRANCH)
    away = "host=127.0.0.1 port=1 dbname=away"
    call = ["--set", "queue_name=q", "migrate", "status"]

    def said(source: str, target: str, *more: str) -> str:
        capsys.readouterr()
        assert run(cli, [*call, "--from", source, "--to", target, *more]) == 6
        printed = capsys.readouterr()
        assert more or "does not answer" in printed.err.partition("error: node")[2]
        return printed.out

    rows = dict(re.split("  +", row, maxsplit=1) for row in said(old.dsn, away).splitlines())
    assert (rows["phase"], rows["takes writes"]) == ("unknown", "old")
    # Who takes the writes is known to the silent one alone.
    rows = dict(re.split("  +", row, maxsplit=1) for row in said(away, new.dsn).splitlines())
    assert (rows["phase"], rows["takes writes"]) == ("unknown", "unknown")
    assert '"root": "old"' in said(old.dsn, away, "--json")
    assert not said(away, away)


def test_an_idle_migration_has_no_lag_however_old_its_last_tick_is(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    old = nodes_of.root("old")
    new = nodes_of.below(old, "new", NodeType.BRANCH)
    new.db.execute(f"update pgq_node.local_state set last_tick_id = {old.tick()}")
    old.db.execute("update pgq.tick set tick_time = tick_time - interval '1 minute'")
    call = ["--set", "queue_name=q", "migrate", "status", "--from", old.dsn, "--to", new.dsn]

    def said(*more: str) -> str:
        capsys.readouterr()
        assert run(cli, [*call, *more]) == 0
        return capsys.readouterr().out

    assert re.search("^lag of the other +idle$", said(), re.MULTILINE)
    document = json.loads(said("--json"))
    assert (document["lag"], document["behind"]) == (0, "idle")
    old.db.execute("select pgq.insert_event('q', 'x', '')")
    assert "1 events wait for a tick" in said()


def test_finish_waits_for_no_other_command(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    old = nodes_of.root("old")
    new = nodes_of.below(old, "new", NodeType.BRANCH)
    sides = ["--from", old.dsn, "--to", new.dsn]
    call = ["--set", "queue_name=q", "migrate", "finish", *sides, "--abandon"]
    for busy, name in ((old, "old"), (new, "new")):
        with Connections(name="other") as other:
            other.alone(busy.dsn, name, "q")
            assert run(cli, [*call, "--dry-run"]) == 0
            capsys.readouterr()
            with refused_at_once():
                assert run(cli, call) == 3
        refused = f"error: node {name}: another command is changing the cascade of queue q"
        assert capsys.readouterr().err.startswith(refused)
    assert new.db.value("select count(*) from pgq_node.node_info") == 1
    assert run(cli, call) == 0


def test_a_dry_run_of_start_shows_what_remains(
    nodes_of: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    old = nodes_of.root("old")
    new = nodes_of.below(old, "new", NodeType.BRANCH)
    call = ["--set", "queue_name=q", "migrate", "start", "--from", old.dsn, "--to", new.dsn]
    call += ["--schema", "existing", "--dry-run"]

    def shown() -> list[str]:
        capsys.readouterr()
        assert run(cli, call) == 0
        return capsys.readouterr().out.splitlines()

    assert shown() == ["nothing to do"]
    for one in (old, new):
        one.db.execute("create table t (id int primary key)")
    assert shown() == [
        "1. old: add all tables and sequences",
        "2. new: add all tables, to be copied, and all sequences",
    ]
