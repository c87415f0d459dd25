"""Queue browser: reads events and waiting retries without a consumer.

Reads the tables only; changes no position and opens no batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.rows import args_row, dict_row
from psycopg.types.datetime import TimestamptzLoader

from londiste.db.connection import Connection, whereabouts
from londiste.db.names import TableName, word
from londiste.db.queries import first, query, savepoint, translated
from londiste.error_values import server_text
from londiste.errors import AccessDenied, BadOption, from_database
from londiste.pgq.types import Event

_COLUMNS = sql.SQL(
    "ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,"
    " ev_extra1, ev_extra2, ev_extra3, ev_extra4"
)


class _AnyTime(Loader):
    """Times; those that Python has no value for (infinity, before year 1, after 9999) as texts."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._times = TimestamptzLoader(oid, context)

    def load(self, data: Buffer) -> datetime | str:
        """The time, or its text."""
        try:
            return self._times.load(data)
        except psycopg.DataError:
            return bytes(data).decode()


def accept_any_time(conn: Connection) -> None:
    """Makes lists of events readable in this session whose times producers have chosen."""
    conn.adapters.register_loader("timestamptz", _AnyTime)


def events(
    conn: Connection,
    queue: str,
    first: int | None = None,
    last: int | None = None,
    *,
    where: str | None = None,
    limit: int = 0,
    chunk: int = 1000,
) -> Iterator[Event]:
    """The events of a queue that its tables still hold, in the order of their ids.

    first -- a tick: only what was committed after it; last -- up to this tick.  Together the
        events of the batches between them.
    where -- condition over the columns of events, as SQL.
    limit -- 0 for no limit; chunk -- rows in memory at a time.

    Raises BadOption for an unknown tick, AccessDenied without the right to read events.
    """
    parts: list[sql.Composable] = []
    if first is not None:
        snapshot, low, _ = _bounds(conn, queue, first)
        parts.append(
            sql.SQL("ev_txid >= {} and not txid_visible_in_snapshot(ev_txid, {})").format(
                sql.Literal(low), snapshot
            )
        )
    if last is not None:
        snapshot, _, high = _bounds(conn, queue, last)
        parts.append(
            sql.SQL("ev_txid < {} and txid_visible_in_snapshot(ev_txid, {})").format(
                sql.Literal(high), snapshot
            )
        )
    if where:
        parts.append(sql.SQL("({})").format(sql.SQL(where)))
    try:
        row = conn.execute(query("event_parent"), {"queue": queue}).fetchone()
        assert row is not None
        statement = sql.SQL("select {} from {} where {} order by ev_id limit {}").format(
            _COLUMNS,
            TableName.parse(row[0]).sql,
            sql.SQL(" and ").join(parts) if parts else sql.SQL("true"),
            sql.Literal(limit or None),
        )
        with (
            savepoint(conn),
            conn.cursor("londiste_look", row_factory=args_row(Event)) as cursor,
        ):
            cursor.itersize = chunk
            cursor.execute(statement)
            yield from cursor
    except psycopg.errors.InsufficientPrivilege as error:
        raise AccessDenied(
            f"queue {queue}: user {conn.info.user} may not read events",
            detail=server_text(error),
            hint=f"grant pgq_reader to {conn.info.user}",
        ) from error
    except psycopg.Error as error:
        raise from_database(error, where=whereabouts(conn)) from error


def waiting(conn: Connection, queue: str, tick: int, event_type: str) -> frozenset[str]:
    """The data of all events of this type after a tick; none for an unknown tick."""
    seen = first(conn, "tick_snapshot", queue=queue, tick=tick)
    parent = first(conn, "event_parent", queue=queue)
    if seen is None or parent is None:
        return frozenset()
    with translated(conn):
        rows = conn.execute(
            sql.SQL(
                "select distinct e.ev_data from {} e"
                " where e.ev_type = %(type)s and e.ev_data is not null"
                " and e.ev_txid >= pg_catalog.txid_snapshot_xmin(%(seen)s::txid_snapshot)"
                " and not pg_catalog.txid_visible_in_snapshot(e.ev_txid, %(seen)s::txid_snapshot)"
            ).format(sql.Identifier(*parent[0].split("."))),
            {"type": event_type, "seen": seen[0]},
        ).fetchall()
    return frozenset(data for (data,) in rows)


def retries(
    conn: Connection, queue: str | None = None, consumer: str | None = None, *, limit: int = 0
) -> list[dict[str, Any]]:
    """Events that wait for their retry, the next first; needs pgq_admin."""
    return _rows(conn, "retry_events", queue=queue, consumer=consumer, count=limit or None)


def _rows(conn: Connection, name: str, **parameters: object) -> list[dict[str, Any]]:
    try:
        with conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query(name), parameters).fetchall()
    except psycopg.errors.InsufficientPrivilege as error:
        raise AccessDenied(
            f"user {conn.info.user} may not read waiting events",
            detail=server_text(error),
            hint=f"grant pgq_admin to {conn.info.user}",
        ) from error
    except psycopg.Error as error:
        raise from_database(error, where=whereabouts(conn)) from error


def _bounds(conn: Connection, queue: str, tick: int) -> tuple[sql.Composable, int, int]:
    rows = _rows(conn, "tick_bounds", queue=queue, tick=tick)
    if not rows:
        raise BadOption(
            f"queue {queue} has no tick {tick}", hint=f"londiste queue ticks {word(queue)}"
        )
    snapshot, low, high = rows[0].values()
    return sql.SQL("{}::txid_snapshot").format(sql.Literal(snapshot)), low, high
