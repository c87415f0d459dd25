"""Watermarks go up and down; a group of nodes below a branch keeps no events upstream."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from londiste.cascade.model import NodeType, Subscriber
from londiste.cascade.watermark import group_watermark
from londiste.monitor.retention import held
from londiste.pgq.types import ConsumerInfo
from tests.fixtures.line import QUEUE, Command, Line, LineNode

SCHEMA = "create table public.t (id int primary key)"
FAST = {"local_wm_publish_period": 0.05, "global_wm_publish_period": 0.05}


def marker(node: LineNode, name: str) -> int:
    """Where a marker consumer stands in a node's queue."""
    return int(
        node.database.value("select last_tick from pgq.get_consumer_info(%s, %s)", QUEUE, name)
    )


def test_a_group_that_lags_keeps_events_on_its_branch_only(line: Line, command: Command) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA, **FAST)
    far = line.node("far", NodeType.BRANCH, root, schema=SCHEMA, **FAST)
    below = line.node("below", NodeType.LEAF, far, schema=SCHEMA, **FAST)
    for node in (root, far, below):
        line.add(node, "t")
    line.start(far)
    behind = line.position(below)

    def goes_on() -> None:
        """A tick that ``far`` has, and that the root has heard of from it."""
        root.database.execute("insert into t select coalesce(max(id), 0) + 1 from t")
        line.wait_position(far, line.tick())
        # As the root's worker does, every second.
        root.database.execute("select pgq_node.set_global_watermark(%s, null)", QUEUE)

    def reported() -> bool:
        goes_on()
        return marker(root, ".far.watermark") > behind

    # The leaf does not run: all wait for it.
    goes_on()
    goes_on()
    assert marker(root, ".far.watermark") == behind
    refused = command(root, "sync-watermark", "far")
    assert (refused.code, "only a branch can keep a watermark" in refused.err) == (3, True)
    assert command(far, "sync-watermark", "nobody").code == 2
    explained = command(root, "sync-watermark", "below", "--node", "far", "--dry-run")
    assert "far: keep its own watermark, of below" in explained.out
    assert command(root, "sync-watermark", "below", "--node", "far").code == 0
    assert "already" in command(root, "sync-watermark", "below", "--node", "far").err
    line.wait(reported, "the branch's own tick on the root")
    line.wait(
        lambda: goes_on() or marker(root, ".global_watermark") > behind, "the root's watermark"
    )
    goes_on()
    # Here they are kept, and those below hear of the branch's watermark.
    assert marker(far, ".global_watermark") == behind
    told = far.database.execute(
        "select ev_data::int8 from pgq.event_1 where ev_type = 'pgq.global-watermark'"
        " order by ev_id desc limit 1"
    )
    assert told == [(behind,)]
    found = json.loads(command(root, "status", "--json").out)["nodes"]
    by_name = {node["name"]: node for node in found}
    assert by_name["far"]["attrs"] == {"sync_watermark": "below"}
    assert by_name["far"]["held"]["who"].startswith("node below")
    assert by_name["far"]["global_watermark"] == behind < by_name["root"]["global_watermark"]
    # When the group comes along, so does its watermark.
    line.start(below)
    line.wait(
        lambda: goes_on() or marker(far, ".global_watermark") > behind, "the group's watermark"
    )
    assert command(far, "rename-node", "below", "beneath").code == 0
    assert command(far, "sync-watermark").out.split() == ["node", "beneath"]
    assert command(far, "sync-watermark", "--off").code == 0
    assert far.database.value("select node_attrs from pgq_node.node_info") is None


def test_watermark_moves_after_nodes_of_a_group_are_dropped_or_renamed(
    line: Line, command: Command
) -> None:
    root = line.node("root", NodeType.ROOT, **FAST)
    far = line.node("far", NodeType.BRANCH, root, **FAST)
    for name in ("a", "b", "gone"):
        line.node(name, NodeType.LEAF, far, **FAST)
    done = command(root, "sync-watermark", "a", "b", "gone", "--node", "far")
    assert done.code == 0, done
    line.start(far)
    line.wait_position(far, line.tick())

    def moves() -> None:
        """Past what is there now, once the markers of those below do not keep it."""
        far.database.execute(
            "select pgq_node.set_subscriber_watermark('line', s.node_name, c.last_tick),"
            " pgq.register_consumer_at('line', s.worker_name, c.last_tick)"
            " from pgq_node.get_subscriber_info('line') s,"
            " lateral (select max(tick_id) as last_tick from pgq.tick) c"
        )
        root.database.execute("select pgq_node.set_global_watermark(%s, null)", QUEUE)
        line.wait_position(far, line.tick())

    def group() -> object:
        return far.database.value("select node_attrs from pgq_node.node_info")

    # While the worker runs: it reads the group again.
    assert command(root, "rename-node", "a", "first").code == 0
    assert command(root, "drop-node", "b").code == 0
    assert group() == "sync_watermark=first%2Cgone"
    # By another program: the name stays in the group.
    for node in (far, root):
        node.database.execute("select pgq_node.unregister_location(%s, 'gone')", QUEUE)
    before = marker(far, ".global_watermark")

    def first_applies() -> bool:
        moves()
        tick = far.database.value("select max(tick_id) from pgq.tick")
        line.nodes["a"].database.execute("update pgq_node.local_state set last_tick_id = %s", tick)
        return marker(far, ".global_watermark") > before

    line.wait(first_applies, "the watermark of the group")
    assert command(root, "drop-node", "first").code == 0
    assert group() == "sync_watermark=gone"
    found = json.loads(command(root, "status", "--check", "--json").out)["findings"]
    assert "watermark-group" in {one["kind"] for one in found}, found
    before = marker(far, ".global_watermark")
    line.wait(lambda: moves() or marker(far, ".global_watermark") > before, "its own watermark")
    assert command(root, "sync-watermark", "--off", "--node", "far").code == 0
    found = json.loads(command(root, "status", "--check", "--json").out)["findings"]
    assert "watermark-group" not in {one["kind"] for one in found}, found


def test_the_lowest_counts_and_nothing_moves_while_one_is_unknown() -> None:
    assert group_watermark(7, 9, {"a": 8}) == 7
    assert group_watermark(7, 5, {}) == 5
    assert group_watermark(7, 9, {"a": 3}) == 3
    assert group_watermark(7, 9, {"a": None}) is None
    assert group_watermark(7, None, {}) is None


@pytest.mark.parametrize(
    ("consumer", "words", "do"),
    [
        (".n.watermark", "node n, or one below it", "londiste status names the node"),
        ("w", "node n", "start the worker of node n"),
        ("w.copy.public.t", "a copy of node n", "start the worker of node n"),
        ("m.gravestone", "londiste resurrect", "londiste resurrect --node m"),
        (".global_watermark", "slowest node", "londiste status names the node"),
        ("reports", "consumer reports", "start it, or: londiste queue status q"),
    ],
)
def test_who_keeps_events_and_what_to_do_is_said_in_words(
    consumer: str, words: str, do: str
) -> None:
    below = [Subscriber("n", "w", 1), Subscriber("m", "m.gravestone", 1)]
    lag = timedelta(hours=1)
    found = held([ConsumerInfo("q", consumer, lag, lag, 1, None, None, 5)], below)
    assert found is not None
    assert words in found.who and found.do.startswith(do)
    assert held([], below) is None
