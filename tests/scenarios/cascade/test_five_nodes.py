"""Five nodes change roles in every way under writes; compare finds equal tables.

    n1 ---> n2 ---> n4        n1, n2 and n3 may be the root; n4 and n5 are leaves
      \\---> n3 ---> n5

Compared after each change, by the program, while the writer goes on.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Server
from tests.support.scenarios import following_writer, oracles
from tests.support.scenarios.following_writer import Follower
from tests.support.scenarios.quick_cascade import QuickCascade, running

ROOTS = ("n1", "n2", "n3")
BLOCK = ("--block", "60")


@contextlib.contextmanager
def _five(directory: Path, first: Server, others: Server) -> Iterator[QuickCascade]:
    """At work; the server of n1 is its own."""
    cascade = QuickCascade(
        directory, schema=following_writer.SCHEMA, tables=following_writer.TABLES
    )
    with running(cascade):
        cascade.node("n1", NodeType.ROOT, first)
        for name in ("n2", "n3"):
            cascade.node(name, NodeType.BRANCH, others, "n1")
        for name, provider in (("n4", "n2"), ("n5", "n3")):
            cascade.node(name, NodeType.LEAF, others, provider)
        # The same rows everywhere, so nothing has to be copied.
        for node in cascade.nodes.values():
            node.database.execute(
                f"set session_replication_role = replica; {following_writer.DATA}"
            )
        cascade.start()
        yield cascade


def _compare(cascade: QuickCascade, writer: Follower) -> None:
    """Every node that answers has what the root has; the writer is not held up by it."""
    before = writer.confirmed
    root = cascade.root()
    cascade.converge()
    # All at a time, as from several consoles: one after the other takes four times as long.
    asked = [
        cascade.forks.start(node.config, "compare", "--json")
        for node in cascade.live()
        if node is not root
    ]
    for fork in asked:
        assert fork.wait(300) == 0, f"{fork}\n{cascade.report()}"
        found = json.loads(fork.out)
        assert found["equal"], found
        compared = {table["table"]: table["rows_root"] for table in found["tables"]}
        assert set(compared) == set(following_writer.TABLES)
        assert all(compared.values()), compared
    writer.wait(1)
    assert writer.confirmed > before


def _writer(cascade: QuickCascade, *names: str, first: int = 1) -> Follower:
    return Follower([cascade.nodes[name].database for name in names], first=first)


def _providers(cascade: QuickCascade) -> dict[str, str]:
    query = "select provider_node from pgq_node.local_state where consumer_name = '{}_worker'"
    return {n.name: cascade.look(n, query.format(n.name)) for n in cascade.live()}


@pytest.mark.slow
def test_a_leaf_a_branch_and_the_root_change_places_and_compare_equal(
    cluster: Server, tmp_path: Path
) -> None:
    with (
        _five(tmp_path, cluster, cluster) as cascade,
        _writer(cascade, *ROOTS) as writer,
    ):
        writer.wait(20)
        cascade.do("n1", "change-provider", "--node", "n4", "--provider", "n3")
        cascade.do("n3", "takeover", "n2")
        cascade.do("n3", "switchover", *BLOCK)
        _compare(cascade, writer)
        confirmed = writer.stop()
        cascade.converge()
        assert _providers(cascade) == {
            "n1": "n3",
            "n2": "n3",
            "n3": "n3",
            "n4": "n3",
            "n5": "n3",
        }
        for node in cascade.nodes.values():
            assert node.database.value("select count(*) from public.written") == confirmed


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_node_changes_its_place_and_compares_equal_after_each_change(
    cluster16: Server, new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    own = new_cluster("first", version=16, settings={"fsync": "on"})
    with _five(tmp_path, own, cluster16) as cascade:
        with _writer(cascade, *ROOTS) as writer:
            writer.wait(50)
            # Each leaf to the other branch, to the root, and home.
            for leaf, home, other in (("n4", "n2", "n3"), ("n5", "n3", "n2")):
                for provider in (other, "n1", home):
                    cascade.do("n1", "change-provider", "--node", leaf, "--provider", provider)
                    _compare(cascade, writer)
            # Each branch by the other one, which reads from it the second time.
            for old, new in (("n2", "n3"), ("n3", "n2"), ("n2", "n3")):
                cascade.do(new, "takeover", old, "--all")
                _compare(cascade, writer)
            assert _providers(cascade)["n3"] == "n1"
            # Around, and back the other way; with and without the readers of the old root.
            for number, new in enumerate(("n2", "n3", "n1", "n3", "n2", "n1")):
                everyone = ["--all"] if number % 2 else []
                cascade.do("n5", "switchover", "--to", new, *BLOCK, *everyone)
                assert cascade.root().name == new
                _compare(cascade, writer)
            confirmed = writer.stop()
        cascade.converge()
        for node in cascade.nodes.values():
            assert node.database.value("select count(*) from public.written") == confirmed
            oracles.assert_same_rows(
                cascade.nodes["n1"].database, node.database, following_writer.TABLES
            )
        # The root is lost with what nobody has read.
        with _writer(cascade, "n1", first=confirmed + 1) as writer:
            writer.wait(20)
            cascade.converge()
            cascade.look(
                cascade.nodes["n1"], "update pgq.queue set queue_ticker_paused = true returning 1"
            )
            writer.wait(50)
            lost = writer.confirmed
            own.stop("immediate")
        seen = {
            node.name: node.database.value("select max(n) from public.written")
            for node in cascade.live()
        }
        cascade.do("n2", "takeover", "n1", "--failover")
        assert cascade.nodes["n2"].database.value("select max(n) from public.written") == max(
            seen.values()
        )
        assert max(seen.values()) < lost
        with _writer(cascade, "n2", "n3", first=lost + 1) as writer:
            writer.wait(20)
            _compare(cascade, writer)
            own.up()
            cascade.look(
                cascade.nodes["n1"], "update pgq.queue set queue_ticker_paused = false returning 1"
            )
            export = ("--export", str(tmp_path / "lost"))
            cascade.do("n2", "resurrect", "--node", "n1", *export, "--undo", "--resync")
            cascade.do("n1", "wait-sync")
            _compare(cascade, writer)
            cascade.do("n1", "switchover", *BLOCK, "--all")
            confirmed = writer.stop()
        with _writer(cascade, "n1", first=confirmed + 1) as writer:
            writer.wait(20)
            _compare(cascade, writer)
        assert len((tmp_path / "lost.jsonl").read_text().splitlines()) > 50
        assert len(cascade.live()) == 5
