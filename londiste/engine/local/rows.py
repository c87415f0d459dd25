"""Row by row: the changes in the order of their events, which is slow and names the one that fails.

First many statements under way at once, then, if one of them fails, one after the other to find the
culprit.  Nothing is kept in memory but the statements under way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

import psycopg
from psycopg.rows import TupleRow

from londiste.changes.types import Op, RowChange, Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.shape import TableShape
from londiste.engine.applyspec import Again, TableChange, TablePlan, Verb
from londiste.engine.local import statements
from londiste.errors import EventError, from_database

#: Statements that are under way together.
PIPELINE_ROWS = 500

_REFERENCED = "0A000"

_Image = dict[str, str | None]


class _Wrong(Exception):
    """One of the statements under way did not do its work."""


class RowWriter:
    """Writes changes one by one on a session with the replica role."""

    def __init__(self, conn: Connection, *, node: str, queue: str) -> None:
        self._conn = conn
        self._cursor: psycopg.RawCursor[TupleRow] = psycopg.RawCursor(conn)
        self._node = node
        self._queue = queue
        self._texts: dict[tuple[object, ...], str] = {}

    def write(self, again: Again) -> None:
        """Writes the changes; a transaction is open.

        Raises EventError naming the event, or TransientError.
        """
        try:
            with self._conn.transaction():
                self._pipelined(again())
            return
        except _Wrong:
            pass
        except psycopg.Error as error:
            known = from_database(error, where=self._node)
            if known.retry:
                raise known from error
        for shape, change in again():
            self._one(change, shape)

    def _pipelined(self, work: Iterable[tuple[TableShape, TableChange]]) -> None:
        rest = iter(work)
        while first := list(itertools.islice(rest, PIPELINE_ROWS)):
            cursors = []
            with self._conn.pipeline():
                for shape, change in first:
                    if isinstance(change, Truncate):
                        # Refused or not, one by one finds out.
                        self._conn.execute(statements.truncate_sql([shape]))
                        continue
                    for statement, image, exact in self._statements(change, shape):
                        cursor = psycopg.RawCursor(self._conn)
                        cursor.execute(statement, [statements.payload(image)])
                        cursors.append((cursor, exact))
            for cursor, exact in cursors:
                if exact and cursor.rowcount != 1:
                    raise _Wrong

    def _one(self, change: TableChange, shape: TableShape) -> None:
        if isinstance(change, Truncate):
            self._truncate(change, shape)
            return
        for statement, image, exact in self._statements(change, shape):
            try:
                self._cursor.execute(statement, [statements.payload(image)])
            except psycopg.Error as error:
                raise self._refused(change, shape, error, statement) from error
            if exact and self._cursor.rowcount != 1:
                raise self.error(
                    change,
                    shape,
                    "the row is not there"
                    if self._cursor.rowcount == 0
                    else f"{self._cursor.rowcount} rows have its key",
                    detail=f"SQL: {statement}",
                )

    def _truncate(self, change: Truncate, shape: TableShape) -> None:
        """Empties the table; under the replica role deletes leave referencing rows alone."""
        statement = statements.truncate_sql([shape])
        try:
            with self._conn.transaction():
                self._cursor.execute(statement)
            return
        except psycopg.Error as error:
            if error.sqlstate != _REFERENCED:
                raise self._refused(change, shape, error, statement) from error
        statement = statements.delete_all_sql(shape)
        try:
            self._cursor.execute(statement)
        except psycopg.Error as error:
            raise self._refused(change, shape, error, statement) from error

    def _refused(
        self, change: TableChange, shape: TableShape, error: psycopg.Error, statement: str
    ) -> Exception:
        known = from_database(error, where=self._node)
        if known.retry:
            return known
        return self.error(
            change,
            shape,
            said(error),
            detail=f"SQLSTATE {error.sqlstate}, SQL: {statement}",
            hint=_hint(error.sqlstate or "", shape.name),
        )

    def _statements(
        self, change: RowChange, shape: TableShape
    ) -> Iterator[tuple[str, _Image, bool]]:
        """Statements, their row, and whether they must hit it."""
        columns, key, image = tuple(change.image), change.key, change.image
        if change.op is Op.INSERT and not change.state:
            yield self._text(Verb.INSERT, shape, columns, key), image, True
            return
        if not key:
            raise self.error(
                change,
                shape,
                "an update or delete needs a key",
                hint=f"give the provider's table a primary key: alter table {shape.name}"
                " add primary key (…)",
            )
        replace = change.op is not Op.DELETE and must_replace(shape, columns, key)
        if change.op is Op.DELETE or replace:
            keyed = {name: image[name] for name in key}
            yield self._text(Verb.DELETE, shape, key, key), keyed, not change.state
        if replace:
            yield self._text(Verb.INSERT, shape, columns, key), image, True
        elif change.op is not Op.DELETE:
            verb = Verb.SET if change.state else Verb.UPDATE
            yield self._text(verb, shape, columns, key), image, True

    def _text(
        self, verb: Verb, shape: TableShape, columns: tuple[str, ...], key: tuple[str, ...]
    ) -> str:
        known = (verb, shape, columns, key)
        text = self._texts.get(known)
        if text is None:
            if len(self._texts) > 1000:
                self._texts.clear()
            text = self._texts[known] = statements.sql_for(shape, verb, columns, key)
        return text

    def error(
        self,
        change: TableChange,
        shape: TableShape,
        what: str,
        *,
        detail: str = "",
        hint: str = "",
    ) -> EventError:
        """The error of one event."""
        verb = "truncate" if isinstance(change, Truncate) else change.op.name.lower()
        return EventError(
            f"event {change.event_id} ({verb} of table {shape.name})"
            f" cannot be applied on node {self._node}: {what}",
            detail=detail,
            hint=hint or _hint("", shape.name),
            queue=self._queue,
            event_id=change.event_id,
        )

    def missing(self, change: RowChange, shape: TableShape) -> EventError | None:
        """The error of an event that has a column that is not here, or no value for its key."""
        for name in (*change.image, *change.key):
            if name not in shape.by_name:
                return self.error(
                    change,
                    shape,
                    f"the table has no column {name}",
                    hint=f"add the column on node {self._node}:"
                    f" alter table {shape.name.quoted} add column …",
                )
        for name in change.key:
            if name not in change.image:
                return self.error(change, shape, f"the event has no value for key column {name}")
        return None


def check_columns(plan: TablePlan, again: Again, rows: RowWriter) -> None:
    """Every column of the events must be here: nothing that was sent is dropped.

    Raises EventError for the first event that has another one.
    """
    if plan.sets is not None and not plan.changes:
        names = {name for rows_ in plan.sets for name in (*rows_.columns, *rows_.key)}
        if names <= plan.shape.by_name.keys():
            return
        changes: Iterable[TableChange] = (c for shape, c in again() if shape is plan.shape)
    else:
        changes = plan.changes
    seen: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    for change in changes:
        if isinstance(change, Truncate):
            continue
        form = tuple(change.image), change.key
        if form not in seen:
            seen.add(form)
            error = rows.missing(change, plan.shape)
            if error is not None:
                raise error


def must_replace(shape: TableShape, columns: Sequence[str], key: Sequence[str]) -> bool:
    """UPDATE cannot set an identity column; with the whole row at hand there is another way."""
    return shape.writable <= set(columns) and any(
        c.identity_always and c.name not in key for c in shape.columns
    )


def said(error: psycopg.Error) -> str:
    """The server's words without the values in them."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    if (error.sqlstate or "").startswith("22"):
        text = re.sub(r'"(?:[^"]|"")*"', "***", text)
    return text


def _hint(state: str, table: TableName) -> str:
    if state == "42501":
        return (
            f"grant the worker's user the right to write {table}; where row-level security is"
            f" forced: alter table {table.quoted} no force row level security"
        )
    if state.startswith("22") or state in {"23502", "23514", "42804", "42846"}:
        return (
            f"make the definition of {table} fit the provider's; the worker then goes on by itself"
        )
    return f"see what differs: londiste compare {table}; copy it again: londiste resync {table}"
