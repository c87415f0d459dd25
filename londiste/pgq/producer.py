"""Producer functions: insert events into a queue, one by one or many at a time.

An event is delivered if and only if the transaction that inserts it commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from londiste.db import call
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import savepoint, translated
from londiste.error_values import Values
from londiste.errors import BadOption, from_database
from londiste.pgq import queues

#: What a row of ``insert_events`` holds unless it is told otherwise.
FIELDS = ("type", "data", "extra1", "extra2", "extra3", "extra4")

_KNOWN = ("id", "time", *FIELDS)


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


def insert_event_once(
    conn: Connection,
    queue: str,
    key: str,
    type: str | None,
    data: str | None,
    extra1: str | None = None,
    extra2: str | None = None,
    extra3: str | None = None,
    extra4: str | None = None,
) -> tuple[int, bool]:
    """Inserts an event unless there was one with this key; its id, and whether it is new.

    Waits for a transaction that has inserted the key and is not finished.  The key, 1 to 1000
    bytes, is remembered for ``key_retention`` of the queue.  Raises as ``insert_event``, and
    BadOption for a bad key.
    """
    event = (type, data, extra1, extra2, extra3, extra4)
    row = call.row(conn, "pgq.insert_event_once", queue, key, *event)
    return int(row["ev_id"]), bool(row["is_new"])


def insert_event_arrays(
    conn: Connection,
    queue: str,
    types: Sequence[str | None],
    datas: Sequence[str | None],
    extra1s: Sequence[str | None] | None = None,
    extra2s: Sequence[str | None] | None = None,
    extra3s: Sequence[str | None] | None = None,
    extra4s: Sequence[str | None] | None = None,
) -> int:
    """Inserts as many events as the lists are long, in one statement, all or none; their number.

    Needs no right on tables (pgq_writer), and keeps all events in memory, in this process and on
    the server: for thousands, not for millions.  Raises as ``insert_event``, and BadOption for
    lists of different lengths.
    """
    lists = [
        None if each is None else list(each)
        for each in (types, datas, extra1s, extra2s, extra3s, extra4s)
    ]
    return int(call.value(conn, "pgq.insert_events", queue, *lists))


def insert_events(
    conn: Connection,
    queue: str,
    rows: Iterable[Sequence[Any]],
    *,
    fields: Sequence[str] | None = None,
) -> int:
    """Inserts events with COPY, all or none; the number of them.

    rows -- one sequence per event.
    fields -- what a row holds, in this order: of ``id``, ``time``, ``type``, ``data``, ``extra1``
        to ``extra4``, also as ``ev_id`` and so on.  Without it rows hold type, data and up to
        four extra fields.  An id that is not a field is the next of the queue, a time that is
        none, or None, is now.

    Memory does not grow with the number of rows.  Needs the right to write to event tables
    (pgq_admin).  Raises UnknownQueue, StateError when inserts are disabled or above the limit per
    transaction, BadOption for an unknown field or a row of the wrong length.
    """
    names = _names(fields)
    columns = ["ev_time", *(f"ev_{name}" for name in names if name != "time")]
    count = 0
    try:
        with savepoint(conn), conn.cursor(row_factory=tuple_row) as cursor:
            table = TableName.parse(queues.current_event_table(conn, queue))
            room = _count(conn, queue, 0)
            now = cursor.execute("select pg_catalog.now()").fetchone()
            assert now is not None
            statement = sql.SQL("copy {} ({}) from stdin").format(
                table.sql, sql.SQL(", ").join(map(sql.Identifier, columns))
            )
            with cursor.copy(statement) as copy:
                for row in _rows(rows, names, exact=fields is not None, now=now[0]):
                    count += 1
                    if room is not None and count > room:
                        raise _TooMany
                    copy.write_row(row)
            if room is not None or "id" in names:
                _count(conn, queue, count, "id" in names)
    except _TooMany:
        # The server says it in its own words.
        _count(conn, queue, count)
        raise
    except psycopg.Error as error:
        raise from_database(
            error, where=describe_dsn(conn.info.dsn), values=Values.APART
        ) from error
    return count


def insert_selected(
    conn: Connection, queue: str, query: sql.Composable, parameters: Sequence[Any] = ()
) -> int:
    """Inserts the rows that a query in this database returns as events, in its order; their number.

    query -- of the columns ev_time, ev_type, ev_data, ev_extra1 to ev_extra4.

    Rows do not leave the server.  Rights and errors are those of ``insert_events``.
    """
    with translated(conn, Values.APART):
        with savepoint(conn):
            table = TableName.parse(queues.current_event_table(conn, queue))
            _count(conn, queue, 0)
            statement = sql.SQL(
                "insert into {} (ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3,"
                " ev_extra4) {}"
            ).format(table.sql, query)
            count = conn.execute(statement, parameters).rowcount
            _count(conn, queue, count)
    return count


def first_refused_event(
    conn: Connection, queue: str, types: Sequence[str | None], tables: Sequence[str | None]
) -> int | None:
    """The place of the first event that a node refuses from roles without administrator rights.

    types, tables -- type and ``extra1`` of each event.
    None: there is no such event, or the queue is no node.  Needs pgq_admin.
    """
    number = call.value(conn, "pgq.first_refused_event", queue, list(types), list(tables))
    return None if number is None else int(number) - 1


class _TooMany(Exception):
    """More events than the queue takes from one transaction."""


def _count(conn: Connection, queue: str, events: int, own_ids: bool = False) -> int | None:
    """Yields how many events were copied; takes how many more are allowed, None for any number."""
    room = call.value(conn, "pgq.count_bulk_events", queue, events, own_ids)
    return None if room is None else int(room)


def _names(fields: Sequence[str] | None) -> list[str]:
    """The fields of a row, without prefix."""
    names = [name.removeprefix("ev_") for name in fields or FIELDS]
    for name in names:
        if name not in _KNOWN or names.count(name) > 1:
            raise BadOption(
                f"field {name} of an event {'is given twice' if name in _KNOWN else 'is unknown'}",
                hint=f"fields: {', '.join(_KNOWN)}",
            )
    return names


def _rows(
    rows: Iterable[Sequence[Any]], names: list[str], *, exact: bool, now: object
) -> Iterator[list[Any]]:
    """Rows for COPY: the time first, then the other fields in their order."""
    time_at = names.index("time") if "time" in names else None
    id_at = names.index("id") if "id" in names else None
    for number, row in enumerate(rows, 1):
        missing = len(names) - len(row)
        if missing < 0 or (exact and missing):
            raise BadOption(
                f"an event has {len(row)} fields",
                detail=f"event {number} of the list",
                hint=f"give {len(names)} fields: {', '.join(names)}"
                if exact
                else "give type, data and at most four extra fields",
            )
        values = [*row, *[None] * missing]
        if id_at is not None and values[id_at] is None:
            raise BadOption(
                f"event {number} of the list has no id",
                hint="give every event an id, or leave the field id out",
            )
        time = None if time_at is None else values.pop(time_at)
        yield [now if time is None else time, *values]
