"""Applier: writes the net changes of a batch into this node's tables, in the caller's transaction.

The fast path writes the net changes as sets: deletes, then updates, then inserts, each as one
statement for any number of rows.  All statements of all tables are under way at once, in one
pipeline: the server works while the next is sent, and none waits for the answer of another.
Every statement must hit as many rows as it was given; a difference means that this table differs
from the provider's.

    sets -- unique violation --> the same table again as delete-all, insert-all
         -- referenced table --> its rows are deleted, where TRUNCATE is refused
         -- anything else -----> row by row, in the order of the events (``rows``)

Deletes before updates before inserts leaves one kind of conflict: an update that takes a unique
value which another update frees.  Deleting all touched rows and inserting all final images has
none, because untouched rows and final images were committed together on the provider.  (Except
when a batch is so large that it is written in several parts; then row by row is the answer, and
a row that meets another's value waits for the parts to come.)
It would be wrong without the replica role, where a delete may cascade.

Row by row is slow and names the event that does not fit.  The position of the node stays
before the batch in any case: the caller's transaction ends with the error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

import psycopg
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow
from psycopg.waiting import Ready, Wait

from londiste.applier import copy_insert, statements
from londiste.applier.conflict_log import KEEP, Conflicts
from londiste.applier.deferred_rows import CONFLICTS
from londiste.applier.event_errors import check_columns, of_write
from londiste.applier.plan import ReplayChanges, RowSet, TableChange, TablePlan, Verb
from londiste.applier.row_by_row import RowWriter, must_replace
from londiste.changes.row_values import format_error
from londiste.daemon.loop import Trouble
from londiste.db import owner
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import translated, translation
from londiste.db.relation import Relation, has_changed, hold
from londiste.error_values import Values
from londiste.errors import LondisteError, TransientError, from_database
from londiste.wording import bounded

log = logging.getLogger(__name__)

_REFERENCED = "0A000"
#: Tables that INSERT alone may write; lines that are not what they should be.
_NOT_COPIED = {"0A000", "22P04"}
_SAVEPOINT = "londiste_apply"
#: Characters of a parameter from which on its memory counts.
_LONG = 64 << 10

#: Work to do in the same pipeline; the returned function is called after the pipeline.
AfterWrite = Callable[[], Callable[[], None]]

_ORDER = list(Verb)

_Cursor = psycopg.RawCursor[TupleRow]


class StaleShapes(Exception):
    """The cached definitions of some tables are outdated; nothing is written."""

    def __init__(self, tables: set[TableName]) -> None:
        super().__init__(", ".join(map(str, tables)))
        self.tables = tables


class _SetFailed(Exception):
    """A set of rows of one table was refused or hit another number of rows."""

    def __init__(self, table: TableName, state: str, text: str, verb: Verb | None = None) -> None:
        super().__init__(f"{table}: {text}")
        self.table = table
        self.state = state
        self.verb = verb


class _NotCopied(Exception):
    """COPY cannot write these rows or this table; a statement may."""

    def __init__(self, table: TableName) -> None:
        super().__init__(str(table))
        self.table = table


class Applier:
    """Applies plans on one connection.

    conn -- session with the replica role; a transaction is open when ``apply`` is called.
    node, queue -- for messages.
    keep -- rows that policy log keeps of each table.
    """

    def __init__(self, conn: Connection, *, node: str, queue: str = "", keep: int = KEEP) -> None:
        self._conn = conn
        self._rows = RowWriter(conn, node=node, queue=queue, keep=keep)
        self._node = node
        self._texts: dict[tuple[object, ...], str] = {}
        # Tables whose updates exchange unique values are likely to do it again.
        self._rewrite: set[TableName] = set()
        # Tables that others point at, which TRUNCATE refuses.
        self._referenced: set[TableName] = set()
        # Tables that COPY could not write.
        self._not_copied: set[TableName] = set()
        # What was logged of tables: a batch that fails is tried again and again.
        self._logged: dict[tuple[TableName, str], Trouble] = {}
        self._undone = 0

    def apply(
        self,
        plans: Sequence[TablePlan],
        again: ReplayChanges | None = None,
        *,
        also: AfterWrite | None = None,
        begin: Callable[[], None] | None = None,
        verify: bool = False,
        more: bool = False,
    ) -> None:
        """Writes the plans, and does ``also`` after them, in the same round trip if possible.

        Nothing may follow ``also`` in the transaction but its end.

        again -- gives the changes when order must decide; None: the plans have them.
        begin -- opens the transaction if it is not open; the caller need not have done it then.
        verify -- the shapes may be old ones.
        more -- another call comes in the same transaction, with what follows: rows whose unique
            values are still others' may wait for it.  The last one must come.

        Raises EventError naming the event, or TransientError (lock, deadlock, connection,
        space); the transaction is then of no use any more.  Raises StaleShapes, if they may be old
        ones: the transaction is open, and the caller tries again with new ones.
        """
        decoded = again or (lambda: _in_order(plans))
        ordered = {plan.shape.name for plan in plans if plan.sets is None}
        for plan in plans:
            if plan.sets is None:
                log.debug("%s: row by row: %s", plan.shape.name, plan.reason)
        if verify and plans and (self._rows.waiting or _unknown_columns(plans)):
            if begin is not None:
                begin()
            raise StaleShapes({plan.shape.name for plan in plans})
        for plan in plans:
            check_columns(plan, decoded, self._rows.errors)
        last = also if not ordered else None
        self._rows.put_back()
        if self._rows.waiting or not self._as_sets(plans, last, begin, verify):
            self._hold(plans)
            self._rows.write(decoded)
        elif ordered:
            self._rows.write(lambda: (pair for pair in decoded() if pair[0].name in ordered))
        else:
            return
        if not more:
            self._rows.settle()
        if also is not None:
            self._pipelined([], also)

    def begin(self) -> None:
        """Starts a transaction: rows deferred by an earlier one are dropped."""
        self._rows.forget()

    @property
    def conflicts(self) -> Conflicts:
        """Decisions of the conflict policies since ``begin``; to be written before the end."""
        return self._rows.conflicts

    def _as_sets(
        self,
        plans: Sequence[TablePlan],
        also: AfterWrite | None,
        begin: Callable[[], None] | None,
        verify: bool,
    ) -> bool:
        """True when everything is written; False when nothing is, and order must decide."""
        while True:
            try:
                self._pipelined(plans, also, begin, verify)
            except _NotCopied as refused:
                self._undo()
                log.debug("%s is not written by COPY: %s", refused.table, refused.__cause__)
                self._not_copied.add(refused.table)
            except _SetFailed as failed:
                self._undo()
                if failed.state == _REFERENCED and failed.verb is None:
                    truncated = {plan.shape.name for plan in plans if plan.truncated}
                    if not truncated <= self._referenced:
                        self._referenced |= truncated
                        continue
                if failed.state in CONFLICTS and self._may_rewrite(plans, failed.table):
                    self._log(failed, "written again as delete and insert")
                    self._rewrite.add(failed.table)
                    continue
                self._log(failed, "applying its events one by one")
                return False
            else:
                return True

    def _log(self, failed: _SetFailed, then: str) -> None:
        """Logs a failed set at the 1st, 2nd, 4th, 8th … time; the text may be that of a trigger."""
        error = LondisteError(bounded(str(failed), 500))
        trouble = self._logged.get((failed.table, then))
        if trouble is None or trouble.message != error.message:
            trouble = self._logged[failed.table, then] = Trouble()
        if trouble.failed(error):
            log.info("%s, %s%s", error, then, trouble.times())

    def _pipelined(
        self,
        plans: Sequence[TablePlan],
        also: AfterWrite | None,
        begin: Callable[[], None] | None = None,
        verify: bool = False,
    ) -> None:
        """Raises _SetFailed for the first that did not do its work, StaleShapes before that."""
        start: psycopg.Cursor[TupleRow] | None = None
        held: psycopg.Cursor[TupleRow] | None = None
        sent: list[tuple[_Cursor, Relation, Verb | None, int | None]] = []
        check: Callable[[], None] | None = None
        # COPY cannot be in a pipeline.
        copies: list[tuple[Relation, RowSet]] = []
        try:
            with self._conn.pipeline():
                if begin is not None:
                    begin()
                start = self._conn.execute(f"savepoint {_SAVEPOINT}")
                if plans:
                    # Nothing after it is executed if it fails.
                    held = hold(self._conn, *self._tables(plans))
                for table, verb, text, payload, count in self._work(plans, copies):
                    cursor = _Cursor(self._conn)
                    sent.append((cursor, table, verb, count))
                    if table.of_other:
                        cursor.execute(*owner.guarded(self._conn, table.oid, text, payload))
                    elif payload is None:
                        cursor.execute(text)
                    else:
                        cursor.execute(text, [payload], prepare=True)
                    if payload is not None:
                        self._free(cursor, len(payload))
                if also is not None and not copies:
                    check = also()
        except psycopg.Error as error:
            if start is None or start.pgresult is None:
                # No savepoint to go back to: the transaction has not begun.
                raise translation(error, self._conn) from error
            known = from_database(error, where=self._node, values=Values.APART)
            # The error may come while hold() is still sending.
            held_all = not plans or (held is not None and held.pgresult is not None)
            if not held_all:
                self._raise_changed(plans, error, verify)
            lost = [entry for entry in sent if entry[0].pgresult is None]
            if not lost or (known.retry and not held_all):
                raise known from error
            _, table, verb, _ = lost[0]
            known = of_write(error, self._node, table.name)
            if known.retry:
                raise known from error
            raise _SetFailed(table.name, error.sqlstate or "", format_error(error), verb) from error
        for cursor, table, verb, count in sent:
            hit = owner.hit(cursor) if table.of_other else cursor.rowcount
            if count is not None and hit != count:
                raise _SetFailed(table.name, "", f"{hit} rows hit instead of {count}", verb)
        for shape, rows in copies:
            self._copy(shape, rows)
        if also is not None and copies:
            with translated(self._node), self._conn.pipeline():
                check = also()
        if check is not None:
            # It was the last, the end of the transaction takes the savepoint along.
            check()
        else:
            self._conn.execute(f"release savepoint {_SAVEPOINT}")

    def _free(self, cursor: _Cursor, length: int) -> None:
        """Frees a long parameter after it was sent, before the next one is queued."""
        if length >= _LONG:
            # The cursor has it for mogrify(); a pipeline keeps its cursors to the end.
            cursor._query = None
            self._conn.wait(_flushed(self._conn.pgconn))

    def _copy(self, shape: Relation, rows: RowSet) -> None:
        """Writes new rows by COPY.  Raises _SetFailed, _NotCopied when a statement might do it."""
        cursor = self._conn.cursor()
        try:
            if shape.of_other and not owner.copies_directly(self._conn, shape.oid):
                raise _NotCopied(shape.name)
            with cursor.copy(copy_insert.copy_sql(shape, rows.columns).encode()) as copy:
                for lines in copy_insert.csv(rows):
                    copy.write(lines)
        except copy_insert.NotAlike as found:
            raise _NotCopied(shape.name) from found
        except psycopg.Error as error:
            known = of_write(error, self._node, shape.name)
            if known.retry:
                raise known from error
            if error.sqlstate in _NOT_COPIED:
                raise _NotCopied(shape.name) from error
            raise _SetFailed(
                shape.name, error.sqlstate or "", format_error(error), rows.verb
            ) from error
        if cursor.rowcount != rows.count and not shape.where:
            text = f"{cursor.rowcount} rows hit instead of {rows.count}"
            raise _SetFailed(shape.name, "", text, rows.verb)

    def _undo(self) -> None:
        """Back to the savepoint.

        After an error in a pipeline the server lacks statements that psycopg has sent there to be
        prepared.  psycopg forgets its statements at a rollback whose text is new to it.
        """
        self._undone += 1
        self._conn.execute(f"rollback to savepoint {_SAVEPOINT} -- {self._undone}")

    def _tables(
        self, plans: Sequence[TablePlan]
    ) -> tuple[Sequence[Relation], Collection[TableName]]:
        """The tables of the plans, and the names of those that TRUNCATE empties."""
        emptied = {plan.shape.name for plan in plans if plan.truncated}
        return [plan.shape for plan in plans], emptied - self._referenced

    def _hold(self, plans: Sequence[TablePlan]) -> None:
        """Holds the tables outside of the savepoint, whose end has released them."""
        if plans:
            try:
                hold(self._conn, *self._tables(plans))
            except psycopg.Error as error:
                self._raise_changed(plans, error, verify=False)

    def _raise_changed(
        self, plans: Sequence[TablePlan], error: psycopg.Error, verify: bool
    ) -> NoReturn:
        """Raises the error of ``hold``: StaleShapes where the shapes may be old ones."""
        known = of_write(error, self._node)
        tables = {plan.shape.name for plan in plans}
        if not known.retry and verify:
            self._undo()
            raise StaleShapes(tables) from error
        if has_changed(error):
            raise TransientError(
                f"{self._node}: tables have changed while the batch is applied:"
                f" {', '.join(sorted(map(str, tables)))}",
                detail=known.message,
                hint="a daemon applies the batch again; after --once, repeat the command",
            ) from error
        raise known from error

    def _work(
        self, plans: Sequence[TablePlan], copies: list[tuple[Relation, RowSet]]
    ) -> Iterator[tuple[Relation, Verb | None, str, str | None, int | None]]:
        """Table, verb, statement, parameter and expected number of rows (None: any).

        copies -- takes the rows that are better copied, after all the statements.
        """
        truncated = [p.shape for p in plans if p.truncated and p.sets is not None]
        at_once = [shape for shape in truncated if shape.name not in self._referenced]
        # One statement runs as one role.
        for role in {shape.owner: None for shape in at_once}:
            some = [shape for shape in at_once if shape.owner == role]
            yield some[0], None, statements.truncate_sql(some), None, None
        for shape in truncated:
            if shape.name in self._referenced:
                # Under the replica role that leaves referencing rows alone.
                yield shape, None, statements.delete_all_sql(shape), None, None
        for plan in plans:
            for rows in self._sets(plan):
                if (
                    copy_insert.is_bulk(plan.shape, rows)
                    and plan.shape.name not in self._not_copied
                ):
                    # Inserts are the last of a table in any case.
                    copies.append((plan.shape, rows))
                    continue
                text = self._text(plan.shape, rows)
                exact = rows.verb is not Verb.UNSET
                for payload, count in statements.payloads(rows):
                    yield plan.shape, rows.verb, text, payload, count if exact else None

    # -- sets of a table -------------------------------------------------------------------

    def _sets(self, plan: TablePlan) -> Iterable[RowSet]:
        """The sets of a table in the order in which they are written."""
        sets, shape = plan.sets or (), plan.shape
        rewrite = shape.name in self._rewrite and _whole(shape, sets)
        found = []
        for rows in sets:
            if rows.verb is Verb.UPDATE and rewrite:
                found += [_as(Verb.DELETE, rows), _as(Verb.INSERT, rows)]
            elif rows.verb is Verb.SET and (rewrite or must_replace(shape, rows.columns, rows.key)):
                found += [_as(Verb.UNSET, rows), _as(Verb.INSERT, rows)]
            else:
                found.append(rows)
        return sorted(found, key=lambda rows: _ORDER.index(rows.verb))

    def _may_rewrite(self, plans: Sequence[TablePlan], table: TableName) -> bool:
        """A rewritten row would lose what the image does not have."""
        return table not in self._rewrite and all(
            _whole(plan.shape, plan.sets or ()) for plan in plans if plan.shape.name == table
        )

    def _text(self, shape: Relation, rows: RowSet) -> str:
        known = (shape, rows.verb, rows.columns, rows.key)
        text = self._texts.get(known)
        if text is None:
            if len(self._texts) > 1000:
                self._texts.clear()
            text = statements.sql_for(shape, rows.verb, rows.columns, rows.key)
            self._texts[known] = text
        return text


def _flushed(pgconn: PGconn) -> Generator[Wait, Ready | int, None]:
    """Waits until everything is sent; answers that arrive before that are read later."""
    while pgconn.flush():
        ready = yield Wait.RW
        if ready & Ready.R:
            pgconn.consume_input()


def _as(verb: Verb, rows: RowSet) -> RowSet:
    return replace(rows, verb=verb)


def _unknown_columns(plans: Sequence[TablePlan]) -> bool:
    return any(
        not plan.shape.by_name.keys() >= {*rows.columns, *rows.key}
        for plan in plans
        for rows in plan.sets or ()
    )


def _whole(shape: Relation, sets: Sequence[RowSet]) -> bool:
    """Whether the images of updated rows have all columns of this node's table."""
    return all(
        shape.writable <= set(rows.columns) for rows in sets if rows.verb in {Verb.UPDATE, Verb.SET}
    )


def _in_order(plans: Sequence[TablePlan]) -> Iterable[tuple[Relation, TableChange]]:
    work = [(plan.shape, change) for plan in plans for change in plan.changes]
    return sorted(work, key=lambda pair: pair[1].event_id)
