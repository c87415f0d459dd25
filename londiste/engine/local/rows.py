"""Row by row: the changes in the order of their events, which is slow and names the one that fails.

First many statements under way at once, then, if one of them fails, those one after the other to
find the culprit.  A row with a unique value that is still another row's is set aside (``aside``)
and put back later.  Nothing else is kept in memory but the statements under way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import psycopg
from psycopg.rows import TupleRow

from londiste.changes.types import Op, RowChange, Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.shape import TableShape
from londiste.engine.applyspec import Again, TableChange, TablePlan, Verb
from londiste.engine.local import statements
from londiste.engine.local.aside import CONFLICTS, Aside, Contradiction, Image, Row, follow
from londiste.errors import EventError, from_database

#: Statements that are under way together.
PIPELINE_ROWS = 500

_REFERENCED = "0A000"


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
        self._aside = Aside()
        # More rows than that are not tried again each time.
        self._many = 0

    def forget(self) -> None:
        """A new transaction begins; what an earlier one has set aside went back with it."""
        self._aside.forget()

    @property
    def waiting(self) -> int:
        """Number of rows that are set aside, and not in their tables."""
        return len(self._aside)

    def write(self, again: Again) -> None:
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
        """Puts back those of the rows set aside that nothing is in the way of any more.

        When there are many, only from time to time.
        """
        if self._aside and (self.waiting <= PIPELINE_ROWS or self.waiting >= self._many):
            for row in self._aside.rows():
                self._try(row)
            self._many = 2 * self.waiting

    def settle(self) -> None:
        """Puts all rows back that are set aside.  Raises EventError for the first that stays out.

        Every event of the batch is written by now, or another error is to be expected.
        """
        for row in self._aside.rows():
            refused = self._try(row)
            if refused is not None:
                text = self._text(Verb.INSERT, row.shape, row.columns, row.change.key)
                raise self._refused(row.change, row.shape, refused, text) from refused

    def _quickly(self, some: Sequence[tuple[TableShape, TableChange]]) -> bool:
        """Whether the changes are written; when not, none is."""
        try:
            with self._conn.transaction():
                self._pipelined(some)
            return True
        except _Wrong:
            return False
        except psycopg.Error as error:
            known = from_database(error, where=self._node)
            if known.retry:
                raise known from error
            return False

    def _pipelined(self, some: Sequence[tuple[TableShape, TableChange]]) -> None:
        cursors = []
        with self._conn.pipeline():
            for shape, change in some:
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
            self._aside.empty(shape.name)
            self._truncate(change, shape)
            return
        row = self._aside.find(change, shape, lambda keys: self._same(change, shape, keys))
        if row is not None and row.twice and change.state:
            self._aside.remove(row)
        elif row is not None:
            self._change_aside(row, change)
            return
        statement = ""
        try:
            with self._conn.transaction():
                for statement, image, exact in self._statements(change, shape):
                    self._cursor.execute(statement, [statements.payload(image)])
                    if exact:
                        self._expect_one(self._cursor.rowcount, change, shape, statement)
        except psycopg.Error as error:
            if error.sqlstate not in CONFLICTS or not self._set_aside(change, shape):
                raise self._refused(change, shape, error, statement) from error

    def _expect_one(self, hit: int, change: RowChange, shape: TableShape, statement: str) -> None:
        if hit != 1:
            raise self.error(
                change,
                shape,
                "the row is not there" if hit == 0 else f"{hit} rows have its key",
                detail=f"{_key_of(change)}SQL: {statement}",
            )

    # -- rows that are set aside -----------------------------------------------------------

    def _set_aside(self, change: RowChange, shape: TableShape) -> bool:
        """Takes the row of an event that met a conflict out of its table, and keeps it.

        False where that is no answer: in a table without a key.
        """
        key = change.key or shape.key
        if not key:
            return False
        others = [c.name for c in shape.columns if not c.generated and c.name not in change.image]
        statement = statements.take_sql(shape, others, key)
        kept: Image = {}
        twice = False
        with self._conn.transaction():
            found = {name: change.image.get(name) for name in key}
            self._cursor.execute(statement, [statements.payload(found)])
            hit, result = self._cursor.rowcount, self._cursor.pgresult
            if hit and change.op is Op.INSERT and not change.state:
                twice = True
                raise psycopg.Rollback
            if hit or (not change.state and change.op is not Op.INSERT):
                self._expect_one(hit, change, shape, statement)
            if hit and result is not None:
                # What the server has written, and not what the client makes of it.
                for number, name in enumerate(others):
                    value = result.get_value(0, number)
                    kept[name] = None if value is None else value.decode(self._conn.info.encoding)
        self._aside.add(Row(shape, {**kept, **change.image}, change, twice))
        return True

    def _change_aside(self, row: Row, change: RowChange) -> None:
        try:
            if row.twice:
                raise Contradiction
            image = follow(row.image, change)
        except Contradiction:
            raise self.error(
                change, row.shape, "the row is there already", detail=_key_of(change)
            ) from None
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
                self._cursor.execute(statement, [statements.payload(row.image)])
        except psycopg.Error as error:
            if error.sqlstate in CONFLICTS:
                return error
            raise self._refused(row.change, row.shape, error, statement) from error
        self._aside.remove(row)
        return None

    def _same(
        self, change: RowChange, shape: TableShape, keys: Sequence[Mapping[str, str | None]]
    ) -> int | None:
        """The place of the event's key among others, as the operators of its types tell."""
        key = change.key or shape.key
        statement = statements.same_key_sql(shape, key)
        image = {name: change.image.get(name) for name in key}
        many = ",".join(map(statements.payload, keys))
        self._cursor.execute(statement, [many, statements.payload(image)])
        found = self._cursor.fetchone()
        return None if found is None else int(found[0])

    # -- single events ---------------------------------------------------------------------

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
        state = error.sqlstate or ""
        return self.error(
            change,
            shape,
            said(error),
            # Of the 22 class it may be the key itself that is no value of its type.
            detail=f"{'' if state.startswith('22') else _key_of(change)}SQLSTATE {state},"
            f" SQL: {statement}",
            hint=_hint(state, shape.name),
        )

    def _statements(
        self, change: RowChange, shape: TableShape
    ) -> Iterator[tuple[str, Image, bool]]:
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


def _key_of(change: TableChange) -> str:
    """The key of the row, for whoever has to look for it: a packed event has many."""
    if isinstance(change, Truncate):
        return ""
    values = ", ".join(str(change.image.get(name)) for name in change.key)
    return f"key ({', '.join(change.key)}) = ({values[:200]}), " if change.key else ""


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
