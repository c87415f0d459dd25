"""Removing tables, copying them again and waiting for their copies."""

from __future__ import annotations

import pytest

from londiste.cascade import sqlapi as nodes
from londiste.db.names import TableName
from londiste.errors import StateError, UsageError
from londiste.replication import sqlapi as tables
from londiste.replication.commands.add_table_checks import check_table, look
from londiste.replication.model import TableOptions
from tests.fixtures.cascade import QUEUE, CommandLine, Node
from tests.integration.commands.test_add_table import local


def test_a_table_is_removed_on_one_node_or_on_all(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one", "two")
    londiste(leaf.db, "add-table", "--all", "--create")
    answer = londiste(leaf.db, "remove-table", "one", "nope")
    assert answer.code == 2
    assert "nothing was removed" in answer.err
    assert londiste(leaf.db, "remove-table", "one").code == 0
    assert set(local(leaf)) == {"public.two"}
    leaf.db.execute("insert into one values (1, 'free')")
    answer = londiste(root.db, "remove-table", "--all", "--dry-run")
    assert "from every other node" in answer.out
    assert londiste(root.db, "remove-table", "--all").code == 0
    assert local(root) == {}
    assert londiste(root.db, "remove-table", "one").code == 2


def test_a_replicated_table_that_was_dropped_is_not_called_added(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one", "two")
    londiste(leaf.db, "add-table", "one", "two", "--create")
    leaf.db.execute("drop table one")
    found = londiste(leaf.db, "check", "--json").json["findings"]
    (do,) = [one["do"] for one in found if one["kind"] == "missing"]
    ways = "londiste remove-table public.one, then londiste add-table public.one --create-full"
    assert do.startswith(ways)
    refused = londiste(leaf.db, "add-table", "two", "one", "--create")
    assert refused.code == 3
    assert "table public.one is replicated on node leaf, but does not exist" in refused.err
    assert f"hint: {ways}" in refused.err
    assert londiste(leaf.db, "remove-table", "one").code == 0
    assert londiste(leaf.db, "add-table", "one", "--create-full").code == 0
    assert set(local(leaf)) == {"public.one", "public.two"}


def test_a_removed_copy_leaves_no_consumer_behind(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one")
    londiste(leaf.db, "add-table", "one", "--create")
    name = TableName("public", "one")
    consumer = f"{leaf.worker}.copy.public.one"
    root.db.execute("select pgq.register_consumer('q', %s)", consumer)
    with leaf.connect() as conn:
        nodes.register_consumer(conn, QUEUE, consumer, "root", 1)
        tables.local_set_table_state(conn, QUEUE, name, "1:1:", "catching-up")
    assert londiste(leaf.db, "remove-table", "one").code == 0
    assert root.db.value("select count(*) from pgq.get_consumer_info('q', %s)", consumer) == 0
    assert leaf.db.value("select count(*) from pgq_node.get_consumer_info('q')") == 1


def test_a_table_is_copied_again(root: Node, leaf: Node, londiste: CommandLine) -> None:
    londiste(root.db, "add-table", "one")
    londiste(leaf.db, "add-table", "one", "--create", "--expect-sync")
    assert londiste(root.db, "resync", "one").code == 3
    assert londiste(leaf.db, "resync", "nope").code == 2
    assert londiste(leaf.db, "resync", "one", "--dry-run").code == 0
    assert local(leaf) == {"public.one": "ok"}
    assert londiste(leaf.db, "resync", "one").code == 0
    assert local(leaf) == {"public.one": None}
    assert londiste(leaf.db, "resync", "one").code == 0


def test_rows_that_stay_are_not_copied_beside_themselves(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one")
    londiste(leaf.db, "add-table", "one", "--create", "--skip-truncate")
    assert londiste(leaf.db, "resync", "one").code == 0, "nothing is here yet"
    with leaf.connect() as conn:
        tables.local_set_table_state(conn, QUEUE, TableName("public", "one"), None, "ok")
    answer = londiste(leaf.db, "resync", "one")
    assert answer.code == 3
    assert "was added with --skip-truncate" in answer.err
    assert "londiste remove-table public.one" in answer.err
    assert local(leaf) == {"public.one": "ok"}


def test_resync_keeps_the_stored_ddl_to_restore(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one")
    londiste(leaf.db, "add-table", "one", "--create")
    with leaf.connect() as conn:
        name = TableName("public", "one")
        tables.local_set_table_state(conn, QUEUE, name, "1:1:", "catching-up")
        tables.local_set_table_struct(conn, QUEUE, name, "select 1")
        assert londiste(leaf.db, "resync", "one").code == 0
        (table,) = tables.get_table_list(conn, QUEUE)
    assert (table.state, table.dropped_ddl, table.snapshot) == ("in-copy", "select 1", None)


def test_a_key_that_a_copy_has_dropped_is_not_reported_as_missing(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    londiste(root.db, "add-table", "one", "two")
    londiste(leaf.db, "add-table", "one", "--create")
    leaf.db.execute("create table two (like one)")
    one, two = TableName("public", "one"), TableName("public", "two")
    with leaf.connect() as conn:
        tables.local_set_table_struct(conn, QUEUE, one, "select 1")
        leaf.db.execute("alter table one drop constraint one_pkey")
        with pytest.raises(StateError, match="key is dropped until the copy ends") as caught:
            check_table(conn, one, look(conn, [one])[one], TableOptions())
        assert "settings of queue q there: londiste wait-sync" in caught.value.hint
        with pytest.raises(UsageError, match="has no primary key"):
            check_table(conn, two, look(conn, [two])[two], TableOptions())


def test_waiting_for_tables_has_a_limit_and_a_reason(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    assert londiste(leaf.db, "wait-sync", "--allow-empty").code == 0
    londiste(root.db, "add-table", "one")
    answer = londiste(leaf.db, "add-table", "one", "--create", "--wait-sync", "--timeout", "0.1")
    assert answer.code == 6
    assert "1 table is not in sync" in answer.err
    assert "0 of 1 table in sync; public.one waits for its copy" in answer.err
    with leaf.connect() as conn:
        nodes.set_consumer_error(conn, QUEUE, leaf.worker, "disk full")
        answer = londiste(leaf.db, "wait-sync", "--timeout", "0.1")
        assert f"warning: {leaf.worker}: disk full\n" in answer.err
        assert f"{leaf.worker}: disk full\nhint: " in answer.err
        tables.local_set_table_state(conn, QUEUE, TableName("public", "one"), None, "ok")
        answer = londiste(leaf.db, "wait-sync", "--timeout", "0.1")
        assert answer.code == 6
        assert f"{leaf.worker}: disk full\nhint: " in answer.err
        nodes.set_consumer_error(conn, QUEUE, leaf.worker, None)
    assert londiste(leaf.db, "wait-sync", "one", "--json").json == {
        "version": 1,
        "tables": 1,
        "ok": 1,
    }
    assert londiste(leaf.db, "wait-sync", "two").code == 2


def test_add_is_refused_until_an_earlier_removal_is_applied(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    """The root removed the table and added it again; the node has heard of neither."""
    leaf.db.execute("create table one (id int primary key, v text)")
    assert londiste(root.db, "add-table", "one").code == 0
    assert londiste(leaf.db, "add-table", "one", "--expect-sync").code == 0
    assert londiste(leaf.db, "remove-table", "one").code == 0
    assert londiste(root.db, "remove-table", "one").code == 0
    assert londiste(root.db, "add-table", "one").code == 0
    answer = londiste(leaf.db, "add-table", "one", "--expect-sync")
    assert answer.code == 6
    assert "is not applied on node" in answer.err
    assert local(leaf) == {}
    root.tick()
    answer = londiste(leaf.db, "worker", "--once", job=leaf.worker)
    assert answer.code == 0, answer.err
    assert londiste(leaf.db, "add-table", "one", "--expect-sync").code == 0
    assert local(leaf) == {"public.one": "ok"}
