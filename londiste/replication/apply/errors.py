"""Stored apply errors of a node, and the decisions about them.

One function per SQL function.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import psycopg

from londiste.applier.conflict_log import storable, storable_image
from londiste.changes.types import address
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName, quote
from londiste.db.queries import first, translation, tuples
from londiste.error_origin import raised_by_code
from londiste.errors import EventError, LondisteError
from londiste.replication.model import SkippedEvents


@dataclass(frozen=True)
class Open:
    """A stored apply error as the consumer needs it: it blocks, or is to be skipped."""

    event_id: int
    row: int
    dest: str | None
    tick: int
    state: str


@dataclass(frozen=True)
class ApplyError:
    """An event that could not be applied on this node; see ``londiste.apply_error``."""

    consumer: str
    tick: int
    event_id: int
    row: int
    table: str | None
    dest: str | None
    kind: str
    sqlstate: str | None
    message: str
    op: str | None
    key: Sequence[str] | None
    image: str | None = field(repr=False)
    here: str | None = field(repr=False)
    statement: str | None
    first_seen: datetime
    last_seen: datetime
    times: int
    state: str
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None
    ended_at: datetime | None

    @property
    def address(self) -> str:
        """``4711``, or ``4711:7`` for a row of a packed event."""
        return address(self.event_id, self.row)


@dataclass(frozen=True)
class Conflict:
    """How often the conflict policy of a table decided, by kind of conflict."""

    table: str
    kind: str
    policy: str
    times: int
    first_seen: datetime
    last_seen: datetime
    last_event: int


@dataclass(frozen=True)
class LeftOut:
    """A row that policy log has skipped."""

    table: str
    event_id: int
    row: int
    kind: str
    message: str
    op: str
    image: str = field(repr=False)
    here: str | None = field(repr=False)
    logged_at: datetime


def note_apply_error(
    conn: Connection, queue: str, consumer: str, tick: int, error: EventError
) -> None:
    """Stores an event that cannot be applied, or that it failed again.

    tick -- at the end of the batch.
    """
    found = error.finding
    assert found is not None
    call.value(
        conn,
        "londiste.note_apply_error",
        queue,
        consumer,
        tick,
        error.event_id,
        found.row,
        found.table or None,
        found.dest or None,
        found.kind,
        found.sqlstate or None,
        storable(conn, "; ".join(filter(None, [error.message, error.detail]))),
        found.op or None,
        list(found.key),
        storable_image(conn, found.image) if found.image else None,
        found.here,
        found.statement or None,
    )


def get_apply_errors(conn: Connection, queue: str, *, every: bool = False) -> list[ApplyError]:
    """The events that block replication on this node; with ``every``, the history too."""
    return call.records(conn, ApplyError, "londiste.get_apply_errors", queue, every)


def get_skips(conn: Connection, queue: str, consumer: str) -> list[Open]:
    """The consumer's stored errors: events that block it, or are to be skipped."""
    return call.records(conn, Open, "londiste.get_skips", queue, consumer)


def settle_apply_errors(
    conn: Connection, queue: str, consumer: str, tick: int, skips: SkippedEvents
) -> int:
    """Closes the consumer's errors up to this tick; ``skips`` were skipped."""
    rows = sorted(skips.rows)
    return int(
        call.value(
            conn,
            "londiste.settle_apply_errors",
            queue,
            consumer,
            tick,
            [event for event, _ in rows],
            [row for _, row in rows],
        )
    )


def skip_apply_error(
    conn: Connection, queue: str, event: int, row: int, by: str, reason: str
) -> str:
    """Skips an event; returns the database's message.  UsageError, StateError."""
    return call.ret(conn, "londiste.skip_apply_error", queue, event, row, by, reason or None).note


def retry_apply_errors(conn: Connection, queue: str) -> str:
    """Retries an event: wakes the blocked worker; returns the database's message."""
    return call.ret(conn, "londiste.retry_apply_errors", queue).note


def get_conflicts(conn: Connection, queue: str) -> list[Conflict]:
    """How often conflict policies have decided."""
    return call.records(conn, Conflict, "londiste.get_conflicts", queue)


def get_conflict_log(conn: Connection, queue: str, limit: int) -> list[LeftOut]:
    """The rows that policy log has skipped, newest first."""
    return call.records(conn, LeftOut, "londiste.get_conflict_log", queue, limit)


def skips_of(found: Sequence[Open]) -> SkippedEvents:
    """The events to skip, of the open errors."""
    skipped = [one for one in found if one.state == "skip"]
    return SkippedEvents(
        frozenset((one.event_id, one.row) for one in skipped),
        frozenset(TableName.parse(one.dest) for one in skipped if one.dest),
    )


def of_batch(error: psycopg.Error, conn: Connection, queue: str, batch: int) -> LondisteError:
    """The error of the server for a batch, and not for one of its events.

    Deferred triggers fire when the batch is committed: then no event is known.
    """
    known = translation(error, conn)
    if isinstance(error, psycopg.errors.ForeignKeyViolation):
        _name_key(known, error, conn, batch)
        return known
    if known.retry or not raised_by_code(error):
        return known
    found: list[tuple[str, str, str]] = []
    with contextlib.suppress(LondisteError, psycopg.Error):
        found = tuples(conn, "deferred_triggers", queue=queue)
    names = [f"{trigger} of {schema}.{table}" for schema, table, trigger in found]
    if not names:
        return known
    schema, table, trigger = found[0]
    known.say_more(
        f"at the end of batch {batch}, where deferred triggers fire: {', '.join(names)}",
        hint="change the trigger that raises the error; or, to fire it for other sessions only:"
        f" alter table {TableName(schema, table).quoted} enable trigger {quote(trigger)}",
    )
    return known


def _name_key(known: LondisteError, error: psycopg.Error, conn: Connection, batch: int) -> None:
    """Adds both tables of a violated key to its error, and the statement that finds the rows."""
    diag = error.diag
    if not (diag.schema_name and diag.table_name and diag.constraint_name):
        return
    table = TableName(diag.schema_name, diag.table_name)
    found = None
    with contextlib.suppress(LondisteError, psycopg.Error):
        found = first(conn, "foreign_key_violations", table=str(table), name=diag.constraint_name)
    if found is None:
        return
    statement, other, silenced = found
    known.say_more(
        f"constraint of table {table} to table {other}, checked at the end of batch {batch}",
        hint=f"as a superuser: {silenced}, after which the batch is applied and this finds the"
        f" rows: {statement}"
        if silenced
        else "",
    )
