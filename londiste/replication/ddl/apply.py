"""Applies the scripts that a worker finds in its batches, each once.

    batch    in the transaction of the batch, with the position; rows before it are written, rows
             after it are not
    first    committed separately before the batch, which is then started again
    after    only recorded, in the transaction of the batch; the worker runs it after the commit
             (``background``)

A script that fails is recorded, and retried only when an operator decides so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from psycopg import sql

from londiste.changes.types import ExecuteScript
from londiste.daemon import crash
from londiste.db import catalog, owner
from londiste.db.connection import Connection
from londiste.db.ddl import run_stored
from londiste.db.queries import translated
from londiste.errors import BadOption, ScriptFailed, StateError, UsageError
from londiste.pgq.blocks import EventBlock
from londiste.replication import sqlapi as tables
from londiste.replication.ddl import rows
from londiste.replication.ddl import sqlapi as state
from londiste.replication.ddl.classify import StatementTiming, parts
from londiste.replication.ddl.execute import run_part, wanted_here
from londiste.replication.ddl.failures import failed, refusing, still_failed
from londiste.replication.ddl.header import Attributes, hide
from londiste.replication.ddl.split import Statement
from londiste.replication.ddl.sqlapi import State
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import copied_rows
from londiste.replication.tablesync.cancel import copy_stop

log = logging.getLogger(__name__)

#: Position of the type among the fields of an event.
_TYPE = 4
_SCRIPT = b"EXECUTE"
#: Bytes in which the first fields of an event are, up to a type as short as this.
_HEAD = 256


@dataclass(frozen=True)
class RunFirst:
    """The script runs before the batch, in a transaction of its own."""

    script: ExecuteScript


@dataclass(frozen=True)
class CancelCopies:
    """Copies lock tables that the script names; they have to end before the batch."""

    tables: Sequence[ReplicatedTable]


@dataclass(frozen=True)
class SplitBatch:
    """The batch spans several ticks: it has to be opened again tick by tick."""


@dataclass(frozen=True)
class WaitsFor:
    """The script waits for an earlier one that runs outside of a transaction."""

    script: str


#: Why a batch with a script has to be rolled back and applied later.
Interruption: TypeAlias = RunFirst | CancelCopies | SplitBatch | WaitsFor


@dataclass
class Scripts:
    """Applies scripts in the database of ``conn``, the session of the batch.

    lock_timeout -- seconds that a statement may wait for its locks; then the batch is tried again.
    ran -- something has been run in this session, which it may have changed.
    noted -- something has to run after the batch.
    """

    conn: Connection
    queue: str
    node: str
    lock_timeout: float
    ran: bool = False
    noted: bool = False
    _asked: frozenset[str] = frozenset()
    _failed: tuple[ExecuteScript, ScriptFailed] | None = None

    def follow(self, script: ExecuteScript) -> Interruption | None:
        """Applies a script inside the transaction of the batch.

        Returns why the batch has to be rolled back instead.  Raises ScriptFailed, for
        ``note_failure``; TransientError.
        """
        self._failed = None
        try:
            return self._follow(script)
        except ScriptFailed as error:
            if not error.known:
                self._failed = (script, error)
            raise

    def _follow(self, script: ExecuteScript) -> Interruption | None:
        known = state.get_scripts(self.conn, self.queue)
        mine = next((s for s in known if s.name == script.name), None)
        if (
            mine is not None
            and mine.state is State.FAILED
            and mine.way is not StatementTiming.AFTER
        ):
            raise still_failed(mine, script.event_id)
        if mine is not None and (mine.state.over or mine.way is StatementTiming.AFTER):
            if mine.sql != script.script:
                raise failed(
                    script.name,
                    self.node,
                    "a different script of this name is recorded here,"
                    f" {mine.state.value} since {mine.started_at:%Y-%m-%d %H:%M}",
                    "it came with --local or from another source; retry runs the one of the root,"
                    " too",
                    "",
                    script.event_id,
                )
            log.info("script %s: %s on this node", script.name, mine.state.value)
            return None
        unfinished = [s for s in known if s.way is StatementTiming.AFTER and not s.state.over]
        if unfinished:
            return WaitsFor(unfinished[0].name)
        way, statements = self._look(script)
        match way:
            case StatementTiming.FIRST:
                return RunFirst(script)
            case StatementTiming.AFTER:
                self._note(script)
            case StatementTiming.BATCH:
                copied = self._copied(statements)
                ask = [table for table in copied if str(table.name) not in self._asked]
                if ask:
                    return CancelCopies(ask)
                self._take_back_copies(copied, script)
                self._run(script)
        return None

    def run_first(self, script: ExecuteScript) -> None:
        """Runs it in a transaction of its own.  Raises ScriptFailed, TransientError."""
        self._failed = None
        try:
            with self.conn.transaction():
                self._run(script)
        except ScriptFailed as error:
            self._failed = (script, error)
            self.note_failure()
            raise
        crash.point("script.after-first")

    def cancel_copies(self, copied: Sequence[ReplicatedTable]) -> None:
        """Cancels the copies of some tables; their tasks end within seconds."""
        with self.conn.transaction():
            for table in copied:
                copy_stop(self.conn, self.queue, table.name)
        self._asked |= {str(table.name) for table in copied}

    def note_failure(self) -> None:
        """Stores the last failure, in a transaction of its own; only an operator can retry it."""
        if self._failed is None:
            return
        (script, error), self._failed = self._failed, None
        way, _ = self._look(script, quiet=True)
        with self.conn.transaction():
            state.set_script_state(
                self.conn,
                self.queue,
                script.name,
                State.FAILED,
                way,
                script.script,
                script.attributes,
                statement=error.statement,
                error="; ".join(filter(None, [error.message, error.detail])),
            )

    def _run(self, script: ExecuteScript) -> None:
        crash.point("script.before")
        mine = state.find(self.conn, self.queue, script.name)
        done = run_part(
            self.conn,
            self.queue,
            script.name,
            script.script,
            script.attributes,
            node=self.node,
            root=False,
            lock_timeout=self.lock_timeout,
            event_id=script.event_id,
            sent=script.rows,
            again=mine is not None and mine.state is State.RETRY,
        )
        self.ran = True
        self._asked = frozenset()
        log.info("script %s: %s", script.name, done)
        crash.point("script.done")

    def _note(self, script: ExecuteScript) -> None:
        name, attrs = script.name, script.attributes
        wanted = wanted_here(
            self.conn, self.queue, name, attrs, node=self.node, event_id=script.event_id
        )
        if not wanted:
            if state.execute_start(self.conn, self.queue, name, script.script, attrs, root=False):
                state.execute_finish(self.conn, self.queue, name, rows.NONE)
            return
        state.set_script_state(
            self.conn, self.queue, name, State.PENDING, StatementTiming.AFTER, script.script, attrs
        )
        self.noted = True

    def _look(
        self, script: ExecuteScript, *, quiet: bool = False
    ) -> tuple[StatementTiming, Sequence[Statement]]:
        """The timing of a part, and its statements.  Raises ScriptFailed for an invalid one."""
        try:
            names = Attributes.decode(script.attributes).placeholders()
            found = parts(script.name, hide(script.script, names))
        except BadOption as error:
            if quiet:
                return StatementTiming.BATCH, ()
            raise failed(
                script.name, self.node, error.message, error.detail, error.hint, script.event_id
            ) from error
        if len(found) == 1:
            return found[0].way, found[0].statements
        # From a program that sends all of a script at once: there it was one transaction, too.
        return StatementTiming.BATCH, [s for part in found for s in part.statements]

    def _copied(self, statements: Sequence[Statement]) -> list[ReplicatedTable]:
        """The tables that a script names and that are being copied."""
        words = {word.text for statement in statements for word in statement.words if word.names}
        return [
            table
            for table in tables.get_table_list(self.conn, self.queue)
            if table.local
            and table.state not in (None, "ok")
            and (table.dest.name in words or _taken_off(table) & words)
        ]

    def _take_back_copies(self, copied: Sequence[ReplicatedTable], script: ExecuteScript) -> None:
        """Restores tables that are being copied, without the copied rows.

        A copy drops indexes and constraints, which the script may need.  The table is copied again
        after the script, with its new columns.  Raises ScriptFailed where these rows are not known.
        """
        for table in copied:
            with translated(self.conn):
                with refusing(script.name, self.node, script.event_id, StateError, UsageError):
                    self._take_back(table)
                if table.dropped_ddl:
                    run_stored(self.conn, table.dropped_ddl)
            tables.local_set_table_struct(self.conn, self.queue, table.name, None)
            tables.local_set_table_state(self.conn, self.queue, table.name, None, None)
            log.info("table %s: copying again after the script", table.name)

    def _take_back(self, table: ReplicatedTable) -> None:
        info = catalog.info(self.conn, table.dest)
        tree = info is not None and info.tree
        if "skip_truncate" not in table.attrs:
            copied_rows.only_its_own(self.conn, self.queue, table)
            owner.truncate(self.conn, table.dest, tree=tree)
            return
        copied_rows.require_known(self.conn, self.queue, table)
        # Waits for the chunks that are being written.
        own = table.dest.own(tree)
        self.conn.execute(sql.SQL("lock table {} in access exclusive mode").format(own))
        by = copied_rows.written(self.conn, self.queue, table.name)
        copied_rows.take_back(self.conn, table, by, tree=tree)


def _taken_off(table: ReplicatedTable) -> set[str]:
    """The names in statements that restore what a copy dropped."""
    text = table.dropped_ddl or ""
    return {word.strip('"();,') for word in text.split()} if text else set()


def has_script(block: EventBlock) -> bool:
    """Whether one of the events is a script."""
    if len(block) == 1:
        # Perhaps a long one, of which nobody shall make another copy.
        return _is_script(block.head(_HEAD))
    data = block.data
    return b"\tEXECUTE\t" in data and any(_is_script(line) for line in data.split(b"\n"))


def cut(block: EventBlock) -> Iterator[tuple[EventBlock, bool]]:
    """The block in pieces, in their order, and whether a piece is a script, which stands alone."""
    if len(block) == 1:
        yield block, has_script(block)
        return
    rest: list[bytes] = []
    for line in block.data.split(b"\n"):
        if not line:
            continue
        if not _is_script(line):
            rest.append(line + b"\n")
            continue
        if rest:
            yield EventBlock(b"".join(rest), len(rest)), False
            rest = []
        yield EventBlock(line + b"\n", 1), True
    if rest:
        yield EventBlock(b"".join(rest), len(rest)), False


def _is_script(line: bytes) -> bool:
    fields = line.split(b"\t", _TYPE + 1)
    return len(fields) > _TYPE + 1 and fields[_TYPE] == _SCRIPT
