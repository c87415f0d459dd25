"""Consumers whose position is in a node of a cascade."""

from __future__ import annotations

from typing import Any

import pytest

import londiste
from londiste import CascadedConsumer, Context, Event, Retry
from londiste.cascade import sqlapi as nodes
from londiste.cascade.forward import Forwarder
from londiste.cascade.model import NodeType
from londiste.cascade.progress import NodeProgress
from londiste.consumer.factory import Parts
from londiste.consumer.source import QueueSource
from londiste.errors import EventError, PositionLost, UnknownConsumer
from londiste.pgq import batches, position_check, ticks
from tests.fixtures.cascade import QUEUE, Node, Nodes
from tests.integration.forwarding.test_forwarded_events import Pair
from tests.support.waiting import wait_for


class Storing(CascadedConsumer):
    """Stores what it gets."""

    queue = QUEUE
    name = "storing"

    def process_event(self, event: Event, ctx: Context) -> None:
        if event.type == "t":
            ctx.db.execute("insert into effects values (%s)", [event.data])
        if event.data == "again":
            raise Retry(1)


def prepared(node: Node) -> Any:
    node.db.execute("create table effects (data text)")
    return Storing(node.dsn, poll_interval=0.05)


def send(root: Node, *data: str) -> None:
    with londiste.Producer(root.dsn, QUEUE) as producer:
        producer.send_many([("t", text) for text in data])
    root.tick()


def effects(node: Node) -> list[str]:
    return [data for (data,) in node.db.execute("select data from effects")]


def test_effects_and_position_are_in_the_node(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    consumer = prepared(leaf)
    with pytest.raises(UnknownConsumer, match="consumer storing is not registered on queue q"):
        consumer.run_once()
    assert consumer.register()
    assert not consumer.register()
    send(root, "a", "b")
    send(root, "c")
    assert consumer.run_once() == 2
    assert effects(leaf) == ["a", "b", "c"]
    with leaf.connect() as conn:
        state = nodes.get_consumer_state(conn, QUEUE, "storing")
        assert (state.provider, state.uptodate) == ("root", True)
        # A batch that the queue hands out again is only finished.
        root.db.execute(
            "select pgq.register_consumer_at('q', 'storing', %s)", state.completed_tick - 1
        )
    assert consumer.run_once() == 1
    assert effects(leaf) == ["a", "b", "c"]
    assert consumer.unregister()
    assert not consumer.unregister()
    assert root.db.value("select count(*) from pgq.get_consumer_info('q', 'storing')") == 0


def test_a_root_consumes_its_own_queue(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    consumer = prepared(root)
    assert consumer.register()
    send(root, "a")
    assert consumer.run_once() == 1
    assert effects(root) == ["a"]


def test_paused_node_pauses_its_consumer(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    consumer = prepared(root)
    consumer.register()
    assert consumer.pause()
    assert not consumer.pause()
    send(root, "a")
    assert consumer.run_once() == 0
    assert consumer.resume()
    assert prepared_again(root).run_once() == 1


def prepared_again(node: Node) -> Storing:
    return Storing(node.dsn, poll_interval=0.05)


def test_mismatched_position_is_detected_and_repaired(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    consumer = prepared(root)
    consumer.register()
    for text in "abc":
        send(root, text)
    assert consumer.run_once() == 3
    first = root.db.value("select min(tick_id) from pgq.tick")
    root.db.execute("select pgq.register_consumer_at('q', 'storing', %s)", first)
    with pytest.raises(PositionLost, match="is at tick"):
        consumer.run_once()
    top = consumer.rewind()
    assert consumer.run_once() == 0
    root.db.execute("select pgq.register_consumer_at('q', 'storing', %s)", top - 1)
    assert consumer.reset() == top - 1
    assert consumer.run_once() == 1
    assert effects(root) == ["a", "b", "c", "c"]


def test_events_are_not_retried_in_a_cascade(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    consumer = prepared(root)
    consumer.register()
    send(root, "again")
    with pytest.raises(EventError, match="cannot retry it"):
        consumer.run_once()
    assert effects(root) == []


def test_recreated_queue_is_detected(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    consumer = prepared(leaf)
    consumer.register()
    send(root, "a")
    assert consumer.run_once() == 1
    # The same position under the same name, in another registration that began elsewhere.
    with leaf.connect() as conn:
        tick = nodes.get_consumer_state(conn, QUEUE, "storing").completed_tick
    root.db.execute("select pgq.unregister_consumer('q', 'storing')")
    send(root, "never seen")
    root.db.execute("select pgq.register_consumer('q', 'storing')")
    with pytest.raises(PositionLost, match=f"cannot continue at tick {tick} of root") as caught:
        consumer.run_once()
    assert "registered again" in caught.value.detail
    consumer.reset()
    send(root, "b")
    assert consumer.run_once() == 1
    assert effects(leaf) == ["a", "b"]


def follow(root: Node, branch: Node) -> None:
    """The branch takes all that the root has."""
    with root.connect() as source, branch.connect(replica=True) as target:
        progress = NodeProgress(target, QUEUE, branch.worker)
        Pair(root, branch, source, target, progress, Forwarder(target, QUEUE)).follow()


def moved_while_it_did_not_run(nodes_of: Nodes) -> tuple[Node, Node, Node, Any]:
    """Root, a branch and a leaf, whose consumer was told to read from the branch; it is ahead."""
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(root, "leaf")
    consumer = prepared(leaf)
    consumer.register()
    follow(root, branch)
    with branch.connect() as target:
        first = ticks.newest(target, QUEUE)
        assert first is not None
        # The command registers it where it stands, and it goes on for a while at the root.
        batches.register_consumer_at(target, QUEUE, "storing", first.id)
    for text in "ab":
        send(root, text)
        assert consumer.run_once() == 1
    with leaf.connect() as conn:
        nodes.change_consumer_provider(conn, QUEUE, "storing", "branch")
    return root, branch, leaf, consumer


def test_consumer_started_after_its_move_continues_at_the_new_provider(
    nodes_of: Nodes,
) -> None:
    root, branch, leaf, _ = moved_while_it_did_not_run(nodes_of)
    send(root, "c")
    follow(root, branch)
    consumer = Storing(leaf.dsn, poll_interval=0.05)
    assert consumer.run_once() == 1
    assert effects(leaf) == ["a", "b", "c"]


def test_consumer_waits_for_a_provider_that_lags_behind_it(
    nodes_of: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    root, branch, leaf, _ = moved_while_it_did_not_run(nodes_of)
    consumer = Storing(leaf.dsn, poll_interval=0.05)
    try:
        assert not consumer.work()
        assert "paused: node branch has not reached tick" in caplog.text
        send(root, "c")
        follow(root, branch)
        wait_for(lambda: consumer.work() and effects(leaf) == ["a", "b", "c"], what="event c")
    finally:
        consumer.close()
    with leaf.connect() as conn:
        assert nodes.get_consumer_state(conn, QUEUE, "storing").uptodate


def test_consumer_continues_after_the_same_tick_at_another_provider(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    consumer = prepared(leaf)
    consumer.register()
    send(root, "a")
    assert consumer.work()
    # The same database by another name stands for another node that has the queue.
    root.db.execute("select pgq_node.register_location('q', 'twin', %s, false)", root.dsn)
    with leaf.connect() as conn:
        conn.execute(
            "select pgq_node.register_location('q', 'twin', %s, false)",
            [root.dsn + " application_name=twin"],
        )
        nodes.change_consumer_provider(conn, QUEUE, "storing", "twin")
        send(root, "b")
        while not nodes.get_consumer_state(conn, QUEUE, "storing").uptodate:
            consumer.work()
    consumer.run_once()
    assert effects(leaf) == ["a", "b"]


def test_a_move_while_a_consumer_opens_its_old_provider_loses_no_position(
    nodes_of: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(root, "leaf")
    prepared(leaf).register()
    send(root, "a")
    follow(root, branch)
    with leaf.connect() as node, branch.connect() as target:
        tick = nodes.get_consumer_state(node, QUEUE, "storing").completed_tick
        begin, moved = Parts.begin, []

        def slow(self: Parts, on: QueueSource) -> None:
            begin(self, on)
            if not moved:
                moved.append(1)
                batches.register_consumer_at(target, QUEUE, "storing", tick)
                nodes.change_consumer_provider(node, QUEUE, "storing", "branch")

        monkeypatch.setattr(Parts, "begin", slow)
        consumer = Storing(leaf.dsn, poll_interval=0.05)
        consumer.run_once()
        known = position_check.recall(node, QUEUE, "storing")
        facts = position_check.look(target, QUEUE, "storing", known, tick)
    assert known is not None
    assert (known.source, known.generation) == ("branch", facts.generation)
    # A restart finds what the first one has recorded.
    Storing(leaf.dsn, poll_interval=0.05).run_once()
    assert effects(leaf) == ["a"]
