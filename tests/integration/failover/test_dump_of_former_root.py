"""The root changes while the event tables of a former or present root are read, as by pg_dump."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import closed, takes_events
from tests.fixtures.line import QUEUE, Command, Line, LineNode

LEFT = "select count(*) from pg_trigger where tgname = 'pgq_node_closed'"


@contextmanager
def _dump(node: LineNode) -> Iterator[None]:
    with psycopg.connect(node.database.dsn) as conn:
        conn.execute("begin isolation level repeatable read")
        for (table,) in conn.execute(
            "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname = 'pgq'"
        ).fetchall():
            conn.execute(f"lock table {table} in access share mode")
        yield
        conn.rollback()


def _done(command: Command, node: LineNode, *args: str) -> None:
    done = command(node, *args)
    assert done.code == 0, done


@pytest.fixture
def pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT)
    one = line.node("one", NodeType.BRANCH, root)
    line.start(root)
    line.start(one)
    line.wait_position(one, line.tick())
    return root, one


def test_root_is_switched_back_while_it_is_dumped(
    line: Line, command: Command, pair: tuple[LineNode, LineNode]
) -> None:
    root, one = pair
    _done(command, root, "switchover", "--to", "one")
    with _dump(root):
        _done(command, root, "switchover", "--to", "root")
        assert [takes_events(n.database, QUEUE) for n in (root, one)] == [True, False]
    assert root.database.value(LEFT) > 0
    _done(command, root, "queue", "maint")
    assert root.database.value(LEFT) == 0
    # A root that is dumped is closed, and opened again when the new one is too late.
    assert one.worker is not None
    one.worker.kill()
    with _dump(root):
        late = command(root, "switchover", "--to", "one", "--timeout", "0", "--block", "0.1")
        assert late.code == 6 and "everything is undone" in late.err, late
        assert [takes_events(n.database, QUEUE) for n in (root, one)] == [True, False]


def test_former_root_takes_over_while_it_is_dumped(
    command: Command, pair: tuple[LineNode, LineNode]
) -> None:
    root, one = pair
    _done(command, root, "switchover", "--to", "one", "--all")
    with _dump(root), closed(one.database):
        _done(command, root, "takeover", "one", "--failover", "--timeout", "5")
        assert takes_events(root.database, QUEUE)
