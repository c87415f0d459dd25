"""An open transaction of a reader does not stop consumers and workers of other roles."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.sql.rights.test_attacks_found import admin, session

__all__ = ["admin"]

#: What another reader calls; each that is no error keeps its locks.
CALLS = {
    "own": "pgq.register_consumer('app', 'mine')",
    "node": "pgq.register_consumer('q', 'branch.w')",
    "marker": "pgq.register_consumer('q', '.branch.watermark')",
    "consumer": "pgq.register_consumer('app', 'job')",
    "consumer-at": "pgq.register_consumer_at('app', 'job', null)",
    "worker": "pgq.register_consumer('app', 'job.w1')",
    "subconsumer": "pgq_coop.register_subconsumer('app', 'job', 'w1')",
    "new-subconsumer": "pgq_coop.register_subconsumer('app', 'job', 'w3')",
    "next": "pgq_coop.next_batch('app', 'job', 'w1')",
    "next-dead": "pgq_coop.next_batch('app', 'job', 'w1', '0 seconds')",
    "receive": "pgq_coop.receive('app', 'job', 'w1', 1)",
    "unregister": "pgq_coop.unregister_subconsumer('app', 'job', 'nobody', 0)",
    "watermark": "pgq_node.set_subscriber_watermark('q', 'branch', 1)",
}


@pytest.fixture
def owner(pgq_db: Database, admin: Connection) -> Iterator[Connection]:
    """The session of a reader with a worker at an open batch, beside a subscribed node."""
    admin.execute("select pgq_node.register_subscriber('q', 'branch', 'branch.w', null)")
    with session(pgq_db, "reader") as conn:
        conn.execute("select pgq_coop.register_subconsumer('app', 'job', 'w1')")
        for queue in ("app", "q"):
            admin.execute(f"select pgq.insert_event('{queue}', 't', 'd')".encode())
            admin.execute(f"select pgq.force_tick('{queue}')".encode())
            admin.execute(f"select pgq.ticker('{queue}')".encode())
        for waiting in (admin, conn):
            waiting.execute("set lock_timeout = '1s'")
        yield conn


@pytest.mark.parametrize("call", CALLS)
def test_an_open_transaction_of_a_reader_holds_nobody(
    pgq_db: Database, admin: Connection, owner: Connection, call: str
) -> None:
    with session(pgq_db, "other") as other:
        other.execute("begin")
        try:
            other.execute(f"select {CALLS[call]}".encode())
        except psycopg.errors.InsufficientPrivilege:
            assert other.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
        (batch,) = owner.execute("select pgq_coop.next_batch('app', 'job', 'w1')").fetchone() or (
            None,
        )
        assert owner.execute("select pgq_coop.finish_batch(%s)", [batch]).fetchone() == (1,)
        (batch,) = admin.execute("select pgq.next_batch('q', 'branch.w')").fetchone() or (None,)
        assert admin.execute("select pgq.finish_batch(%s)", [batch]).fetchone() == (1,)
        (newest,) = admin.execute(
            "select max(tick_id) from pgq.tick where tick_queue = 1"
        ).fetchone() or (None,)
        admin.execute("select pgq_node.set_subscriber_watermark('q', 'branch', %s)", [newest])
        assert admin.execute(
            "select u.ret_code from pgq_node.unregister_subscriber('q', 'branch') as u"
        ).fetchone() == (200,)
        assert owner.execute("select pgq.unregister_consumer('app', 'job')").fetchone() == (2,)
        other.execute("rollback")
