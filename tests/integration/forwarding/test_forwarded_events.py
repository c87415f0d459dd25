"""A branch keeps the same events under the same ids and ticks, whatever kills its worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from londiste.cascade.forward import Forwarder
from londiste.cascade.model import NodeType
from londiste.cascade.progress import NodeProgress
from londiste.db.connection import Connection
from londiste.errors import EventError, PositionLost, StateError, Superseded
from londiste.pgq import batches
from londiste.pgq.blocks import EventBlock
from londiste.pgq.types import Batch
from londiste.replication.parallel.size_limit import SizeLimits
from tests.fixtures.cascade import QUEUE, Node, Nodes


@dataclass
class Pair:
    """A root, a branch below it, and the sessions of the branch's worker."""

    root: Node
    branch: Node
    source: Connection
    target: Connection
    progress: NodeProgress
    forwarder: Forwarder

    def write(self, count: int = 3) -> None:
        """Some events and a tick on the root."""
        self.root.db.execute(
            "select pgq.insert_event("
            " 'q', 'type ' || i, E'da\\tta\\\\N\\n' || i, 'e1', null, '', 'ü')"
            " from generate_series(1, %s) i",
            count,
        )
        self.root.tick()

    def batch(self) -> Batch:
        found = batches.next_batch(self.source, QUEUE, self.branch.worker)
        assert found is not None
        return found

    def commit(self, batch: Batch) -> None:
        """What the worker does in one transaction."""
        with self.target.transaction():
            for block in batches.stream(self.source, batch, block_bytes=100):
                self.forwarder.forward(block)
            self.progress.completed(batch)

    def finish(self, batch: Batch) -> None:
        batches.finish_batch(self.source, batch.id)

    def follow(self) -> None:
        """Everything that the root has, without incident."""
        while (batch := batches.next_batch(self.source, QUEUE, self.branch.worker)) is not None:
            self.commit(batch)
            self.forwarder.tick(batch)
            self.finish(batch)


@pytest.fixture
def pair(nodes_of: Nodes) -> Iterator[Pair]:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    source = root.connect()
    target = branch.connect(replica=True)
    yield Pair(
        root,
        branch,
        source,
        target,
        NodeProgress(target, QUEUE, branch.worker),
        Forwarder(target, QUEUE),
    )


def per_tick(node: Node) -> list[Any]:
    """Every tick with its time and the events between it and the one before."""
    result = []
    ticks = node.db.execute(
        "select tick_id, tick_time, tick_event_seq from pgq.tick order by tick_id"
    )
    node.db.execute("select pgq.register_consumer_at('q', 'reader', %s)", ticks[0][0])
    with node.connect() as conn:
        while (batch := batches.next_batch(conn, QUEUE, "reader")) is not None:
            events = [
                (e.id, e.time, e.type, e.data, e.extra1, e.extra2, e.extra3, e.extra4)
                for chunk in batches.events(conn, batch)
                for e in chunk
            ]
            result.append((batch.tick_id, batch.tick_time, batch.event_seq, events))
            batches.finish_batch(conn, batch.id)
    node.db.execute("select pgq.unregister_consumer('q', 'reader')")
    return result


def test_events_and_ticks_of_a_branch_are_those_of_the_root(pair: Pair) -> None:
    for count in (3, 0, 5, 1):
        pair.write(count)
    pair.follow()
    assert per_tick(pair.branch) == per_tick(pair.root)
    # The first is the news of the branch's own location.
    assert [len(tick[3]) for tick in per_tick(pair.root)] == [4, 0, 5, 1]
    assert pair.branch.db.value("select last_value from pgq.event_1_id_seq") >= pair.root.db.value(
        "select max(ev_id) from pgq.event_template"
    )


def test_a_transaction_longer_than_a_tick_is_a_large_batch_below_a_branch_too(pair: Pair) -> None:
    with pair.root.connect(autocommit=False) as large:
        large.execute("select pgq.insert_event('q', 't', 'd') from generate_series(1, 5000)")
        for _ in range(3):
            pair.write(1)
        large.commit()
    pair.write(1)
    pair.follow()
    pair.branch.db.execute("select pgq.register_consumer_at('q', 'reader', 1)")
    limits, found = SizeLimits(), []
    with pair.branch.connect() as conn:
        while (batch := batches.next_batch(conn, QUEUE, "reader")) is not None:
            assert limits.may_reach(batch, 5000)
            count = sum(map(len, batches.stream(conn, batch)))
            found.append((count, limits.ask(conn, batch)))
            batches.finish_batch(conn, batch.id)
    assert found[-1][0] > 5000
    assert all(count <= limit for count, limit in found), found
    assert all(limit < 5000 for count, limit in found if count == 1), found


def test_a_worker_that_died_before_the_tick_makes_only_the_tick(pair: Pair) -> None:
    pair.write()
    batch = pair.batch()
    assert not pair.progress.seen(batch)
    pair.commit(batch)
    # A new process gets the same batch.
    again = pair.batch()
    assert again == batch
    assert pair.progress.seen(again)
    assert pair.forwarder.recover(again) is True
    assert pair.forwarder.recover(again) is False
    pair.finish(again)
    assert per_tick(pair.branch) == per_tick(pair.root)


def test_a_worker_that_died_after_the_tick_makes_nothing(pair: Pair) -> None:
    pair.write()
    batch = pair.batch()
    pair.commit(batch)
    pair.forwarder.tick(batch)
    assert pair.progress.seen(pair.batch())
    assert pair.forwarder.recover(batch) is False
    pair.finish(batch)
    pair.write(2)
    pair.follow()
    assert per_tick(pair.branch) == per_tick(pair.root)


def test_a_worker_that_died_before_the_commit_leaves_nothing(pair: Pair) -> None:
    pair.write()
    batch = pair.batch()
    with pytest.raises(ZeroDivisionError), pair.target.transaction():
        for block in batches.stream(pair.source, batch):
            pair.forwarder.forward(block)
        pair.progress.completed(batch)
        raise ZeroDivisionError
    assert not pair.progress.seen(batch)
    pair.follow()
    assert per_tick(pair.branch) == per_tick(pair.root)


def test_of_two_workers_only_one_writes_a_batch(pair: Pair) -> None:
    pair.write()
    batch = pair.batch()
    pair.commit(batch)
    with pytest.raises(Superseded):
        pair.commit(batch)
    pair.forwarder.tick(batch)
    pair.finish(batch)
    assert per_tick(pair.branch) == per_tick(pair.root)


def test_a_queue_that_does_not_fit_stops_the_worker(pair: Pair) -> None:
    pair.write()
    batch = pair.batch()
    pair.commit(batch)
    pair.branch.db.execute("select pgq.ticker('q', %s, now(), 1)", batch.tick_id + 100)
    with pytest.raises(PositionLost, match="ends at tick"):
        pair.forwarder.recover(batch)
    pair.branch.db.execute("update pgq_node.local_state set last_tick_id = 77")
    with pytest.raises(PositionLost, match="at tick 77"):
        pair.progress.seen(batch)


def test_a_tick_inside_the_transaction_of_its_events_is_refused(pair: Pair) -> None:
    pair.write()
    batch = pair.batch()
    with pytest.raises(StateError, match="in a transaction"), pair.target.transaction():
        pair.forwarder.tick(batch)


def test_a_retried_event_stops_the_worker(pair: Pair) -> None:
    pair.write(1)
    batch = pair.batch()
    pair.root.db.execute("update pgq.event_template set ev_retry = 1 where ev_type = 'type 1'")
    (block,) = batches.stream(pair.source, batch)
    with pytest.raises(EventError, match="is a retried event") as caught, pair.target.transaction():
        pair.forwarder.forward(block)
    assert caught.value.event_id == next(event.id for event in block if event.retry)
    assert pair.branch.db.value("select count(*) from pgq.event_template") == 0


def test_a_session_without_role_replica_cannot_write_to_a_branch(pair: Pair) -> None:
    with pair.branch.connect() as conn, pytest.raises(StateError, match=r"[Ww]riting to queue"):
        Forwarder(conn, QUEUE).forward(EventBlock(b"", 0))
