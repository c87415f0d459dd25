"""A queue that is opened while others read its event tables: the trigger that closed it stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_root, ret
from tests.sql.cascade.test_switching import begin, insert, refused

LEFT = (
    "select count(*) from pg_trigger t join pg_class c on c.oid = t.tgrelid"
    " where t.tgname = 'pgq_node_closed'"
)
DUE = "select func_arg from pgq.maint_operations() where func_name = 'pgq_node.maint_fence'"
LOCK = "lock table pgq.event_1, pgq.event_1_0, pgq.event_1_1, pgq.event_1_2 in access share mode"


@contextmanager
def _dump(db: Database) -> Iterator[psycopg.Connection[Any]]:
    """A session with the locks of pg_dump."""
    with psycopg.connect(db.dsn) as conn:
        conn.execute("begin isolation level repeatable read")
        conn.execute(LOCK)
        yield conn
        conn.rollback()


def _closed(db: Database) -> Any:
    token = begin(db)[2]
    assert ret(db, "pgq_node.close_root", "q", token)[0] == 200
    return token


def test_closed_root_is_opened_while_it_is_dumped(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("set lock_timeout = 1000")
    with _dump(pgq_db):
        token = _closed(pgq_db)
        assert refused(pgq_db)
        assert ret(pgq_db, "pgq_node.reopen_root", "q", token)[0] == 200
        assert not refused(pgq_db)
        # Rows of every kind of producer.
        pgq_db.execute("insert into pgq.event_1_0 (ev_time, ev_txid) values (now(), 1)")
        assert pgq_db.value(LEFT) == 4
        assert pgq_db.execute(DUE) == [("q",)]
        pgq_db.execute("select pgq_node.maint_fence('q')")
        assert pgq_db.value(LEFT) == 4
        # Closed again: maintenance leaves it alone.
        token = _closed(pgq_db)
        assert refused(pgq_db)
    pgq_db.execute("select pgq_node.maint_fence('q')")
    assert pgq_db.execute(DUE) == [] and pgq_db.value(LEFT) == 4
    with pytest.raises(psycopg.Error, match="disallowed"):
        pgq_db.execute("insert into pgq.event_1_0 (ev_time, ev_txid) values (now(), 1)")
    # Nobody opens it by half.
    pgq_db.execute("select pgq.set_queue_config('q', 'disable_insert', 'false')")
    pgq_db.execute("select pgq_node.maint_fence('q')")
    assert refused(pgq_db)
    with _dump(pgq_db):
        assert ret(pgq_db, "pgq_node.reopen_root", "q", token)[0] == 200
    assert pgq_db.value(LEFT) == 4
    pgq_db.execute("select pgq_node.maint_fence('q')")
    assert pgq_db.value(LEFT) == 0 and pgq_db.execute(DUE) == []
    assert not refused(pgq_db)


def test_former_root_is_promoted_while_it_is_dumped(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("set lock_timeout = 1000")
    ret(pgq_db, "pgq_node.register_location", "q", "n2", "dbname=n2", False)
    token = _closed(pgq_db)
    assert ret(pgq_db, "pgq_node.become_branch", "q", token, "n2")[0] == 200
    assert ret(pgq_db, "pgq_node.end_operation", "q", token)[0] == 200
    with _dump(pgq_db):
        assert ret(pgq_db, "pgq_node.promote_branch", "q")[0] == 200
        assert not refused(pgq_db)


@pytest.mark.parametrize("twice", [False, True])
def test_producer_with_an_older_snapshot_is_refused_by_a_closing(
    pgq_db: Database, twice: bool
) -> None:
    """It saw an open queue; with ``twice`` also the trigger that an earlier closing has left."""
    make_root(pgq_db)
    pgq_db.execute("set lock_timeout = 1000")
    if twice:
        with _dump(pgq_db):
            ret(pgq_db, "pgq_node.reopen_root", "q", _closed(pgq_db))
        assert pgq_db.value(LEFT) == 4
    with psycopg.connect(pgq_db.dsn) as late:
        late.execute("begin isolation level repeatable read")
        late.execute("select 1")
        token = _closed(pgq_db)
        with pytest.raises(psycopg.Error) as caught:
            late.execute("select pgq.insert_event('q', 'late', 'data')")
        assert caught.value.sqlstate == "LD102"
        late.rollback()
        # As old as the closing itself: it is open again meanwhile, and stays closed for this one.
        late.execute("begin isolation level repeatable read")
        late.execute("select 1")
        with _dump(pgq_db):
            ret(pgq_db, "pgq_node.reopen_root", "q", token)
        with pytest.raises(psycopg.Error) as caught:
            late.execute("select pgq.insert_event('q', 'late', 'data')")
        assert caught.value.sqlstate == "LD102"
        late.rollback()
        late.execute("begin isolation level repeatable read")
        late.execute("select pgq.insert_event('q', 'now', 'data')")
        late.commit()
    assert pgq_db.value("select count(*) from pgq.event_1 where ev_type = 'late'") == 0


def test_trigger_of_an_earlier_release_accepts_rows_of_an_open_queue(pgq_db: Database) -> None:
    make_branch(pgq_db, tick=5)
    pgq_db.execute(
        "create trigger pgq_node_closed before insert on pgq.event_1_0 for each statement"
        " execute function pgq_node._refuse_event('q')"
    )
    with _dump(pgq_db):
        assert refused(pgq_db)
        assert ret(pgq_db, "pgq_node.promote_branch", "q")[0] == 200
        insert(pgq_db)
    assert pgq_db.value(LEFT) == 1
