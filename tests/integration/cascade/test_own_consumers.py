"""Consumers that the cascade has registered are not dropped like those of applications."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType, Subscriber
from londiste.cascade.own_consumers import OwnConsumer, own_consumer
from londiste.cascade.switching.steps.readers import refuse_taken_name
from londiste.db.connection import Connection
from londiste.errors import StateError, UsageError
from londiste.monitor.queues import collect, rules
from londiste.pgq import batches, queues
from londiste.pgq.consumers import ConsumerKind
from londiste.shell.session import Session
from londiste.shell.statements import execute
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.support.servers.kept_nodes import kept_nodes

WORKER, COPY, MARK, STONE = "w_leaf", "w_leaf.copy.public.t", ".leaf.watermark", "old.gravestone"
OWN = (WORKER, COPY, MARK, ".global_watermark", STONE, ".old.watermark")
#: What each of them is answered, in findings and refusals.
WAYS_OUT = {
    WORKER: "start the worker of node leaf; or, if it will not return: londiste drop-node leaf"
    " --ignore-unreachable",
    MARK: "londiste status names the node that keeps these events; start its worker; or, if it"
    " will not return: londiste drop-node NODE --ignore-unreachable",
    STONE: "londiste resurrect --node old; or, only if it will never return: londiste drop-node"
    " old",
}
WAYS_OUT |= {COPY: WAYS_OUT[WORKER], ".global_watermark": WAYS_OUT[MARK]}
WAYS_OUT[".old.watermark"] = WAYS_OUT[STONE]


NAMES = {
    "w": OwnConsumer(ConsumerKind.NODE, "n"),
    "w.copy.public.t": OwnConsumer(ConsumerKind.COPY, "n"),
    ".n.watermark": OwnConsumer(ConsumerKind.WATERMARK, "n"),
    ".m.watermark": OwnConsumer(ConsumerKind.WATERMARK, "m", failed=True),
    "m.gravestone": OwnConsumer(ConsumerKind.NODE, "m", failed=True),
    ".global_watermark": OwnConsumer(ConsumerKind.WATERMARK),
    **dict.fromkeys(("reports", ".other", "gravestone", ".gravestone", "w.copy")),
}


@pytest.fixture
@kept_nodes
def root(nodes_of: Nodes) -> Node:
    """A root with a leaf that copies a table, a failed root, and a consumer of an application."""
    node = nodes_of.root()
    nodes_of.below(node, "leaf", NodeType.LEAF)
    node.db.execute("select pgq_node.register_location('q', 'old', 'dbname=old', true)")
    node.db.execute("select pgq_node.register_subscriber('q', 'old', 'old.gravestone', null)")
    with node.connect() as conn:
        batches.register_consumer(conn, QUEUE, COPY)
        batches.register_consumer(conn, QUEUE, "mailer")
    return node


def names(node: Node) -> set[str]:
    with node.connect() as conn:
        return {one.consumer_name for one in queues.get_consumer_info(conn, QUEUE)}


def remedies(conn: Connection, kind: str) -> dict[str, str]:
    found = rules.findings(collect.collect(conn, QUEUE))
    return {one.consumer: one.do for one in found if one.kind == kind}


def test_findings_about_them_name_the_command_of_their_node(root: Node) -> None:
    tick = root.tick()
    with root.connect() as conn:
        conn.execute("update pgq.queue set queue_switch_time = now() - interval '1 day'")
        conn.execute(
            "update pgq.queue set queue_switch_step2 = (select txid_snapshot_xmax(tick_snapshot)"
            " from pgq.tick where tick_id = %s)",
            [tick - 1],
        )
        conn.execute("update pgq.subscription set sub_active = now() - interval '2 hours'")
        # The newest tick is after the last rotation, and no consumer has it.
        conn.execute("select txid_current()")
        root.tick()
        for kind in ("rotation-pinned", "consumer-inactive"):
            found = remedies(conn, kind)
            assert {name: found.get(name) for name in OWN} == WAYS_OUT, kind
            assert found["mailer"] == "start it, or: londiste queue unregister q mailer"
        conn.execute("update pgq.subscription set sub_last_tick = 100000")
        lost = remedies(conn, "position-lost")
    assert lost["mailer"].startswith("londiste queue register q mailer --at TICK")
    assert lost[WORKER] == "with the settings of node leaf: londiste worker --rewind"
    assert lost[COPY].startswith(
        "with the settings of node leaf: londiste tables, and londiste resync"
    )
    assert "londiste drop-node old, then londiste create-branch old" in lost[STONE]
    assert "the next reports of all nodes move it" in lost[MARK]
    assert not [text for name, text in lost.items() if name in OWN and "queue register" in text]


def test_they_are_not_unregistered_or_moved_without_consent(
    root: Node, londiste: CommandLine
) -> None:
    for name in OWN:
        before = names(root)
        for call in (("unregister", QUEUE, name), ("register", QUEUE, name, "--at", "1")):
            refused = londiste(root.db, "queue", *call)
            assert refused.code == 3, refused.err
            assert f"queue q: the cascade needs the position of {name}" in refused.err
            hint = f"hint: {WAYS_OUT[name]}; or proceed: londiste queue {' '.join(call)}"
            assert hint in refused.err
        assert names(root) == before, name
        done = londiste(root.db, "queue", "unregister", QUEUE, name, "--allow-resync")
        assert done.code == 0, done.err
        assert names(root) == before - {name}


def test_all_consumers_of_a_node_are_not_unregistered_without_consent(
    root: Node, londiste: CommandLine
) -> None:
    refused = londiste(root.db, "queue", "unregister", QUEUE, "--all")
    assert refused.code == 3
    assert "old.gravestone" in refused.err and "mailer" not in refused.err
    assert "londiste queue unregister q --all --allow-resync" in refused.err
    assert len(names(root)) == len(OWN) + 1
    assert londiste(root.db, "queue", "unregister", QUEUE, "mailer").code == 0
    assert londiste(root.db, "queue", "register", QUEUE, "mailer", "--at", "1").code == 0


def test_the_shell_refuses_them_too(root: Node) -> None:
    session = Session(root.dsn, queue=QUEUE)
    try:
        for statement in (
            "unregister consumer 'old.gravestone'",
            "unregister consumer *",
            "register consumer w_leaf at 1",
        ):
            with pytest.raises(StateError, match="the cascade needs the position") as caught:
                execute(session, statement)
            assert "--allow-resync" in caught.value.hint
        execute(session, "register consumer mailer at 1")
        execute(session, "unregister consumer mailer")
    finally:
        session.close()
    assert names(root) == set(OWN)


def test_the_worker_of_another_node_is_not_to_be_unregistered_for_a_new_node(root: Node) -> None:
    advice = "or, with the settings of root: londiste queue unregister q mailer"
    with root.connect() as conn:
        for worker, hint in ((WORKER, ""), (STONE, ""), ("mailer", f"; {advice}")):
            with pytest.raises(UsageError, match=f"consumer {worker} is registered") as caught:
                refuse_taken_name(conn, QUEUE, "root", "new", worker)
            assert caught.value.hint == f"give every worker its own job_name{hint}"


def test_a_queue_without_a_node_has_no_such_consumers(root: Node, londiste: CommandLine) -> None:
    with root.connect() as conn:
        queues.create_queue(conn, "plain")
        batches.register_consumer(conn, "plain", "a.gravestone")
        (one,) = collect.collect(conn, "plain").consumers
    assert one.own is None
    assert londiste(root.db, "queue", "unregister", "plain", "a.gravestone").code == 0


def test_names_show_what_a_consumer_is() -> None:
    below = [Subscriber("n", "w", 1), Subscriber("m", "m.gravestone", 1)]
    found = {name: own_consumer(name, below) for name in NAMES}
    assert found == NAMES
    assert not any(one.has_process for one in found.values() if one is not None and one.failed)
