"""Daemons whose sessions are read only for a time report that, and continue afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.cascade.daemons import Life
from londiste.cascade.model import NodeType
from londiste.monitor import status
from londiste.monitor.status import NodeStatus
from tests.fixtures.cluster import Database
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.fixtures.process import Program
from tests.support.waiting import wait_for

TABLE = "create table t (id int primary key)"
END_SESSIONS = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where datname = current_database() and pid <> pg_backend_pid()"
)
REASON = "read-only transaction"


def close(database: Database) -> None:
    """New sessions of the database are read only; the present ones end."""
    database.execute(f'alter database "{database.name}" set default_transaction_read_only = on')
    database.execute(END_SESSIONS)


def reopen(database: Database) -> None:
    database.execute(
        "begin read write;"
        f' alter database "{database.name}" reset default_transaction_read_only; commit'
    )


def of(node: LineNode) -> NodeStatus:
    return status.collect(node.database.dsn, QUEUE).node(node.name)


def test_a_worker_reports_a_read_only_node_and_continues_after_it(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=TABLE)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=TABLE)
    line.add(root, "t")
    line.add(leaf, "t")
    line.start(leaf)
    root.database.execute("insert into t values (1)")
    line.wait_position(leaf, line.tick())
    close(leaf.database)

    def failing() -> bool:
        root.database.execute("insert into t select max(id) + 1 from t")
        line.tick()
        seen = of(leaf)
        lives = seen.worker is not None and seen.worker.life is Life.ALIVE
        return lives and any(REASON in text for _, text in seen.errors)

    wait_for(failing, what="a worker that lives and fails")
    reopen(leaf.database)
    line.wait_position(leaf, line.tick())
    assert not of(leaf).errors


@pytest.mark.slow
def test_a_worker_continues_after_a_read_only_provider(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=TABLE)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=TABLE)
    line.add(root, "t")
    line.add(leaf, "t")
    line.start(leaf)
    root.database.execute("insert into t values (1)")
    line.wait_position(leaf, line.tick())
    close(root.database)

    def failing() -> bool:
        # A provider without a new batch is only read.
        for statement in (
            "insert into t select max(id) + 1 from t",
            f"select pgq.force_tick('{QUEUE}')",
            f"select pgq.ticker('{QUEUE}')",
        ):
            root.database.execute(f"begin read write; {statement}; commit")
        return any(REASON in text for _, text in of(leaf).errors)

    line.wait(failing, "the error")
    reopen(root.database)
    root.database.execute("insert into t select max(id) + 1 from t")
    line.wait_position(leaf, line.tick())
    assert not of(leaf).errors


def test_a_ticker_reports_a_read_only_database_and_continues_after_it(
    line: Line, program: Callable[..., Program]
) -> None:
    root = line.node("root", NodeType.ROOT)
    program("--set", "max_retry_delay=0.2", "ticker", "--db", root.database.dsn)
    ticks = "select max(tick_id) from pgq.tick"

    def shown() -> str:
        return "\n".join(one.text for one in of(root).daemons)

    wait_for(lambda: "ticker: alive" in shown(), what="a ticker")
    close(root.database)
    wait_for(
        lambda: "ticker: alive" in shown() and REASON in shown(),
        what="a ticker that lives and fails",
    )
    reopen(root.database)
    before = root.database.execute(ticks)
    root.database.execute("select pgq.force_tick(%s)", QUEUE)
    wait_for(lambda: root.database.execute(ticks) != before, what="a tick")
    wait_for(lambda: "FAILING" not in shown(), what="a ticker without an error")
