"""Producers: events into a queue, one by one or many at a time.

An event is delivered if and only if the transaction that inserts it commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg
from psycopg import sql

from londiste.db import call
from londiste.db.connection import Connection, place
from londiste.db.names import TableName
from londiste.errors import BadOption, from_database
from londiste.pgq import queues

_COLUMNS = ("ev_type", "ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")


def insert_event(
    conn: Connection,
    queue: str,
    type: str | None,
    data: str | None,
    extra1: str | None = None,
    extra2: str | None = None,
    extra3: str | None = None,
    extra4: str | None = None,
) -> int:
    """Inserts an event; its id.  Raises UnknownQueue, or StateError when inserts are disabled."""
    event = (type, data, extra1, extra2, extra3, extra4)
    return int(call.value(conn, "pgq.insert_event", queue, *event))


def insert_events(conn: Connection, queue: str, rows: Iterable[Sequence[str | None]]) -> int:
    """Inserts events with COPY, all or none; the number of them.

    rows -- type, data and up to four extra fields each.

    Needs the right to write to event tables (pgq_admin), and does not look at the limit of
    events per transaction.  Raises UnknownQueue, StateError, BadOption for a row too long.
    """
    count = 0
    try:
        with conn.transaction(), conn.cursor() as cursor:
            table = TableName.parse(queues.current_event_table(conn, queue))
            now = cursor.execute("select pg_catalog.now()").fetchone()
            assert now is not None
            statement = sql.SQL("copy {} ({}) from stdin").format(
                table.sql, sql.SQL(", ").join(map(sql.Identifier, ("ev_time", *_COLUMNS)))
            )
            with cursor.copy(statement) as copy:
                for row in rows:
                    if len(row) > len(_COLUMNS):
                        raise BadOption(
                            f"an event of {len(row)} fields",
                            hint="type, data and at most four extra fields",
                        )
                    missing = [None] * (len(_COLUMNS) - len(row))
                    copy.write_row((now[0], *row, *missing))
                    count += 1
    except psycopg.Error as error:
        raise from_database(error, where=place(conn.info.dsn)) from error
    return count


__all__ = ["insert_event", "insert_events"]
