"""Nodes change roles under writes: no row is lost or applied twice."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Server
from tests.support.scenarios import following_writer, oracles
from tests.support.scenarios.following_writer import Follower
from tests.support.scenarios.harness import Cascade, Node


def _five(cascade: Cascade, cluster16: Server) -> dict[str, Node]:
    """A root, two branches below it, and a leaf below each."""
    root = cascade.root("n1", on=cluster16, schema=following_writer.SCHEMA + following_writer.DATA)
    b1 = cascade.branch("n2", provider=root, on=cluster16, schema=following_writer.SCHEMA)
    b2 = cascade.branch("n3", provider=root, on=cluster16, schema=following_writer.SCHEMA)
    cascade.leaf("n4", provider=b1, on=cluster16, schema=following_writer.SCHEMA)
    cascade.leaf("n5", provider=b2, on=cluster16, schema=following_writer.SCHEMA)
    cascade.start_ticker(rotate=False)
    for node in cascade.nodes.values():
        cascade.start_worker(node)
    cascade.add_tables("--all")
    for name in ("n2", "n3", "n4", "n5"):
        cascade.wait_sync(cascade.nodes[name])
    return cascade.nodes


def _assert_equal(cascade: Cascade, root: Node, confirmed: int) -> None:
    for node in cascade.nodes.values():
        if node is not root:
            cascade.wait_root(node)
            oracles.assert_same_rows(root.database, node.database, following_writer.TABLES)
    assert root.database.value("select count(*) from public.written") == confirmed


@pytest.mark.slow
def test_providers_and_roots_change_while_somebody_writes(
    cascade: Cascade, cluster16: Server
) -> None:
    nodes = _five(cascade, cluster16)
    cascade.londiste(nodes["n2"], "change-handler", "public.counter", "--where", "id < 9")
    # Until the rows were copied again, that is the reason.
    cascade.wait_sync(nodes["n2"])
    refused = cascade.londiste(nodes["n2"], "switchover", accept=[3])
    assert "replicates only a subset of table public.counter" in refused.err
    cascade.londiste(nodes["n2"], "change-handler", "public.counter", "--where", "")
    cascade.wait_sync(nodes["n2"])
    cascade.wait_sync(nodes["n4"])
    n1, n2, n3 = nodes["n1"], nodes["n2"], nodes["n3"]
    with Follower([n1.database, n2.database, n3.database]) as writer:
        writer.wait(20)
        cascade.londiste(n1, "change-provider", "--node", "n4", "--provider", "n3")
        writer.wait(20)
        # A branch takes the place of another one, with all that read from it.
        cascade.londiste(n3, "takeover", "n2")
        writer.wait(20)
        # Now n1 <- n3 <- n2, n4, n5.
        cascade.londiste(n2, "switchover", "--to", "n3", "--all")
        writer.wait(20)
        told = cascade.londiste(n3, "switchover", "--to", "n2", "--json")
        assert "n2: make it the root" in json.loads(told.out)["done"]
        writer.wait(20)
        cascade.londiste(n1, "switchover", "--all")
        writer.wait(20)
        confirmed = writer.stop()
    _assert_equal(cascade, n1, confirmed)
    seen = json.loads(cascade.londiste(n1, "status", "--json").out)
    assert seen["nodes"]
    for node in nodes.values():
        assert node.database.value("select count(*) from pgq_node.operation") == 0
    # The old roots refuse what an application wants to write there.
    for node in (n2, n3):
        refused = node.database.value("select queue_disable_insert from pgq.queue")
        assert refused is True


@pytest.mark.slow
def test_a_lost_root_is_replaced_and_fenced_when_it_comes_back(
    cascade: Cascade, cluster16: Server, new_cluster: Callable[..., Cluster]
) -> None:
    own = new_cluster("lost", version=16, settings={"fsync": "on"})
    n1 = cascade.root("n1", on=own, schema=following_writer.SCHEMA + following_writer.DATA)
    n2 = cascade.branch("n2", provider=n1, on=cluster16, schema=following_writer.SCHEMA)
    n3 = cascade.branch("n3", provider=n1, on=cluster16, schema=following_writer.SCHEMA)
    n4 = cascade.leaf("n4", provider=n3, on=cluster16, schema=following_writer.SCHEMA)
    cascade.start_ticker(rotate=False)
    for node in (n1, n2, n3, n4):
        cascade.start_worker(node)
    cascade.add_tables("--all")
    for node in (n2, n3, n4):
        cascade.wait_sync(node)
    with Follower([n1.database]) as writer:
        writer.wait(20)
        # n3 is ahead of the node that takes over.
        cascade.londiste(n2, "pause")
        writer.wait(20)
        cascade.wait_root(n3)
        writer.wait(1)
    seen = n3.database.value("select max(n) from public.written")
    assert seen > n2.database.value("select max(n) from public.written")
    own.stop("immediate")
    refused = cascade.londiste(n2, "takeover", "n1", accept=[3, 6])
    assert "n1" in refused.err
    cascade.londiste(n2, "resume")
    cascade.londiste(n2, "takeover", "n1", "--failover")
    again = cascade.londiste(n2, "takeover", "n1", "--failover")
    assert "already" in again.err
    assert n2.database.value("select max(n) from public.written") >= seen
    with Follower([n2.database], first=1_000_000) as after:
        after.wait(20)
        count = after.stop()
    cascade.wait_root(n3)
    cascade.wait_root(n4)
    for node in (n3, n4):
        oracles.assert_same_rows(n2.database, node.database, following_writer.TABLES)
    assert n2.database.value("select count(*) from public.written where n >= 1000000") == (
        count - 1_000_000 + 1
    )
    # The old root comes back, and its worker finds that it is not the root any more.
    own.up()
    cascade.wait(
        lambda: n1.database.value("select queue_disable_insert from pgq.queue"),
        "the old root to be fenced",
    )
    cascade.wait(
        lambda: (
            "was replaced by"
            in (n1.database.value("select cur_error from pgq_node.local_state") or "")
        ),
        "the error of its worker",
    )
    assert n2.database.value("select queue_disable_insert from pgq.queue") is False
