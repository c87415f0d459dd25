"""Writes a plan into this node's tables, inside the transaction that the caller has open.

All rows of a statement are one parameter, of which the server takes 1 GB at most; the caller keeps
plans far smaller.

The quick way writes the net effect as sets: deletes, then updates, then inserts, each as a few
statements for any number of rows.  Every statement must hit as many rows as it was given; a
difference means that this table is not what the provider's was.

    sets -- unique violation --> the same table again as delete-all, insert-all
         -- anything else -----> row by row, in the order of the events

Deletes before updates before inserts leaves one kind of conflict: two updates that pass a
unique value on.  Deleting all touched rows and inserting all final images has none, because
untouched rows and final images are rows that were committed together on the provider.  (Except
when a batch is so large that it is written in several parts; then row by row is the answer.)
It would be wrong without the replica role, where a delete may cascade.

Row by row is slow and names the event that does not fit.  The position of the node stays in
front of the batch in any case: the caller's transaction ends with the error.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from londiste.changes.types import Op, RowChange, Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.shape import TableShape
from londiste.engine.applyspec import Net, TablePlan
from londiste.engine.local import statements
from londiste.errors import EventError, from_database

log = logging.getLogger(__name__)

#: Statements that are under way together when rows are written one by one.
PIPELINE_ROWS = 500

_UNIQUE_VIOLATION = "23505"
_REFERENCED = "0A000"


class _SetFailed(Exception):
    """A set of one table was refused or hit another number of rows."""

    def __init__(self, table: TableName, state: str, text: str) -> None:
        super().__init__(f"{table}: {text}")
        self.table = table
        self.state = state


class Applier:
    """Applies plans on one connection.

    conn -- session with the replica role; a transaction is open when ``apply`` is called.
    node, queue -- for messages.
    """

    def __init__(self, conn: Connection, *, node: str, queue: str = "") -> None:
        self._conn = conn
        self._cursor: psycopg.RawCursor[TupleRow] = psycopg.RawCursor(conn)
        self._node = node
        self._queue = queue
        self._texts: dict[tuple[object, ...], str] = {}
        # Tables that pass unique values on are likely to do it again.
        self._rewrite: set[TableName] = set()

    def apply(self, plans: Sequence[TablePlan]) -> None:
        """Writes the plans.

        Raises EventError naming the event, or TransientError (lock, deadlock, connection,
        space); the transaction is then of no use any more.
        """
        for plan in plans:
            self._check_columns(plan)
        if not self._as_sets(plans):
            self._as_rows(plans)

    # -- sets ------------------------------------------------------------------------------

    def _as_sets(self, plans: Sequence[TablePlan]) -> bool:
        """True when everything is written; False when nothing is, and order must decide."""
        ordered = [plan for plan in plans if plan.net is None]
        for plan in ordered:
            log.debug("%s: row by row: %s", plan.shape.name, plan.reason)
        while True:
            try:
                with self._conn.transaction():
                    self._truncate([p.shape for p in plans if p.net and p.net.truncated])
                    for plan in plans:
                        if plan.net is not None:
                            self._set(plan.shape, plan.net)
            except _SetFailed as failed:
                if failed.state == _UNIQUE_VIOLATION and self._may_rewrite(plans, failed.table):
                    log.info("%s, written again as delete and insert", failed)
                    self._rewrite.add(failed.table)
                    continue
                log.info("%s, the events are applied one by one", failed)
                return False
            break
        if ordered:
            self._as_rows(ordered)
        return True

    def _may_rewrite(self, plans: Sequence[TablePlan], table: TableName) -> bool:
        """A rewritten row would lose what the image does not have."""
        return table not in self._rewrite and all(
            plan.shape.writable <= change.image.keys()
            for plan in plans
            if plan.shape.name == table and plan.net is not None
            for change in (*plan.net.updates, *plan.net.sets)
        )

    def _set(self, shape: TableShape, net: Net) -> None:
        deletes, unsets, updates, sets, inserts = (
            net.deletes,
            net.unsets,
            net.updates,
            net.sets,
            net.inserts,
        )
        if shape.name in self._rewrite and all(
            shape.writable <= change.image.keys() for change in (*updates, *sets)
        ):
            deletes, unsets, updates, sets, inserts = (
                [*deletes, *updates],
                [*unsets, *sets],
                [],
                [],
                [*updates, *sets, *inserts],
            )
        for exact, group in ((True, deletes), (False, unsets)):
            for key, some in _groups(group, lambda c: c.key or shape.key):
                images = ({name: change.image[name] for name in key} for change in some)
                self._run(shape, self._text("delete", shape, key), images, exact=exact)
        for kind, group in (("update", updates), ("set", sets)):
            for (columns, key), some in _groups(group, lambda c: (tuple(c.image), c.key)):
                self._run(shape, self._text(kind, shape, columns, key), (c.image for c in some))
        for columns, some in _groups(inserts, lambda c: tuple(c.image)):
            self._run(shape, self._text("insert", shape, columns), (c.image for c in some))

    def _run(
        self,
        shape: TableShape,
        statement: str,
        images: Iterable[dict[str, str | None]],
        *,
        exact: bool = True,
    ) -> None:
        rows = list(images)
        try:
            self._cursor.execute(statement, [statements.payload(rows)])
        except psycopg.Error as error:
            known = from_database(error, where=self._node)
            if known.retry:
                raise known from error
            raise _SetFailed(shape.name, error.sqlstate or "", _message(error)) from error
        if exact and self._cursor.rowcount != len(rows):
            raise _SetFailed(
                shape.name, "", f"{self._cursor.rowcount} rows hit instead of {len(rows)}"
            )

    def _truncate(self, shapes: Sequence[TableShape]) -> None:
        """Empties the tables; under the replica role deletes leave referencing rows alone."""
        if not shapes:
            return
        try:
            with self._conn.transaction():
                self._cursor.execute(statements.truncate_sql(shapes))
            return
        except psycopg.Error as error:
            if error.sqlstate != _REFERENCED:
                raise self._refused(shapes[0], error) from error
        for shape in shapes:
            try:
                self._cursor.execute(statements.delete_all_sql(shape))
            except psycopg.Error as error:
                raise self._refused(shape, error) from error

    def _refused(self, shape: TableShape, error: psycopg.Error) -> Exception:
        known = from_database(error, where=self._node)
        return known if known.retry else _SetFailed(shape.name, "", _message(error))

    # -- rows ------------------------------------------------------------------------------

    def _as_rows(self, plans: Sequence[TablePlan]) -> None:
        """Event after event: first many statements under way at once, then to find the culprit."""
        work = sorted(
            ((change, plan.shape) for plan in plans for change in plan.changes),
            key=lambda pair: pair[0].event_id,
        )
        rows = [(c, s) for c, s in work if isinstance(c, RowChange)]
        if len(rows) == len(work):
            try:
                with self._conn.transaction():
                    self._pipelined(rows)
                return
            except _SetFailed:
                pass
            except psycopg.Error as error:
                known = from_database(error, where=self._node)
                if known.retry:
                    raise known from error
        for change, shape in work:
            self._one(change, shape)

    def _pipelined(self, rows: Sequence[tuple[RowChange, TableShape]]) -> None:
        for start in range(0, len(rows), PIPELINE_ROWS):
            cursors = []
            with self._conn.pipeline():
                for change, shape in rows[start : start + PIPELINE_ROWS]:
                    for statement, image in self._statements(change, shape):
                        cursor = psycopg.RawCursor(self._conn)
                        cursor.execute(statement, [statements.payload([image])])
                        cursors.append((cursor, shape, _is_unset(change)))
            for cursor, shape, lenient in cursors:
                if cursor.rowcount != 1 and not lenient:
                    raise _SetFailed(shape.name, "", "a row is missing")

    def _one(self, change: RowChange | Truncate, shape: TableShape) -> None:
        if isinstance(change, Truncate):
            try:
                self._truncate([shape])
            except _SetFailed as failed:
                raise self._event_error(change, shape, str(failed)) from failed
            return
        for statement, image in self._statements(change, shape):
            try:
                self._cursor.execute(statement, [statements.payload([image])])
            except psycopg.Error as error:
                known = from_database(error, where=self._node)
                if known.retry:
                    raise known from error
                raise self._event_error(
                    change,
                    shape,
                    _message(error),
                    detail=f"SQLSTATE {error.sqlstate}, SQL: {statement}",
                    hint=_hint(error.sqlstate or "", shape.name),
                ) from error
            if self._cursor.rowcount != 1 and not _is_unset(change):
                raise self._event_error(
                    change,
                    shape,
                    "the row is not there"
                    if self._cursor.rowcount == 0
                    else f"{self._cursor.rowcount} rows have its key",
                    detail=f"SQL: {statement}",
                )

    def _statements(
        self, change: RowChange, shape: TableShape
    ) -> Iterator[tuple[str, dict[str, str | None]]]:
        columns, key = tuple(change.image), change.key
        if change.op is Op.INSERT and change.state:
            yield self._text("set", shape, columns, key), change.image
            return
        if change.op is Op.INSERT:
            yield self._text("insert", shape, columns), change.image
            return
        if not key:
            raise self._event_error(
                change,
                shape,
                "an update or delete needs a key",
                hint=f"give the provider's table a primary key: alter table {shape.name}"
                " add primary key (…)",
            )
        if change.op is Op.DELETE or self._must_replace(change, shape):
            keyed = {name: change.image[name] for name in key}
            yield self._text("delete", shape, key), keyed
        if change.op is Op.UPDATE:
            if self._must_replace(change, shape):
                yield self._text("insert", shape, columns), change.image
            else:
                yield self._text("update", shape, columns, key), change.image

    @staticmethod
    def _must_replace(change: RowChange, shape: TableShape) -> bool:
        """UPDATE cannot set an identity column; with the whole row at hand there is another way."""
        return (
            change.op is Op.UPDATE
            and shape.writable <= change.image.keys()
            and any(c.identity_always and c.name not in change.key for c in shape.columns)
        )

    # -- both ------------------------------------------------------------------------------

    def _text(
        self,
        kind: str,
        shape: TableShape,
        columns: tuple[str, ...],
        key: tuple[str, ...] = (),
    ) -> str:
        known = (kind, shape, columns, key)
        text = self._texts.get(known)
        if text is None:
            if len(self._texts) > 1000:
                self._texts.clear()
            if kind == "insert":
                text = statements.insert_sql(shape, columns)
            elif kind == "update":
                text = statements.update_sql(shape, columns, key)
            elif kind == "set":
                text = statements.set_sql(shape, columns, key)
            else:
                text = statements.delete_sql(shape, columns)
            self._texts[known] = text
        return text

    def _check_columns(self, plan: TablePlan) -> None:
        """Every column of the events must be here: nothing that was sent is dropped."""
        known: dict[tuple[str, ...], bool] = {}
        for change in plan.changes:
            if isinstance(change, Truncate):
                continue
            names = tuple(change.image)
            if names not in known:
                missing = [name for name in (*names, *change.key) if name not in plan.shape.by_name]
                if missing:
                    raise self._event_error(
                        change,
                        plan.shape,
                        f"the table has no column {missing[0]}",
                        hint=f"add the column on node {self._node}:"
                        f" alter table {plan.shape.name.quoted} add column …",
                    )
                known[names] = True
            lost = [name for name in change.key if name not in change.image]
            if lost:
                raise self._event_error(
                    change, plan.shape, f"the event has no value for key column {lost[0]}"
                )

    def _event_error(
        self,
        change: RowChange | Truncate,
        shape: TableShape,
        what: str,
        *,
        detail: str = "",
        hint: str = "",
    ) -> EventError:
        verb = "truncate" if isinstance(change, Truncate) else change.op.name.lower()
        return EventError(
            f"event {change.event_id} ({verb} of table {shape.name})"
            f" cannot be applied on node {self._node}: {what}",
            detail=detail,
            hint=hint or _hint("", shape.name),
            queue=self._queue,
            event_id=change.event_id,
        )


def _is_unset(change: RowChange) -> bool:
    """Whether the change may find no row."""
    return change.state and change.op is Op.DELETE


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


def _message(error: psycopg.Error) -> str:
    """The server's words without the values in them."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    if (error.sqlstate or "").startswith("22"):
        text = re.sub(r'"(?:[^"]|"")*"', "***", text)
    return text


def _groups(
    changes: Iterable[RowChange], of: Callable[[RowChange], Any]
) -> Iterator[tuple[Any, list[RowChange]]]:
    groups: dict[Any, list[RowChange]] = {}
    for change in changes:
        groups.setdefault(of(change), []).append(change)
    yield from groups.items()
