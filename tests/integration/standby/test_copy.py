"""Copies read a standby of the root: one table, small tables together, under writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from tests.fixtures.line import Line
from tests.integration.standby.conftest import SCHEMA, Pair
from tests.integration.standby.test_compare import ticking, writers
from tests.support.servers.standby import Standby

_ROWS_READ = "select seq_tup_read + idx_tup_fetch from pg_stat_user_tables where relname = 't'"
Make = Callable[..., Pair]


@pytest.fixture
def uncopied(primary: Cluster, line: Line, streaming: Callable[..., Standby]) -> Make:
    """A pair whose leaf has yet to copy the table."""

    def make(**settings: str) -> Pair:
        root = line.node("root", NodeType.ROOT, schema=SCHEMA, on=primary)
        leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
        line.add(root, "public.t")
        found = Pair(line, root, leaf, streaming(**settings))
        found.write(0, 4000)
        found.standby.caught_up()
        found.configure(read_from_wait=10.0)
        line.once(leaf)
        return found

    return make


def synced(found: Pair) -> bool:
    state = "select merge_state from londiste.table_info where table_name = 'public.t'"
    return bool(found.leaf.database.value(state) == "ok")


@pytest.mark.parametrize(
    "alone",
    [
        pytest.param(False, id="together", marks=pytest.mark.slow),
        # One that nobody writes is in the test of rows that the root reads.
        pytest.param(True, id="alone", marks=pytest.mark.slow),
    ],
)
def test_a_copy_reads_the_standby_under_writes(uncopied: Make, alone: bool) -> None:
    found = uncopied(hot_standby_feedback="on", wal_receiver_status_interval="1")
    # A table above an eighth of a chunk is copied on its own.
    found.configure(None, read_from_wait=10.0, copy_chunk_bytes=65536 if alone else 1 << 27)
    names = ["public.t"]
    if not alone:
        names.append("public.u")
        for node in (found.root, found.leaf):
            node.database.execute("create table public.u as select 1 as id")
            node.database.execute("alter table public.u add primary key (id)")
        found.line.add(found.root, "public.u")
    with writers(found), ticking(found):
        worker = found.started()
        found.line.add(found.leaf, *names, expect_sync=False)
        found.line.wait(lambda: synced(found), "a copy")
    found.line.wait_position(found.leaf, found.line.tick())
    assert found.same()
    assert "copying from standby" in worker.said()
    assert "copying from the provider" not in worker.said()
    assert ("small tables as a group" in worker.said()) != alone


def test_a_copy_whose_snapshot_the_standby_cancels_is_made_from_the_provider(
    uncopied: Make,
) -> None:
    found = uncopied(max_standby_streaming_delay="100ms")
    with writers(found), ticking(found):
        worker = found.started()
        found.line.add(found.leaf, "public.t", expect_sync=False)
        found.line.wait(lambda: synced(found), "a copy")
    found.line.wait_position(found.leaf, found.line.tick())
    assert found.same()
    assert worker.running()


def test_the_root_reads_no_row_for_the_copy_of_one_table(uncopied: Make) -> None:
    found = uncopied()
    # A table above an eighth of a chunk is copied on its own.
    found.configure(None, read_from_wait=10.0, copy_chunk_bytes=65536)
    before = found.root.database.value(_ROWS_READ)
    found.line.add(found.leaf, "public.t", expect_sync=False)
    with ticking(found):
        worker = found.started()
        found.line.wait(lambda: synced(found), "a copy")
    assert "copying from standby" in worker.said()
    assert "small tables as a group" not in worker.said()
    found.events_read()
    assert found.root.database.value(_ROWS_READ) - before < 4000
    assert found.same()


@pytest.mark.slow
def test_a_copy_reads_the_provider_where_the_standby_is_another_one_paused_or_down(
    uncopied: Make,
) -> None:
    found = uncopied()

    def copied() -> None:
        with ticking(found):
            worker = found.started()
            found.line.wait(lambda: synced(found), "a copy")
        assert worker.said().count("copying from the provider") == 1
        assert worker.stop() == 0
        assert found.same()

    found.configure(found.leaf.database.dsn)
    found.line.add(found.leaf, "public.t", expect_sync=False)
    copied()
    found.configure(read_from_wait=0.1)
    found.standby.pause()
    assert found.line.run(found.leaf, "resync", "public.t").code == 0
    copied()
    found.standby.kill()
    assert found.line.run(found.leaf, "resync", "public.t").code == 0
    copied()
