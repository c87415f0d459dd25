"""Row by row apply: changes in the order of their events, slow, names the event that fails.

Many statements are sent at once; if one of them fails, they are sent one after the other to find
it.  A row with a unique value that is still another row's is deferred
(``deferred_rows``) and written later.  Nothing else is kept in memory but the statements under way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import psycopg
from psycopg.rows import TupleRow

from londiste.applier import statements
from londiste.applier.conflict_log import KEEP, Conflicts
from londiste.applier.conflict_policy import Action, decide
from londiste.applier.deferred_rows import (
    CONFLICTS,
    Contradiction,
    DeferredRows,
    Image,
    Row,
    follow,
)
from londiste.applier.event_errors import EventErrors, key_of, of_write
from londiste.applier.plan import ReplayChanges, TableChange, Verb
from londiste.changes.types import Op, RowChange, Truncate
from londiste.db import owner
from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.relation import Relation
from londiste.errors import ApplyError, EventError

#: Statements that are under way together.
PIPELINE_ROWS = 500

_REFERENCED = "0A000"


class _Wrong(Exception):
    """One of the statements of a pipeline did not hit its row."""


class RowWriter:
    """Writes changes one by one on a session with the replica role."""

    def __init__(self, conn: Connection, *, node: str, queue: str, keep: int = KEEP) -> None:
        self._conn = conn
        self.conflicts = Conflicts(conn, queue, keep)
        self._cursor: psycopg.RawCursor[TupleRow] = psycopg.RawCursor(conn)
        self.errors = EventErrors(conn, node=node, queue=queue)
        self._node = node
        self._texts: dict[tuple[object, ...], str] = {}
        self._aside = DeferredRows()
        # More rows than that are not tried again each time.
        self._many = 0

    def forget(self) -> None:
        """Starts a new transaction; deferred rows of an earlier one are dropped."""
        self._aside.forget()
        self.conflicts.forget()

    @property
    def waiting(self) -> int:
        """Number of deferred rows."""
        return len(self._aside)

    def write(self, again: ReplayChanges) -> None:
        """Writes the changes; a transaction is open, and ``settle`` is called before its end.

        Raises EventError naming the event, or TransientError.
        """
        rest = iter(again())
        while some := list(itertools.islice(rest, PIPELINE_ROWS)):
            self.put_back()
            if self._aside or not self._quickly(some):
                for shape, change in some:
                    self._one(change, shape)

    def put_back(self) -> None:
        """Writes the deferred rows that no other row conflicts with any more.

        When there are many, only from time to time.
        """
        if self._aside and (self.waiting <= PIPELINE_ROWS or self.waiting >= self._many):
            for row in self._aside.rows():
                self._try(row)
            self._many = 2 * self.waiting

    def settle(self) -> None:
        """Writes all deferred rows.  Raises EventError for the first that still conflicts,
        unless the policy of its table decides otherwise.

        Every event of the batch is written by now, or another error is to be expected.
        """
        for row in self._aside.rows():
            refused = self._try(row)
            if refused is not None:
                self._stays_out(row, refused)

    def _quickly(self, some: Sequence[tuple[Relation, TableChange]]) -> bool:
        """Whether the changes are written; when not, none is."""
        try:
            with self._conn.transaction():
                self._pipelined(some)
            return True
        except _Wrong:
            return False
        except psycopg.Error as error:
            known = of_write(error, self._node)
            if known.retry:
                raise known from error
            return False

    def _pipelined(self, some: Sequence[tuple[Relation, TableChange]]) -> None:
        cursors = []
        with self._conn.pipeline():
            for shape, change in some:
                if isinstance(change, Truncate):
                    # Refused or not, one by one finds out.
                    self._send(self._cursor, shape, statements.truncate_sql([shape]))
                    continue
                for statement, image, exact in self._statements(change, shape):
                    cursor = psycopg.RawCursor(self._conn)
                    self._send(cursor, shape, statement, statements.payload(image))
                    cursors.append((cursor, shape, exact))
        for cursor, shape, exact in cursors:
            if exact and _hit(cursor, shape) != 1:
                raise _Wrong

    def _send(
        self,
        cursor: psycopg.RawCursor[TupleRow],
        shape: Relation,
        statement: str,
        data: str | None = None,
    ) -> None:
        if shape.of_other:
            cursor.execute(*owner.guarded(self._conn, shape.oid, statement, data))
        else:
            cursor.execute(statement, None if data is None else [data])

    def _run(self, shape: Relation, statement: str, data: str | None = None) -> int:
        """Runs a statement on a table; the number of rows that it hit."""
        self._send(self._cursor, shape, statement, data)
        return _hit(self._cursor, shape)

    def _one(self, change: TableChange, shape: Relation) -> None:
        if isinstance(change, Truncate):
            self._aside.empty(shape.name)
            self._truncate(change, shape)
            return
        row = self._aside.find(change, shape, lambda keys: self._same(change, shape, keys))
        if row is not None and row.twice and change.state:
            self._aside.remove(row)
        elif row is not None:
            self._change_aside(row, change)
            return
        try:
            self._write_one(change, shape)
        except EventError as error:
            if self._by_policy(error, change, shape) is Action.WRITE:
                self._one(_as_state(change), shape)

    def _write_one(self, change: RowChange, shape: Relation) -> None:
        statement = ""
        try:
            with self._conn.transaction():
                for statement, image, exact in self._statements(change, shape):
                    hit = self._run(shape, statement, statements.payload(image))
                    if exact:
                        self._expect_one(hit, change, shape, statement)
        except psycopg.Error as error:
            if error.sqlstate not in CONFLICTS or not self._set_aside(change, shape):
                raise self.errors.refused(change, shape, error, statement) from error

    def _expect_one(self, hit: int, change: RowChange, shape: Relation, statement: str) -> None:
        if hit == 0 and change.op is Op.INSERT:
            raise self.errors.not_kept(change, shape, statement)
        if hit != 1:
            raise self.errors.error(
                change,
                shape,
                "no row matches the key" if hit == 0 else f"{hit} rows match the key",
                detail=f"{key_of(change)}SQL: {statement}",
                kind="many" if hit else "missing",
                statement=statement,
            )

    def _by_policy(self, error: EventError, change: RowChange, shape: Relation) -> Action:
        """Applies the policy of the table to an event that conflicts, and records the decision.

        Raises the error if it is to halt.
        """
        found = error.finding or ApplyError()
        action = decide(shape.on_error, found.kind, change)
        if action is Action.HALT:
            raise error
        self.conflicts.add(change, shape, found, error.message)
        return action

    # -- rows that are set aside -----------------------------------------------------------

    def _set_aside(self, change: RowChange, shape: Relation) -> bool:
        """Defers the row of an event that met a conflict: deletes it from its table and keeps it.

        False where that is no answer: in a table without a key.
        """
        key = change.key or shape.key
        if not key:
            return False
        # A policy may want the whole row back.
        others = [
            c.name
            for c in shape.columns
            if not c.generated and (shape.on_error != "halt" or c.name not in change.image)
        ]
        statement = statements.take_sql(shape, others, key)
        kept: Image = {}
        hit, twice = 0, False
        with self._conn.transaction():
            found = {name: change.image.get(name) for name in key}
            number, *values = owner.ask(self._conn, shape, statement, statements.payload(found))
            hit = int(number or 0)
            if hit and change.op is Op.INSERT and not change.state:
                twice = True
                raise psycopg.Rollback
            if hit or (not change.state and change.op is not Op.INSERT):
                self._expect_one(hit, change, shape, statement)
            kept = dict(zip(others, values, strict=False))
        if twice and shape.on_error != "halt":
            raise self.errors.error(
                change, shape, "the row already exists", detail=key_of(change), kind="exists"
            )
        before = kept if hit and shape.on_error != "halt" else None
        self._aside.add(Row(shape, {**kept, **change.image}, change, twice, before))
        return True

    def _stays_out(self, row: Row, refused: psycopg.Error) -> None:
        """Decides about a deferred row that cannot be written.  Raises EventError."""
        text = self._text(Verb.INSERT, row.shape, row.columns, row.change.key)
        error = self.errors.refused(row.change, row.shape, refused, text, exists=row.twice)
        if not isinstance(error, EventError):
            raise error from refused
        if self._by_policy(error, row.change, row.shape) is Action.WRITE:
            # It is for rows that are there, and those are not set aside under a policy.
            raise error from refused
        self._aside.remove(row)
        if row.before is not None:
            before = Row(row.shape, row.before, row.change)
            self._aside.add(before)
            if self._try(before) is not None:
                raise error from refused

    def _change_aside(self, row: Row, change: RowChange) -> None:
        try:
            if row.twice:
                raise Contradiction
            image = follow(row.image, change)
        except Contradiction:
            # The deferred event is the wrong one, and not the event after it.
            wrong = row.change if row.twice else change
            error = self.errors.error(
                wrong,
                row.shape,
                "the row already exists",
                detail=key_of(wrong),
                kind="exists",
            )
            if self._by_policy(error, change, row.shape) is Action.LEAVE_OUT:
                return
            image = follow(row.image, _as_state(change))
        if image is None:
            self._aside.remove(row)
            return
        row.image, row.change = image, change
        self._try(row)

    def _try(self, row: Row) -> psycopg.Error | None:
        """Puts a row back into its table; the conflict, if there is one.

        Raises EventError where something else is wrong with it.
        """
        statement = self._text(Verb.INSERT, row.shape, row.columns, row.change.key)
        try:
            with self._conn.transaction():
                self._run(row.shape, statement, statements.payload(row.image))
        except psycopg.Error as error:
            if error.sqlstate in CONFLICTS:
                return error
            raise self.errors.refused(row.change, row.shape, error, statement) from error
        self._aside.remove(row)
        return None

    def _same(
        self, change: RowChange, shape: Relation, keys: Sequence[Mapping[str, str | None]]
    ) -> int | None:
        """The place of the event's key among others, as the operators of its types tell."""
        key = change.key or shape.key
        image = {name: change.image.get(name) for name in key}
        statement = statements.same_key_sql(shape, key, literal(statements.payload(image)))
        found = owner.ask(self._conn, shape, statement, ",".join(map(statements.payload, keys)))
        return int(found[0]) if found and found[0] is not None else None

    # -- single events ---------------------------------------------------------------------

    def _truncate(self, change: Truncate, shape: Relation) -> None:
        """Empties the table; under the replica role deletes leave referencing rows alone."""
        statement = statements.truncate_sql([shape])
        try:
            with self._conn.transaction():
                self._run(shape, statement)
            return
        except psycopg.Error as error:
            if error.sqlstate != _REFERENCED:
                raise self.errors.refused(change, shape, error, statement) from error
        statement = statements.delete_all_sql(shape)
        try:
            self._run(shape, statement)
        except psycopg.Error as error:
            raise self.errors.refused(change, shape, error, statement) from error

    def _statements(self, change: RowChange, shape: Relation) -> Iterator[tuple[str, Image, bool]]:
        """Statements, their row, and whether they must hit it."""
        columns, key, image = tuple(change.image), change.key, change.image
        if change.op is Op.INSERT and not change.state:
            yield self._text(Verb.INSERT, shape, columns, key), image, True
            return
        if not key and change.op is Op.DELETE:
            yield self._text(Verb.DELETE, shape, columns, key), image, True
            return
        if not key:
            raise self.errors.error(
                change,
                shape,
                "an update needs a key",
                hint=f"give the provider's table a primary key: alter table {shape.name.quoted}"
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
        self, verb: Verb, shape: Relation, columns: tuple[str, ...], key: tuple[str, ...]
    ) -> str:
        known = (verb, shape, columns, key)
        text = self._texts.get(known)
        if text is None:
            if len(self._texts) > 1000:
                self._texts.clear()
            text = self._texts[known] = statements.sql_for(shape, verb, columns, key)
        return text


def _hit(cursor: psycopg.RawCursor[TupleRow], shape: Relation) -> int:
    return owner.hit(cursor) if shape.of_other else cursor.rowcount


def _as_state(change: RowChange) -> RowChange:
    """The same event as what the table has after it."""
    op = Op.DELETE if change.op is Op.DELETE else Op.INSERT
    return change._replace(op=op, state=True)


def must_replace(shape: Relation, columns: Sequence[str], key: Sequence[str]) -> bool:
    """Whether an update must be a delete and an insert: UPDATE cannot set identity columns."""
    return shape.writable <= set(columns) and any(
        c.identity_always and c.name not in key for c in shape.columns
    )
