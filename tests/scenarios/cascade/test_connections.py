"""Connections break at any moment, on either side: every process recovers."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import Cascade, Node

TABLES = (*writers.KEYED, *writers.KEYLESS, "scenario.bulk")


@pytest.mark.slow
def test_all_our_sessions_are_ended_again_and_again_in_copy_and_replay(
    cascade: Cascade, cluster16: Server
) -> None:
    cascade.settings["copy_chunk_bytes"] = str(256 * 1024)
    # Several round trips per batch, so that a session ends in the middle of one.
    cascade.settings["pgq_lazy_fetch"] = "7"
    root = cascade.root(
        on=cluster16, schema=writers.SCHEMA + writers.DATA + writers.BULK + writers.BULK_ROWS
    )
    leaf = cascade.leaf(provider=root, schema=writers.SCHEMA + writers.BULK)
    ticker = cascade.start_ticker()
    worker = cascade.start_worker(leaf)
    with writers.quick_and_slow(root.database) as (writer, slow):
        cascade.add_tables("--all", "--insert-only")
        for _ in range(8):
            writer.wait(10)
            _end_sessions(root)
            _end_sessions(leaf)
        cascade.wait_sync(leaf)
        for _ in range(8):
            writer.wait(10)
            _end_sessions(leaf)
            writer.wait(3)
            _end_sessions(root)
        cascade.wait_progress(leaf)
        writer.stop()
        slow.stop()
    assert ticker.running()
    assert worker.running()
    cascade.wait_root(leaf)
    assert cascade.compare(leaf)["equal"]
    oracles.assert_same_rows(root.database, leaf.database, TABLES)
    assert oracles.applied_twice(leaf.database) == []
    assert "Traceback" not in cascade.processes.everything_said()


def _end_sessions(node: Node) -> None:
    """Ends every session of the program in a node's database."""
    node.database.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name like 'londiste%'"
    )
