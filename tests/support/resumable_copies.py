"""Resumable copies that a test steps through, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable

from tests.fixtures.copies import A, Nodes, same
from tests.support.stepped import Stepped

Between = Callable[[int, int], None]


def resumable(nodes: Nodes, between: Between = lambda done, left: None) -> Stepped:
    """Every table is copied in the resumable way; ``between`` is called between its chunks."""

    def ticking(done: int, left: int) -> None:
        between(done, left)
        if left == 0:
            # There is no worker in these tests: what comes after the hand-over stays in the queue.
            nodes.root.execute("select pgq.force_tick('q')")
            nodes.root.execute("select pgq.ticker('q')")

    engine = Stepped(ticking)
    nodes.engine = engine
    nodes.resumable_from = 0
    return engine


def copied(nodes: Nodes) -> None:
    """Waits until the table is in step, and compares."""
    nodes.start()
    nodes.wait_end()
    assert nodes.failure is None
    in_step(nodes)


def in_step(nodes: Nodes) -> None:
    assert nodes.state(A) == "ok"
    assert same(nodes, A)
    assert nodes.leaf.execute("select custom_snapshot, dropped_ddl from londiste.table_info") == [
        (None, None)
    ]
    assert nodes.consumers() == []
    for table in ("copy_attempt", "copy_chunk", "copy_range"):
        assert nodes.leaf.value(f"select count(*) from londiste.{table}") == 0
    assert nodes.leaf.value("select count(*) from pg_constraint where conname = 'a_pkey'") == 1


def choice(nodes: Nodes) -> tuple[str, str]:
    """The way that was taken, and why."""
    ((mode, reason),) = nodes.leaf.execute("select mode, reason from londiste.copy_choice")
    return mode, reason
