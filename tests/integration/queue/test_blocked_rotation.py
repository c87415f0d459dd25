"""A rotation that waits for the lock of a reader: who holds it is named, and how to end it."""

from __future__ import annotations

import json
import logging

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.monitor.queues.collect import collect
from londiste.pgq import queues
from londiste.ticker import database as ticker
from tests.fixtures.cluster import Database


@pytest.fixture
def reader(pgq_db: Database) -> Connection:
    """A queue whose rotation is due, and a session that reads its next event table."""
    conn = pgq_db.connect(autocommit=False)
    with conn.transaction():
        queues.create_queue(conn, "q")
    with conn.transaction():
        queues.set_queue_config(conn, "q", "rotation_period", "0")
        queues.force_tick(conn, "q")
    conn.rollback()
    conn.execute("lock table pgq.event_1_1 in access share mode")
    return conn


def test_maintenance_by_hand_names_the_session_and_fails(
    pgq_db: Database, reader: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = reader.info.backend_pid
    maint = ["queue", "maint", "--db", pgq_db.dsn]
    assert run(cli, maint) == 6
    printed = capsys.readouterr()
    assert "maintenance operations" in printed.err
    assert "queue q: not rotated: " in printed.err
    assert f"process {pid} holds a lock on pgq.event_" in printed.err
    remedy = f"select pg_terminate_backend({pid})"
    assert remedy in printed.err
    assert run(cli, [*maint, "--json"]) == 6
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == 6 and "maintenance operations" in document["done"][0]
    # The hint is followed as printed.
    pgq_db.execute(remedy)
    assert run(cli, maint) == 0
    (info,) = queues.get_queue_info(pgq_db.connect(), "q")
    assert info.queue_cur_table == 1


def test_status_knows_the_session(pgq_db: Database, reader: Connection) -> None:
    (queue,) = collect(pgq_db.connect()).queues
    assert queue.blocker is not None
    assert f"process {reader.info.backend_pid}" in queue.blocker.name
    reader.rollback()
    (queue,) = collect(pgq_db.connect()).queues
    assert queue.blocker is None


def test_a_consumer_that_needs_the_table_is_no_lock(pgq_db: Database, reader: Connection) -> None:
    conn = pgq_db.connect()
    conn.execute("update pgq.queue set queue_switch_step2 = txid_current()")
    conn.execute("select pgq.register_consumer('q', 'c')")
    (queue,) = collect(conn).queues
    assert queue.blocker is None


def test_the_ticker_logs_the_session_once(
    pgq_db: Database, reader: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    conn = pgq_db.connect()
    with caplog.at_level(logging.WARNING):
        known = ticker.maintenance.report_blocked(conn)
        known = ticker.maintenance.report_blocked(conn, known)
        assert known == [f"select pg_terminate_backend({reader.info.backend_pid})"]
        assert caplog.text.count("queue q: not rotated") == 1
        ticker.once(pgq_db.dsn)
        assert caplog.text.count("queue q: not rotated") == 2
        reader.rollback()
        assert ticker.maintenance.report_blocked(conn, known) == []
