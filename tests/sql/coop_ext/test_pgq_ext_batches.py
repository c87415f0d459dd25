"""The last batch that a consumer has applied is remembered, in the transaction that applied it."""

from __future__ import annotations

import threading

import pytest

from londiste.pgq import ext
from tests.fixtures.cluster import Database
from tests.support.queue_steps import refused, value
from tests.support.waiting import wait_for

DONE = "select pgq_ext.is_batch_done(%s, %s)"
SET = "select pgq_ext.set_batch_done(%s, %s)"
DONE_BY = "select pgq_ext.is_batch_done(%s, %s, %s)"
SET_BY = "select pgq_ext.set_batch_done(%s, %s, %s)"


def test_a_batch_is_done_once_and_only_the_last_one_is_remembered(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert value(conn, DONE, "c", 5) is False
    assert value(conn, SET, "c", 5) is True
    assert value(conn, DONE, "c", 5) is True
    assert value(conn, SET, "c", 5) is False
    assert value(conn, SET, "c", 6) is True
    assert value(conn, DONE, "c", 5) is False
    assert value(conn, DONE, "c", 6) is True
    assert value(conn, SET, "c", 5) is True, "an older one is as good"
    assert value(conn, DONE, "c", 5) is True


def test_consumers_and_workers_are_apart(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert value(conn, SET, "c", 5) is True
    assert value(conn, SET, "d", 5) is True
    assert value(conn, SET_BY, "c", "1", 5) is True
    assert value(conn, SET_BY, "c", "1", 6) is True
    assert value(conn, SET_BY, "c", "", 5) is False, "the empty name is no worker"
    assert value(conn, DONE, "c", 5) is True
    assert value(conn, DONE_BY, "c", "1", 5) is False
    assert value(conn, DONE_BY, "c", "1", 6) is True


@pytest.mark.parametrize("batch", [0, -1, None])
def test_what_is_no_batch_is_never_done(pgq_db: Database, batch: int | None) -> None:
    conn = pgq_db.connect()
    assert value(conn, SET, "c", batch) is True
    assert value(conn, SET_BY, "c", None, batch) is True
    assert value(conn, DONE, "c", batch) is False
    assert value(conn, "select count(*) from pgq_ext.completed_batch") == 0


def test_a_name_is_needed(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    with refused("LD005", "Invalid NULL value"):
        conn.execute(SET, [None, 5])
    with refused("LD005", "Invalid NULL value"):
        conn.execute(SET_BY, ["c", None, 5])
    assert value(conn, DONE, None, 5) is False
    assert value(conn, DONE_BY, "c", None, 5) is False


def test_a_rollback_forgets_it(pgq_db: Database) -> None:
    conn = pgq_db.connect(autocommit=False)
    assert value(conn, SET, "c", 5) is True
    conn.rollback()
    assert value(conn, SET, "c", 5) is True


def test_of_two_that_apply_a_batch_at_once_one_is_told_so(pgq_db: Database) -> None:
    first = pgq_db.connect(autocommit=False)
    second = pgq_db.connect()
    for batch in (5, 6):  # a new row, then one that is there
        assert ext.set_batch_done(first, "c", batch)
        answers: list[bool] = []
        other = threading.Thread(
            target=lambda b=batch, a=answers: a.append(ext.set_batch_done(second, "c", b))
        )
        other.start()
        wait_for(
            lambda: pgq_db.value(
                "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'",
                second.info.backend_pid,
            ),
            what="the second waiting for the first",
        )
        first.commit()
        other.join()
        assert answers == [False]


def test_every_function_has_its_wrapper(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert ext.set_batch_done(conn, "c", 5)
    assert ext.is_batch_done(conn, "c", 5)
    assert not ext.is_batch_done(conn, "c", 5, "1")
    assert ext.set_batch_done(conn, "c", 5, "1")
    assert not ext.set_batch_done(conn, "c", 5, "1")
    assert value(conn, "select pgq_ext.version()") == "4.1.0"
