"""The events of one batch are noted one by one, for effects that no transaction undoes."""

from __future__ import annotations

import itertools

import pytest

from londiste.pgq import ext
from tests.fixtures.cluster import Database
from tests.support.queue_steps import column, refused, value

DONE = "select pgq_ext.is_event_done(%s, %s, %s)"
SET = "select pgq_ext.set_event_done(%s, %s, %s)"
DONE_BY = "select pgq_ext.is_event_done(%s, %s, %s, %s)"
SET_BY = "select pgq_ext.set_event_done(%s, %s, %s, %s)"


def test_an_event_is_done_once(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert value(conn, DONE, "c", 5, 1) is False
    assert value(conn, SET, "c", 5, 1) is True
    assert value(conn, DONE, "c", 5, 1) is True
    assert value(conn, SET, "c", 5, 1) is False
    assert value(conn, DONE, "c", 5, 2) is False
    assert value(conn, DONE, "c", 6, 1) is False, "another batch"
    assert value(conn, SET, "c", 5, 2) is True


def test_the_first_event_of_another_batch_forgets_those_before(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    for event in (1, 2):
        conn.execute(SET, ["c", 5, event])
    assert value(conn, SET, "c", 6, 3) is True
    assert column(conn, "select event_id from pgq_ext.completed_event") == [3]
    assert column(conn, "select cur_batch_id from pgq_ext.partial_batch") == [6]
    assert value(conn, DONE, "c", 5, 1) is False
    assert value(conn, DONE, "c", 6, 3) is True


def test_consumers_and_workers_are_apart(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute(SET, ["c", 5, 1])
    assert value(conn, SET, "d", 6, 1) is True
    assert value(conn, SET_BY, "c", "1", 6, 1) is True
    assert value(conn, DONE, "c", 5, 1) is True
    assert value(conn, DONE_BY, "c", "", 5, 1) is True
    assert value(conn, DONE_BY, "c", "1", 5, 1) is False
    assert value(conn, DONE_BY, "c", "1", 6, 1) is True
    assert value(conn, DONE, "d", 6, 1) is True


VALUES = ("c", "1", 5, 1)
ONE_NULL = [
    tuple(None if place == null else v for place, v in enumerate(VALUES)) for null in range(4)
]


@pytest.mark.parametrize("values", ONE_NULL)
def test_null_is_refused_and_never_done(
    pgq_db: Database, values: tuple[str | int | None, ...]
) -> None:
    conn = pgq_db.connect()
    with refused("LD005", "Invalid NULL value"):
        conn.execute(SET_BY, values)
    assert value(conn, DONE_BY, *values) is False
    if values[1] is not None:
        with refused("LD005", "Invalid NULL value"):
            conn.execute(SET, [v for place, v in enumerate(values) if place != 1])


def test_a_rollback_forgets_event_and_batch(pgq_db: Database) -> None:
    conn = pgq_db.connect(autocommit=False)
    conn.execute(SET, ["c", 5, 1])
    conn.commit()
    conn.execute(SET, ["c", 6, 1])
    conn.rollback()
    assert value(conn, DONE, "c", 5, 1) is True
    assert value(conn, DONE, "c", 6, 1) is False


def test_only_the_events_of_one_batch_are_kept(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    for batch, event in itertools.product(range(1, 20), range(5)):
        assert ext.set_event_done(conn, "c", batch, event)
    assert value(conn, "select count(*) from pgq_ext.completed_event") == 5


def test_every_function_has_its_wrapper(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert ext.set_event_done(conn, "c", 5, 1, "1")
    assert not ext.set_event_done(conn, "c", 5, 1, "1")
    assert ext.is_event_done(conn, "c", 5, 1, "1")
    assert not ext.is_event_done(conn, "c", 5, 1)
    assert ext.set_event_done(conn, "c", 5, 1)


def test_the_batch_of_the_events_is_known_until_all_is_forgotten(pgq_db: Database) -> None:
    with pgq_db.connect() as conn:
        assert ext.get_event_batch(conn, "c") is None
        for batch in (7, 8):
            assert ext.set_event_done(conn, "c", batch, 1)
            assert ext.set_event_done(conn, "c", batch, 1, "worker")
        assert ext.get_event_batch(conn, "c") == 8
        assert ext.set_batch_done(conn, "c", 7)
        ext.forget_batches(conn, "c")
        assert ext.get_event_batch(conn, "c") is None
        assert not ext.is_event_done(conn, "c", 8, 1) and not ext.is_batch_done(conn, "c", 7)
        assert ext.get_event_batch(conn, "c", "worker") == 8
