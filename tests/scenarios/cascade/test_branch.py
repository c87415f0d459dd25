"""A branch forwards what it applies: the same events, the same ticks."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import QUEUE, Cascade, Node
from tests.support.scenarios.writers import TokenWriter

TABLES = (*writers.KEYED, *writers.KEYLESS)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("", marks=pytest.mark.slow),
        pytest.param("worker.after-commit", marks=pytest.mark.slow),
        pytest.param("worker.before-commit", marks=pytest.mark.slow),
        pytest.param("worker.mid-apply", marks=pytest.mark.slow),
        pytest.param("worker.before-finish", marks=pytest.mark.slow),
        pytest.param("worker.after-finish", marks=pytest.mark.slow),
    ],
)
def test_a_leaf_behind_a_branch_equals_the_root_when_the_branch_is_killed_at(
    point: str, cascade: Cascade, cluster16: Server
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
        writer.wait(30)
        if point:
            cascade.stop(branch.worker)
            worker = cascade.start_worker(branch, crash=point)
            cascade.wait_crash(worker, point)
            assert worker.wait() == -signal.SIGKILL
            writer.wait(30)
            cascade.start_worker(branch)
            cascade.wait_progress(branch)
        writer.wait(30)
        writer.stop()
    cascade.wait_root(branch)
    cascade.wait_root(leaf)
    for node in (branch, leaf):
        oracles.assert_same_rows(root.database, node.database, TABLES)
        assert oracles.applied_twice(node.database) == []
        assert cascade.compare(node)["equal"]
    cascade.stop(cascade.ticker)
    cascade.stop(branch.worker)
    assert_same_queue(root, branch)


def assert_same_queue(root: Node, branch: Node) -> None:
    """Events and ticks of the branch are the root's, from its first tick to its last."""
    ticks = "select tick_id, tick_event_seq from pgq.tick join pgq.queue on tick_queue = queue_id"
    there = dict(branch.database.execute(ticks))
    here = dict(root.database.execute(ticks))
    assert len(there) > 5
    common = {tick for tick in here if min(there) <= tick <= max(there)}
    assert common == {tick for tick in there if tick >= min(here)}
    # The branch's sequence stands at the last event it has, as the root's did.
    assert {tick: here[tick] for tick in common} == {tick: there[tick] for tick in common}
    first, last = there[min(there)], there[max(there)]
    events_there = _events(branch, first, last)
    assert len(events_there) > 100
    assert events_there == _events(root, first, last)


def _events(node: Node, first: int, last: int) -> list[tuple[Any, ...]]:
    (table,) = node.database.execute(
        "select queue_data_pfx from pgq.queue where queue_name = %s", QUEUE
    )[0]
    return node.database.execute(
        "select ev_id, extract(epoch from ev_time), ev_type, ev_data,"
        " ev_extra1, ev_extra2, ev_extra3, ev_extra4"
        f" from {table} where ev_id > %s and ev_id <= %s order by ev_id, ev_type, ev_data",
        first,
        last,
    )
