"""Above READ COMMITTED a transaction sees the tables, and the catalog, as they were when it began.

It writes into the tables of now: what is captured is what they have, or it is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.capture.cases import MAIN, Case
from tests.capture.pair import Pair
from tests.fixtures.cascade import QUEUE
from tests.support.queue_events import writer

LEVELS = ["repeatable read", "serializable"]
KEYS = {"exact": "int4 primary key", "by value": "numeric primary key"}
PARTITIONS = (
    "create table app.t (id int4 primary key, n int4, v text) partition by range (id)",
    "create table app.t0 partition of app.t for values from (0) to (10)",
    "create table app.t1 partition of app.t for values from (10) to (20)",
)


def make(pair: Pair, *made: str, form: str = "auto") -> None:
    pair.make(Case(0, tables={MAIN: (f"form={form}",)}, made=made, extras=(), target=(), steps=()))


@contextlib.contextmanager
def older(pair: Pair, level: str = "repeatable read") -> Iterator[psycopg.Connection[Any]]:
    """A transaction whose snapshot is of the moment it is given; it commits at the end."""
    with writer(pair.source.info.dsn) as conn:
        conn.execute(f"begin isolation level {level}")
        conn.execute("select 1")
        yield conn
        conn.execute("commit")


@pytest.mark.parametrize("form", ["row", "statement"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_row_that_somebody_else_has_deleted_is_not_what_a_key_has_now(
    pair: Pair, level: str, form: str
) -> None:
    make(pair, "create table app.t (id int4 primary key, n int4, v text)", form=form)
    pair.app.execute("insert into app.t values (5, 1, 'old')")
    with older(pair, level) as one:
        pair.app.execute("delete from app.t where id = 5")
        one.execute("insert into app.t values (5, 2, 'new')")
        one.execute("update app.t set id = 6 where n = 2")
    pair.app.execute("insert into app.t values (5, 3, 'newest')")
    pair.replay()
    pair.compare(MAIN)


@pytest.mark.parametrize("form", ["row", "statement"])
@pytest.mark.parametrize("key", KEYS)
def test_the_row_of_the_transaction_itself_is_what_a_key_has_now(
    pair: Pair, key: str, form: str
) -> None:
    made = f"create table app.t (id {KEYS[key]}, n int4, v text)"
    make(pair, made, form=form)
    pair.app.execute("insert into app.t values (5, 1, 'old'), (6, 1, 'old'), (7, 1, 'old')")
    with older(pair) as one:
        pair.app.execute("delete from app.t where id in (5, 6)")
        one.execute("update app.t set id = 8 where id = 7")
        one.execute("insert into app.t values (5, 2, 'new')")
        one.execute("savepoint within")
        one.execute("insert into app.t values (6, 2, 'new')")
        one.execute("release within")
        one.execute("update app.t set v = 'newest' where n = 2")
    pair.replay()
    pair.compare(MAIN)


def test_a_key_that_is_checked_late_stops_the_transaction_where_nobody_can_know(
    pair: Pair,
) -> None:
    make(pair, "create table app.t (id int4 primary key deferrable, n int4, v text)")
    pair.app.execute("insert into app.t values (5, 1, 'old'), (6, 1, 'old')")
    with pytest.raises(psycopg.errors.SerializationFailure), older(pair) as one:
        pair.app.execute("delete from app.t where id = 5")
        one.execute("update app.t set v = 'undone' where id = 6")
        one.execute("insert into app.t values (5, 2, 'new')")
        one.execute("update app.t set id = 7 where n = 2")
    with older(pair) as one:
        # a row that nobody has changed for good is there, and a new one is, whatever was before
        pair.app.execute("insert into app.t values (5, 1, 'old')")
        one.execute("set constraints all deferred")
        one.execute("insert into app.t values (6, 2, 'new')")
        one.execute("delete from app.t where n = 2")
    with older(pair) as one:
        pair.app.execute("delete from app.t where id = 5")
        one.execute("insert into app.t values (5, 3, 'new')")
    pair.replay()
    pair.compare(MAIN)


def test_a_row_frozen_for_long_is_not_taken_for_one_of_a_subtransaction(pair: Pair) -> None:
    told = pair.source.execute(
        "select londiste._written_here(((txid_current() + 1000000) % (1::int8 << 32))::text::xid)"
    ).fetchone()
    assert told == (False,)


@pytest.mark.parametrize("form", ["row", "statement"])
def test_truncate_is_told_by_a_transaction_older_than_the_capture(pair: Pair, form: str) -> None:
    make(pair, *PARTITIONS, form="auto")
    with older(pair) as one:
        pair.source.execute(
            "select londiste.create_capture(%s, %s, %s::text[])", [QUEUE, MAIN, [f"form={form}"]]
        )
        pair.app.execute("insert into app.t values (5, 1, 'old'), (15, 1, 'old')")
        one.execute("truncate app.t")
    pair.replay()
    pair.compare(MAIN)


def test_truncate_of_a_partition_is_refused_where_rows_of_others_are_not_seen(pair: Pair) -> None:
    make(pair, *PARTITIONS)
    with pytest.raises(psycopg.errors.Error) as refused, older(pair) as one:
        pair.app.execute("insert into app.t values (5, 1, 'old'), (15, 1, 'old')")
        one.execute("truncate app.t0")
    assert refused.value.sqlstate == "LD100"
    assert "at isolation level REPEATABLE READ" in str(refused.value)
    assert "READ COMMITTED" in (refused.value.diag.message_hint or "")
    pair.app.execute("truncate app.t0")
    pair.replay()
    pair.compare(MAIN)
