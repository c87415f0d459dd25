"""Tables come, go and are copied again while they are written to."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.oracles import PrefixReader

TABLES = (*writers.KEYED, *writers.KEYLESS)


@pytest.mark.slow
def test_tables_are_removed_added_again_and_copied_again_while_written(
    cascade: Cascade, cluster16: Server
) -> None:
    root = cascade.root(on=cluster16, schema=writers.SCHEMA + writers.DATA)
    leaf = cascade.leaf(provider=root, schema=writers.SCHEMA)
    cascade.start_ticker()
    cascade.start_worker(leaf)
    with writers.quick_and_slow(root.database) as (writer, slow):
        writer.wait(20)
        cascade.add_tables("--all", "--insert-only")
        cascade.wait_sync(leaf)

        cascade.londiste(leaf, "remove-table", "scenario.item", "scenario.log")
        assert "scenario.item" not in cascade.states(leaf)
        writer.wait(20)
        cascade.londiste(leaf, "add-table", "scenario.item", "scenario.log", "--insert-only")
        cascade.wait_sync(leaf)

        cascade.londiste(leaf, "resync", "scenario.account", "scenario.log")
        cascade.londiste(leaf, "resync", "scenario.token_a")
        cascade.wait_sync(leaf)

        with PrefixReader(leaf.database) as reader:
            writer.wait(50)
            reader.wait(10)
            reader.stop()
        writer.stop()
        slow.stop()
    cascade.wait_root(leaf)
    oracles.assert_same_rows(root.database, leaf.database, TABLES)
    assert oracles.applied_twice(leaf.database) == []
    assert cascade.compare(leaf)["equal"]


@pytest.mark.slow
def test_a_table_that_is_resynced_in_the_middle_of_its_copy_comes_into_step(
    cascade: Cascade, cluster16: Server
) -> None:
    cascade.settings["copy_chunk_bytes"] = str(256 * 1024)
    root = cascade.root(
        on=cluster16, schema=writers.SCHEMA + writers.DATA + writers.BULK + writers.BULK_ROWS
    )
    leaf = cascade.leaf(provider=root, schema=writers.SCHEMA + writers.BULK)
    cascade.start_ticker()
    cascade.start_worker(leaf)
    with writers.quick_and_slow(root.database) as (writer, slow):
        cascade.add_tables("scenario.bulk", "scenario.log", "--insert-only")
        cascade.wait_state(leaf, "scenario.bulk", "in-copy")
        cascade.londiste(leaf, "resync", "scenario.bulk")
        cascade.wait_state(leaf, "scenario.bulk", "in-copy", "catching-up", "wanna-sync", "ok")
        cascade.londiste(leaf, "remove-table", "scenario.bulk")
        cascade.londiste(leaf, "add-table", "scenario.bulk")
        cascade.wait_sync(leaf)
        writer.wait(20)
        writer.stop()
        slow.stop()
    cascade.wait_root(leaf)
    oracles.assert_same_rows(root.database, leaf.database, ("scenario.bulk", "scenario.log"))
    assert oracles.applied_twice(leaf.database) == []


@pytest.mark.slow
def test_a_table_removed_on_the_root_is_gone_everywhere(
    cascade: Cascade, cluster16: Server
) -> None:
    root = cascade.root(on=cluster16, schema=writers.SCHEMA + writers.DATA)
    branch = cascade.branch(provider=root, schema=writers.SCHEMA)
    leaf = cascade.leaf(provider=branch, on=cluster16, schema=writers.SCHEMA)
    cascade.start_ticker()
    cascade.start_worker(branch)
    cascade.start_worker(leaf)
    with writers.quick_and_slow(root.database) as (writer, slow):
        cascade.add_tables("--all", "--insert-only")
        cascade.wait_sync(branch)
        cascade.wait_sync(leaf)
        cascade.londiste(root, "remove-table", "scenario.item")
        writer.wait(20)
        writer.stop()
        slow.stop()
    cascade.wait_root(branch)
    cascade.wait_root(leaf)
    rest = [table for table in TABLES if table != "scenario.item"]
    for node in (branch, leaf):
        assert set(cascade.states(node)) == set(rest)
        oracles.assert_same_rows(root.database, node.database, rest)
    # The leaf's guard against local writes has gone with it.
    leaf.database.execute("delete from scenario.item")


@pytest.mark.slow
def test_columns_and_truncates_arrive_in_their_order(cascade: Cascade, cluster16: Server) -> None:
    root = cascade.root(on=cluster16, schema=writers.SCHEMA + writers.DATA)
    leaf = cascade.leaf(provider=root, schema=writers.SCHEMA)
    cascade.start_ticker()
    worker = cascade.start_worker(leaf)
    with writers.quick_and_slow(root.database) as (writer, slow):
        cascade.add_tables("--all", "--insert-only")
        cascade.wait_sync(leaf)
        for node in (leaf, root):
            # Each in a transaction of its own: together they are a deadlock of this test's making.
            node.database.execute("alter table scenario.item add column added text")
            node.database.execute("alter table scenario.account add column extra int default 7")
        root.database.execute(
            "truncate scenario.token_b;"
            " insert into scenario.token_b values ('after', -1, null);"
            " update scenario.item set added = 'é' where k1 % 2 = 0"
        )
        writer.wait(20)
        # The other way round: events that still have the column must be applied before.
        root.database.execute("alter table scenario.account drop column extra")
        cascade.wait_root(leaf)
        leaf.database.execute("alter table scenario.account drop column extra")
        writer.wait(20)
        writer.stop()
        slow.stop()
    assert worker.running()
    cascade.wait_root(leaf)
    oracles.assert_same_rows(root.database, leaf.database, TABLES)
    assert cascade.compare(leaf)["equal"]
