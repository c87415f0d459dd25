"""A proof is for one event that is in the queue; legitimate delayed events keep theirs."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database

ASK = "select pgq.unproven_events('q', array[%s::int8], array[%s::int8], array[%s])"
LATER = "select pgq.insert_event_at('q', now() + interval '1 day', 'EXECUTE', 'later')"


@pytest.fixture
def root(pgq_db: Database) -> Iterator[Connection]:
    """A session of the owner of queue q, whose first node this database is."""
    with pgq_db.connect() as conn:
        conn.execute(
            "select pgq_node.register_location('q', 'root', 'dbname=root', false);"
            " select pgq_node.create_node('q', 'root', 'root', 'root.w', null, null, null)"
        )
        yield conn


def forge(conn: Connection, number: int, txid: int, kind: str = "EXECUTE") -> None:
    """What a role with INSERT on an event table can do."""
    conn.execute(
        "insert into pgq.event_1_0 (ev_id, ev_time, ev_txid, ev_type, ev_data)"
        " values (%s, now(), %s, %s, 'forged')",
        [number, txid, kind],
    )


def number_of(conn: Connection, statement: str) -> tuple[int, int]:
    """The id of an event that a statement writes, and its transaction."""
    with conn.transaction():
        row = conn.execute(
            f"select ({statement.removeprefix('select ')}), txid_current()".encode()
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def come(conn: Connection) -> tuple[int, int]:
    """Lets delayed events come; the id and transaction of the last event."""
    conn.execute("update pgq.delayed_event set ev_send_at = now() - interval '1 second'")
    conn.execute("select pgq.maint_retry_events()")
    row = conn.execute(
        "select ev_id, ev_txid from pgq.event_1 where ev_type = 'EXECUTE' order by ev_txid desc"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_the_proof_of_a_waiting_event_is_of_no_use(root: Connection) -> None:
    """The event itself is not in the queue, so nothing would give away a second one."""
    number, txid = number_of(root, LATER)
    forge(root, number, txid)
    assert root.execute(ASK, [number, txid, "EXECUTE"]).fetchall() == [(number,)]


def test_the_proof_of_a_cancelled_event_is_of_no_use(root: Connection) -> None:
    number, txid = number_of(root, LATER)
    root.execute("select pgq.cancel_delayed_event('q', %s)", [number])
    forge(root, number, txid)
    assert root.execute(ASK, [number, txid, "EXECUTE"]).fetchall() == [(number,)]


def test_a_waiting_event_is_proven_when_it_comes(root: Connection) -> None:
    root.execute("set role pgq_admin")
    root.execute(LATER.encode())
    root.execute("reset role")
    number, txid = come(root)
    assert root.execute(ASK, [number, txid, "EXECUTE"]).fetchall() == []


def test_two_events_with_one_proof_are_refused(root: Connection) -> None:
    """Also where they are in two blocks: the worker may run the first before it sees the second."""
    number, txid = number_of(root, "select pgq.insert_event('q', 'EXECUTE', 'genuine')")
    assert root.execute(ASK, [number, txid, "EXECUTE"]).fetchall() == []
    forge(root, number, txid)
    assert root.execute(ASK, [number, txid, "EXECUTE"]).fetchall() == [(number,)]


def test_a_reader_may_ask_about_two_events(root: Connection) -> None:
    number, txid = number_of(root, "select pgq.insert_event('q', 'EXECUTE', 'genuine')")
    forge(root, number, txid)
    root.execute("set role pgq_reader")
    assert root.execute(ASK, [number, txid, "EXECUTE"]).fetchall() == [(number,)]
    assert root.execute("select pgq.unproven_events('nix', '{1}', '{1}', '{x}')").fetchall() == []
    assert root.execute("select pgq.unproven_events('q', null, null, null)").fetchall() == []


def test_an_event_that_waited_before_proofs_is_proven(root: Connection) -> None:
    """The upgrade of a root on which an administrator had written for later."""
    root.execute(LATER.encode())
    root.execute("update pgq.queue set queue_proven_from = null; delete from pgq.control_event")
    root.execute("select pgq_node.maint_watermark('q')")
    number, txid = come(root)
    assert root.execute(ASK, [number, txid, "EXECUTE"]).fetchall() == []


def test_a_waiting_event_is_proven_after_a_rebase(root: Connection) -> None:
    root.execute(LATER.encode())
    root.execute("select pgq.force_tick('q'); select pgq.ticker('q')")
    root.execute("do $$ begin for i in 1..20 loop perform txid_current(); commit; end loop; end $$")
    root.execute(
        "select pgq._rebase_queue(q, txid_snapshot_xmin(txid_current_snapshot()), 0)"
        " from pgq.queue q"
    )
    number, txid = come(root)
    assert root.execute(ASK, [number, txid, "EXECUTE"]).fetchall() == []


def test_accepting_does_not_take_a_second_event_along(root: Connection) -> None:
    """The administrator has read one; another with its id may have come since."""
    number, txid = number_of(root, "select pgq.insert_event('q', 'app', 'x')")
    forge(root, number, txid)
    forge(root, number, txid + 1, "pgq.location-info")
    with pytest.raises(psycopg.Error, match="has 2 control events"):
        root.execute("select pgq.accept_control_event('q', %s)", [number])
    assert root.execute(ASK, [number, txid, "EXECUTE"]).fetchall() == [(number,)]


def test_savepoints_and_prepared_transactions_are_proven(root: Connection) -> None:
    name = f"p_{root.info.dbname}"
    root.execute("begin")
    root.execute("savepoint a; select pgq.insert_event('q', 'EXECUTE', 'gone'); rollback to a")
    root.execute("savepoint b; select pgq.insert_event('q', 'EXECUTE', 'kept'); release b")
    root.execute(f"prepare transaction '{name}'")
    root.execute(f"commit prepared '{name}'")
    found = root.execute(
        "select ev_id, ev_txid from pgq.event_1 where ev_type = 'EXECUTE'"
    ).fetchall()
    assert len(found) == 1
    assert root.execute(ASK, [*found[0], "EXECUTE"]).fetchall() == []
