"""A copy of a node's database, as for staging: nothing there acts on the cascade of the node."""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from londiste import CascadedConsumer, Context, Event
from londiste.cascade import copied_database
from londiste.db.connstr.locations import with_parameters
from londiste.errors import NodeUnreachable, StateError
from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.fixtures.cluster import Database

CASCADE = (
    "select * from pgq_node.get_queue_locations('q')",
    "select * from pgq_node.get_node_info('q')",
    "select * from pgq_node.get_subscriber_info('q')",
    "select * from pgq_node.get_consumer_info('q')",
    "select consumer_name, last_tick from pgq.get_consumer_info('q') order by 1",
    "select * from londiste.get_table_list('q')",
    "select tgname from pg_trigger where not tgisinternal order by 1",
)


@dataclass
class Copies:
    """A root and a leaf, the copy of each, and what the originals are."""

    root: Node
    leaf: Node
    of_root: Database
    of_leaf: Database

    def originals(self) -> list[Any]:
        return [node.db.execute(text) for node in (self.root, self.leaf) for text in CASCADE]


@pytest.fixture
def copies(nodes_of: Nodes, londiste: CommandLine) -> Iterator[Copies]:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node, more in ((root, ()), (leaf, ("--expect-sync",))):
        node.db.execute("create table t (id int primary key)")
        assert londiste(node.db, "add-table", "t", *more).code == 0
    nodes_of.leave()
    copied = [Database(node.db.cluster, f"{node.db.name}_copy") for node in (root, leaf)]
    for node, copy in zip((root, leaf), copied, strict=True):
        node.db.clone(copy.name)
    yield Copies(root, leaf, *copied)
    for one in copied:
        one.drop()


def test_commands_at_a_copy_are_refused_and_change_nothing(
    copies: Copies, londiste: CommandLine
) -> None:
    before = copies.originals()
    for database, name, commands in (
        (
            copies.of_leaf,
            "leaf",
            (
                "drop-node leaf", "drop-node leaf --dry-run", "rename-node leaf other",
                "change-provider --provider root", "tag-dead leaf", "pause --node root --timeout 0",
                "pause", "resync t", "add-table t", "remove-table t", "worker --once",
                "worker --rewind", "copy run", "compare", "repair --apply",
                "execute --sql 'create table more ()'", "takeover root --failover",
            ),
        ),
        (
            copies.of_root,
            "root",
            (
                "drop-node leaf", "pause --node leaf --timeout 0", "switchover --to leaf",
                "sync-watermark leaf --node leaf", "add-seq --all", "worker --once",
            ),
        ),
    ):  # fmt: skip
        for command in commands:
            refused = londiste(database, *shlex.split(command), job=f"w_{name}")
            assert refused.code == 3, (command, refused)
            assert f"is a copy of node {name}, which answers at" in refused.err, command
            assert f"londiste move-node {name} CONNECTION" in refused.err, command
        for made, job, provider in (
            ("below", "below", copies.of_root),
            ("leaf", "w_leaf", copies.root.db),
        ):
            create = ("create-leaf", made, "--provider", provider.dsn)
            assert londiste(copies.of_leaf, *create, job=job).code == 3
        ends = (copies.root.dsn, copies.of_leaf.dsn)
        remove = ("--set", "queue_name=q", "replicate", *ends, "--remove")
        refused = londiste(database, *remove)
        assert refused.code == 3 and "is a copy of node" in refused.err, refused
        found = londiste(database, "check", "--json")
        kinds = {one["kind"]: one["severity"] for one in found.json["findings"]}
        assert (found.code, kinds["node-copy"]) == (2, "critical")
        shown = londiste(database, "status", "--check")
        assert shown.code == 2 and "is a copy of node" in shown.out, shown
        assert f"is a copy of node {name}" in londiste(database, "status").out
    assert copies.originals() == before


def test_a_consumer_at_a_copy_is_refused(copies: Copies) -> None:
    class Reading(CascadedConsumer):
        queue, name = "q", "reading"

        def process_event(self, event: Event, ctx: Context) -> None:
            """Takes it."""

    assert Reading(copies.leaf.dsn).register()
    before = copies.originals()
    copied = Reading(copies.of_leaf.dsn)
    for act in (copied.run_once, copied.register, copied.unregister):
        with pytest.raises(StateError, match="is a copy of node leaf"):
            act()
    assert copies.originals() == before


def test_the_hint_of_uninstall_makes_a_copy_independent(
    copies: Copies, londiste: CommandLine
) -> None:
    before = copies.originals()
    for database in (copies.of_leaf, copies.of_root):
        refused = londiste(database, "uninstall")
        assert refused.code == 3 and "drop-node" not in refused.err, refused
        hint = re.search("londiste (uninstall .*--allow-data-loss)", refused.err)
        assert hint is not None, refused
        done = londiste(copies.root.db, *shlex.split(hint[1]))
        assert done.code == 0, done
        assert database.value("select to_regnamespace('pgq_node')") is None
        database.execute("insert into t values (7)")
    assert copies.originals() == before


def test_a_node_is_no_copy_by_any_connection_string_and_without_an_answer(copies: Copies) -> None:
    leaf = copies.leaf.db
    other_string = with_parameters(leaf.dsn, host=f"{_host(leaf)},{_host(leaf)}")
    silent = with_parameters(leaf.dsn, dbname="gone")
    for place in (leaf.dsn, other_string, silent, copies.root.dsn):
        assert copied_database.find(leaf.connect(), "q", lambda _, to=place: to) is None
    found = copied_database.find(copies.of_leaf.connect(), "q", lambda _: other_string)
    assert found is not None and found.node == "leaf"


def test_an_address_that_was_given_to_another_cascade_is_no_original(
    copies: Copies, londiste: CommandLine, database: Database
) -> None:
    other, leaf = copies.of_root, copies.leaf
    for statement in (
        "delete from pgq_node.subscriber_info",
        f"select pgq_node.register_location('q', 'other', '{other.dsn}', false)",
        "update pgq_node.node_info set node_name = 'other'",
        "update pgq_node.local_state set provider_node = 'other'",
        "delete from pgq_node.node_location where node_name <> 'other'",
    ):
        other.execute(statement)
    for place, what in (
        (other.dsn, "node other of another cascade"),
        (copies.root.dsn, "node root"),
        (database.dsn, "no node of the queue"),
    ):
        leaf.db.execute("select pgq_node.register_location('q', 'leaf', %s, false)", place)
        assert copied_database.find(leaf.db.connect(), "q", lambda location: location) is None
        found = londiste(leaf.db, "check", "--json").json["findings"]
        (told,) = [one for one in found if one["kind"] in ("node-copy", "unreachable")]
        assert told["severity"] == "warning" and what in told["what"], told
        assert told["do"] == "londiste move-node leaf CONNECTION"
    assert londiste(leaf.db, "move-node", "leaf", leaf.dsn).code == 0
    found = londiste(leaf.db, "check", "--json").json["findings"]
    assert not [one for one in found if one["kind"] in ("node-copy", "unreachable")]


def test_silent_hosts_are_given_up_together_and_asked_once(
    copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied_database, "SECONDS", 1)
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        place = with_parameters(
            "dbname=silent",
            host=",".join("127.0.0.1" for _ in hosts),
            port=",".join(str(host.getsockname()[1]) for host in hosts),
        )
        with (
            pytest.raises(NodeUnreachable, match="has not responded for 1 s"),
            copied_database.stored_location(place),
        ):
            raise AssertionError("nobody answers")
        asked: list[str] = []
        conn = copies.leaf.db.connect()
        for _ in range(2):
            assert copied_database.find(conn, "q", lambda _: asked.append(place) or place) is None
        assert len(asked) == 1


def _host(database: Database) -> str:
    return database.connect().info.host
