"""Sessions of a running copy are ended on either server, and the copy gets there all the same."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import QUEUE, Cascade, Node

TABLES = (*writers.KEYED, *writers.KEYLESS, "scenario.bulk")
#: Readers, tasks, builders and the sessions of the tables; not the one with the process' lock.
ENDED = (
    "select count(pg_terminate_backend(pid)) from pg_stat_activity"
    " where datname = current_database() and application_name like 'londiste copy%'"
    " and pid <> pg_backend_pid()"
)


def _chunks(leaf: Node) -> int:
    """Chunks of the big table that are done."""
    return int(
        leaf.database.value(
            "select count(*) from londiste.copy_chunk where table_name = 'scenario.bulk'"
        )
    )


def _throttle(leaf: Node, rate: int | None) -> None:
    leaf.database.execute("select londiste.copy_throttle(%s, %s, null)", QUEUE, rate)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("way", "side", "engine"),
    [
        pytest.param(way, side, engine, marks=marks)
        for engine, marks in (("local", []), ("spark", [pytest.mark.spark]))
        for way in ("snapshot", "resumable")
        for side in ("source", "target", "both")
    ],
)
def test_a_copy_whose_sessions_are_ended_again_and_again_arrives_whole(
    way: str, side: str, engine: str, cascade: Cascade, cluster16: Server
) -> None:
    cascade.engine = engine
    cascade.settings["copy_chunk_bytes"] = str(512 * 1024)
    cascade.settings["resumable_copy_min_bytes"] = "0" if way == "resumable" else str(1 << 40)
    root = cascade.root(
        on=cluster16, schema=writers.SCHEMA + writers.DATA + writers.BULK + writers.BULK_ROWS
    )
    leaf = cascade.leaf(provider=root, schema=writers.SCHEMA + writers.BULK)
    cascade.start_ticker()
    _throttle(leaf, 1_000_000)
    worker = cascade.start_worker(leaf)
    ended = 0
    with writers.quick_and_slow(root.database) as (writer, slow):
        cascade.add_tables("--all", "--insert-only")
        for number in range(3):
            cascade.wait(lambda: _chunks(leaf) > 0, "a chunk", 300)
            root.database.execute(
                f"update scenario.bulk set id = id + 1000000 where id % 97 = {number};"
                f" update scenario.bulk set id = -id, filler = 'front' where id % 89 = {number};"
                f" delete from scenario.bulk where id % 101 = {number}"
            )
            for node in (root, leaf):
                if side in {"both", "source" if node is root else "target"}:
                    ended += int(node.database.value(ENDED))
        _throttle(leaf, None)
        cascade.wait_sync(leaf)
        writer.wait(30)
        writer.stop()
        slow.stop()
    assert ended > 3
    assert worker.running()
    cascade.wait_root(leaf)
    assert cascade.compare(leaf)["equal"]
    oracles.assert_same_rows(root.database, leaf.database, TABLES)
    assert oracles.applied_twice(leaf.database) == []
