"""Small steps for tests of schema ``pgq``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from londiste.db.connection import Connection

#: What get_batch_events() returns, in order.
EVENT_COLUMNS = [
    "ev_id",
    "ev_time",
    "ev_txid",
    "ev_retry",
    "ev_type",
    "ev_data",
    "ev_extra1",
    "ev_extra2",
    "ev_extra3",
    "ev_extra4",
]


@contextmanager
def refused(code: str, message: str) -> Iterator[None]:
    """The block must fail with this SQLSTATE and exactly this message, and say what to do."""
    with pytest.raises(psycopg.Error) as caught:
        yield
    diag = caught.value.diag
    assert (diag.sqlstate, diag.message_primary) == (code, message)
    assert diag.message_hint, "an error without a hint"


@contextmanager
def refused_like(code: str, pattern: str) -> Iterator[None]:
    """As ``refused`` for a message that holds numbers."""
    with pytest.raises(psycopg.Error) as caught:
        yield
    diag = caught.value.diag
    assert diag.sqlstate == code
    assert re.fullmatch(pattern, diag.message_primary or ""), diag.message_primary
    assert diag.message_hint, "an error without a hint"


def value(conn: Connection, statement: str, *parameters: Any) -> Any:
    """First column of the first row; None without a row."""
    row = conn.execute(statement, parameters or None).fetchone()
    return row[0] if row else None


def column(conn: Connection, statement: str, *parameters: Any) -> list[Any]:
    """First column of all rows."""
    return [row[0] for row in conn.execute(statement, parameters or None)]


def queue_with_consumer(conn: Connection, queue: str = "q", consumer: str = "c") -> None:
    """A new queue and a consumer at its start; rotation and ticks as fast as one asks."""
    conn.execute("select pgq.create_queue(%s)", [queue])
    conn.execute("select pgq.register_consumer(%s, %s)", [queue, consumer])
    conn.execute("select pgq.set_queue_config(%s, 'rotation_period', '0')", [queue])


def insert(conn: Connection, data: str, queue: str = "q") -> int:
    """Inserts an event of type t; its id."""
    return int(value(conn, "select pgq.insert_event(%s, 't', %s)", queue, data))


def tick(conn: Connection, queue: str = "q") -> int:
    """Makes a tick now; its id."""
    conn.execute("select pgq.force_tick(%s)", [queue])
    made = value(conn, "select pgq.ticker(%s)", queue)
    assert made is not None
    return int(made)


def open_batch(conn: Connection, queue: str = "q", consumer: str = "c") -> int:
    """Opens the next batch, which must be there; its id."""
    batch = value(conn, "select pgq.next_batch(%s, %s)", queue, consumer)
    assert batch is not None
    return int(batch)


def data_of(conn: Connection, batch: int) -> list[str]:
    """ev_data of the events of a batch in order."""
    return column(conn, "select ev_data from pgq.get_batch_events(%s)", batch)


def consume(conn: Connection, queue: str = "q", consumer: str = "c") -> list[str]:
    """Reads and finishes the next batch; ev_data of its events."""
    batch = open_batch(conn, queue, consumer)
    found = data_of(conn, batch)
    assert value(conn, "select pgq.finish_batch(%s)", batch) == 1
    return found


def rotate(conn: Connection, queue: str = "q") -> bool:
    """Both steps of rotation; whether the queue switched to another table."""
    look = "select queue_cur_table from pgq.queue where queue_name = %s"
    before = value(conn, look, queue)
    assert value(conn, "select pgq.maint_rotate_tables_step1(%s)", queue) == 0
    assert value(conn, "select pgq.maint_rotate_tables_step2()") == 0
    return bool(value(conn, look, queue) != before)
