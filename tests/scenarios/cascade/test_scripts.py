"""A DDL script runs through the cascade under writes, with processes killed."""

from __future__ import annotations

import json
import signal

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import QUEUE, Cascade, Node
from tests.support.scenarios.writers import TokenWriter

TABLES = (*writers.KEYED, *writers.KEYLESS)

SCRIPT = """\
alter table scenario.token_a add column note text not null default 'new';
update scenario.token_a set note = 'old' where id % 2 = 0;
create type scenario.mood as enum ('sad');
alter table scenario.token_b add column m scenario.mood;
alter type scenario.mood add value 'glad';
lock table scenario.token_b in exclusive mode;
update scenario.token_b set m = 'glad';
alter table scenario.token_b alter column m set default 'glad';
create index concurrently token_a_note on scenario.token_a (note);
"""
#: Where the command on the root, the worker of the branch and that of the leaf are killed.
KILLS = (
    ("script.alone-begun", "script.done", "script.alone-done"),
    ("script.alone-done", "script.after-first", "script.done"),
    ("script.alone-begun", "script.before", "script.before"),
    ("script.alone-done", "worker.after-commit", "worker.before-commit"),
    ("script.alone-begun", "script.alone-begun", "script.after-first"),
    ("script.alone-done", "script.alone-done", "script.alone-begun"),
)
#: Points that a script has of its own.
POINTS = {point for kills in KILLS for point in kills if point.startswith("script.")}
PARTS = [f"all.sql/{number}" for number in range(1, 5)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("on_root", "on_branch", "on_leaf"),
    KILLS,
)
def test_every_node_ends_the_same_when_workers_are_killed_around_a_script(
    on_root: str, on_branch: str, on_leaf: str, cascade: Cascade, cluster16: Server
) -> None:
    root = cascade.root(on=cluster16, schema=writers.SCHEMA + writers.DATA)
    branch = cascade.branch(provider=root, schema=writers.SCHEMA)
    leaf = cascade.leaf(provider=branch, on=cluster16, schema=writers.SCHEMA)
    cascade.start_ticker(rotate=False)
    cascade.start_worker(branch)
    cascade.start_worker(leaf)
    with TokenWriter(root.database) as writer:
        writer.wait(10)
        cascade.add_tables("--all", "--insert-only")
        cascade.wait_sync(branch)
        cascade.wait_sync(leaf)
        for node, point in ((branch, on_branch), (leaf, on_leaf)):
            cascade.stop(node.worker)
            cascade.start_worker(node, crash=point)
        script = cascade.directory / "all.sql"
        script.write_text(SCRIPT)
        killed = cascade.londiste(
            root, "execute", str(script), accept=(-signal.SIGKILL,), LONDISTE_CRASH=on_root
        )
        assert "sent to all nodes" in killed.err
        writer.wait(10)
        done = cascade.londiste(root, "execute", str(script))
        assert done.err.count("has run already") == 3
        for node, point in ((branch, on_branch), (leaf, on_leaf)):
            cascade.wait_crash(node.worker, point)
            assert node.worker is not None
            assert node.worker.wait() == -signal.SIGKILL
            cascade.start_worker(node)
        writer.wait(30)
        writer.stop()
    cascade.wait_root(branch)
    cascade.wait_root(leaf)
    cascade.wait(lambda: states(cascade, root) == {"done"}, "all parts on all nodes")
    for node in (branch, leaf):
        oracles.assert_same_rows(root.database, node.database, TABLES)
        assert oracles.applied_twice(node.database) == []
        assert cascade.compare(node)["equal"]
        notes = "select note, count(*) from scenario.token_a group by note order by note"
        assert node.database.execute(notes) == root.database.execute(notes)
        assert node.database.execute(
            "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where i.indrelid = 'scenario.token_a'::regclass and i.indisvalid order by 1"
        ) == [("token_a_note",), ("token_a_pkey",)]
        assert node.database.value("select count(*) from pg_index where not indisvalid") == 0
    assert root.database.execute("select * from londiste.stale_captures(null)") == []
    assert root.database.execute("select * from londiste.lost_captures(%s)", QUEUE) == []


def states(cascade: Cascade, root: Node) -> set[str]:
    """The states of all parts on all nodes."""
    found = json.loads(cascade.londiste(root, "execute", "status", "--json").out)["scripts"]
    assert sorted({row["script"] for row in found}) == PARTS
    return {row["state"] for row in found}
