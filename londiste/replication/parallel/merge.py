"""Merges the staged rows of a large batch, inside the worker's transaction.

The statements are those of serial apply; the server reads their parameter from the staging table,
so no row passes through this process.  Every statement must affect as many rows as were staged for
it; after a difference or an error the table is applied serially, which finds the event.
"""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from londiste.applier import statements
from londiste.applier.event_errors import of_write
from londiste.applier.plan import Verb
from londiste.changes.row_values import format_error
from londiste.db import owner
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation, hold
from londiste.replication.parallel.slices import TRUNCATE, SliceChunk


class MergeFailed(Exception):
    """A statement of one table failed or affected another number of rows."""

    def __init__(self, table: TableName, text: str) -> None:
        super().__init__(f"{table}: {text}")
        self.table = table
        self.text = text


class Merger:
    """Writes the chunks of one attempt through ``conn``, which has the replica role."""

    def __init__(
        self, conn: Connection, attempt: int, shapes: Mapping[TableName, Relation], node: str
    ) -> None:
        self._cursor = psycopg.RawCursor(conn)
        self._shapes = shapes
        self._node = node
        self._texts: dict[tuple[object, ...], str] = {}
        self._conn = conn
        self._held: set[TableName] = set()
        self._staged = (
            f"select s.rows from londiste.staged_{attempt} s"  # noqa: S608 - a number
            " where s.slice = $1 and s.chunk = $2"
        )

    def write(self, slice_number: int, chunk: SliceChunk) -> None:
        """One statement.  Raises MergeFailed, or TransientError (lock, deadlock, connection)."""
        shape = self._shapes[chunk.table]
        try:
            if chunk.table not in self._held:
                # The table was read before the tasks began.
                with self._conn.pipeline():
                    hold(self._conn, [shape], {shape.name} if chunk.kind == TRUNCATE else ())
                self._held.add(chunk.table)
            if chunk.kind == TRUNCATE:
                self._send(shape, statements.truncate_sql([shape]))
                return
            place = [slice_number, chunk.number]
            if shape.of_other:
                # The owner cannot read what is staged.
                row = self._cursor.execute(self._staged, place).fetchone()
                self._send(shape, self._text(shape, chunk), "" if row is None else str(row[0]))
                hit = owner.hit(self._cursor)
            else:
                self._cursor.execute(self._text(shape, chunk), place)
                hit = self._cursor.rowcount
        except psycopg.Error as error:
            known = of_write(error, self._node, chunk.table)
            if known.retry:
                raise known from error
            reason = f"{format_error(error)} (SQLSTATE {error.sqlstate})"
            raise MergeFailed(chunk.table, reason) from error
        if chunk.kind != Verb.UNSET and hit != chunk.rows:
            raise MergeFailed(
                chunk.table, f"{chunk.kind} affected {hit} rows instead of {chunk.rows}"
            )

    def _send(self, shape: Relation, statement: str, data: str | None = None) -> None:
        if shape.of_other:
            self._cursor.execute(*owner.guarded(self._conn, shape.oid, statement, data))
        else:
            self._cursor.execute(statement)

    def _text(self, shape: Relation, chunk: SliceChunk) -> str:
        known = (shape.name, chunk.kind, chunk.columns, chunk.key)
        text = self._texts.get(known)
        if text is None:
            text = statements.sql_for(shape, Verb(chunk.kind), chunk.columns, chunk.key)
            if not shape.of_other:
                text = text.replace(statements.PARAMETER, f"({self._staged})", 1)
            self._texts[known] = text
        return text
