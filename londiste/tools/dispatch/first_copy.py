"""First copy of a dispatcher: the rows that exist, and what happened while they were read.

    source   events kept ── snapshot S ── tick T, the newest that S sees ── tables locked against
             DDL ── tick E, which sees all that S sees ── rows in S ── consumer registered at E
    target   rows, then the events between T and E that S does not see, and position E, together

The rows become inserts, as an application would have made them, so the rules decide about them as
about all others.  Only tables are read and written: a view would run code of its owner.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import psycopg
from psycopg import sql

from londiste.changes.types import Op, RowChange
from londiste.consumer.source import QueueSource
from londiste.daemon.waiting import wait_until
from londiste.db import catalog
from londiste.db.connection import Connection, whereabouts
from londiste.db.copy import unescaped
from londiste.db.names import TableName, argument, word
from londiste.db.queries import translated, tuples
from londiste.db.sessions.view_guard import reading, refuse_views
from londiste.db.snapshot import Snapshot
from londiste.errors import (
    BadOption,
    LondisteError,
    StateError,
    TableChanged,
    TransientError,
    from_database,
)
from londiste.handlers.dispatch import Dispatching, PartMode, RowMode
from londiste.pgq import blocks, queues, ticks
from londiste.pgq.types import Event, Tick
from londiste.tools.dispatch.rules import Rules
from londiste.tools.dispatch.settings import DispatchBase

log = logging.getLogger(__name__)

#: Seconds to wait for a tick after the snapshot.
_TICK_SECONDS = 60.0
#: Functions of triggers whose events have generated columns, and the names of partitions.
_COMPATIBLE = ("logutriga", "jsontriga", "sqltriga")
_ARGUMENTS = re.compile(r"'((?:[^']|'')*)'")
#: Arguments of a trigger after the queue that do not change which rows and columns events have.
_HARMLESS = re.compile(r"form=|backup$|SKIP$")


@dataclass(frozen=True)
class SourceTable:
    """A table of the source as the snapshot sees it."""

    name: TableName
    tree: bool
    columns: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class SourceSnapshot:
    """A snapshot of the source, kept by the transaction of ``conn``.

    tick -- the newest that it sees; end -- a tick that sees all that it sees.
    """

    on: QueueSource
    conn: Connection
    seen: str
    tick: Tick
    end: Tick
    tables: Sequence[SourceTable]

    def rows(self, table: SourceTable) -> Iterator[list[RowChange]]:
        """The rows of a table as inserts.  Raises TableChanged."""
        conn, names = self.conn, table.columns
        if not names:
            return
        statement = sql.SQL("select {} from {}").format(
            sql.SQL(", ").join(map(sql.Identifier, names)), table.name.own(table.tree)
        )
        refuse_views(conn, table.name)
        for block in blocks.read(conn, statement.as_string(conn)):
            yield [
                RowChange(0, 0, table.name, Op.INSERT, table.key, image)
                for image in (
                    dict(zip(names, map(unescaped, line.split("\t")), strict=True))
                    for line in block.lines()
                )
            ]
        if catalog.moved(conn, table.name):
            raise _changed(table.name)

    def events(self) -> Iterator[list[Event]]:
        """The events between the two ticks that the rows do not contain."""
        if self.end.id == self.tick.id:
            return
        unseen = sql.SQL("not txid_visible_in_snapshot(ev_txid, {})").format(self.seen)
        where = self.on.wish.where
        asked = unseen if where is None else sql.SQL("{} and ({})").format(unseen, where)
        # A session of its own: this one sees no event that came after the snapshot.
        with self.on.administering() as conn:
            yield from ticks.tick_events(
                conn, self.on.queue, self.tick.id, self.end.id, where=asked.as_string(conn)
            )


@dataclass(frozen=True)
class Copied:
    """A finished first copy.

    counts -- rows of each copied table; none if an earlier command has copied them.
    captured -- all tables of the queue, as far as this database captures them.
    """

    counts: Mapping[TableName, int]
    captured: Sequence[TableName]

    def report(self, rules: Rules, table_filter: Sequence[str]) -> list[str]:
        """One line per copied table, and one for those that begin where the copy ended."""
        lines = [
            f"table {table}: copied {count} row{'' if count == 1 else 's'}"
            for table, count in self.counts.items()
        ]
        if not self.counts:
            return ["rows: copied by an earlier command"]
        if table_filter or not rules.takes_all:
            return lines
        later = [t for t in self.captured if t not in self.counts and rules.of(t).work is not None]
        who = ", ".join(map(str, later)) or "tables without a section"
        return [
            *lines,
            f"without existing rows, from new events on: {who}; to copy them, too, name them in"
            " sections or table_filter",
        ]


def queue_tables(conn: Connection, queue: str) -> list[TableName]:
    """The tables that this database captures into the queue."""
    return [TableName(*row) for row in tuples(conn, "queue_tables", queue=queue)]


@contextlib.contextmanager
def held(on: QueueSource, tables: Sequence[TableName]) -> Iterator[SourceSnapshot]:
    """A snapshot for the length of a with block, in which nobody alters the tables.

    Raises StateError for a queue without ticks, TransientError when no tick follows, BadOption for
    what is no table, or is captured in another way than as whole rows.
    """
    with on.administering() as conn:
        conn.execute("begin transaction isolation level repeatable read, read only")
        ((seen,),) = tuples(conn, "current_snapshot")
        tick = ticks.newest(conn, on.queue)
        if tick is None:
            raise StateError(
                f"queue {on.queue} has no tick", hint="start the ticker: londiste ticker"
            )
        found = [_table(conn, on.queue, table) for table in tables]
        yield SourceSnapshot(
            conn=conn, on=on, seen=seen, tick=tick, tables=found, end=_end(on, seen)
        )


def _table(conn: Connection, queue: str, table: TableName) -> SourceTable:
    info = _require_table(conn, table)
    try:
        conn.execute(sql.SQL("lock table {} in access share mode").format(table.sql))
    except psycopg.errors.UndefinedTable:
        raise _changed(table) from None
    except psycopg.Error as error:
        raise from_database(error, where=whereabouts(conn)) from error
    # A view may have the name now.  Asked again after reading: partitions may still come and go.
    if catalog.moved(conn, table):
        raise _changed(table)
    compatible = _compatible(conn, queue, table, info.tree)
    names = [
        column.name
        for column in catalog.columns(conn, table)
        if column.generated == "" or (compatible and column.generated == "s")
    ]
    return SourceTable(table, info.tree, tuple(names), catalog.key(conn, table))


def _changed(table: TableName) -> TableChanged:
    # Such statements make a table look empty to snapshots from before.
    return TableChanged(
        f"table {table}: replaced or rewritten during the copy",
        detail="by TRUNCATE, ALTER TABLE or a similar statement; nothing was written",
        hint="repeat the command",
    )


def _require_table(conn: Connection, table: TableName) -> catalog.TableInfo:
    info = catalog.require(conn, table, hint=catalog.OF_SETTINGS)
    if info.kind not in "rp":
        raise BadOption(
            f"{table} is not a table",
            detail=f"in {conn.info.dbname}; a copy reads and writes tables only",
            hint="remove it from table_filter and the sections, or omit with_copy",
        )
    return info


def _compatible(conn: Connection, queue: str, table: TableName, tree: bool) -> bool:
    """Whether a compatible trigger captures the table.  Raises BadOption where rows differ."""
    mine = [t for t in catalog.triggers(conn, table) if f"'{queue}'" in t.definition]
    if not mine:
        log.warning(
            "table %s: no trigger for queue %s; unless its events come from another node, its rows"
            " are copied and never change (londiste add-table, or check)",
            table,
            queue,
        )
    for trigger in mine:
        _, _, call = trigger.definition.rpartition(" EXECUTE ")
        arguments = [text.replace("''", "'") for text in _ARGUMENTS.findall(call)]
        # A native capture names its table behind the queue.
        options = arguments[2 if "._capture_" in call else 1 :]
        more = [text for text in options if not _HARMLESS.match(text)]
        if more:
            raise BadOption(
                f"table {table}: with_copy cannot follow the options of trigger {trigger.name}:"
                f" {', '.join(text.partition('=')[0] for text in more)}",
                detail="its events have other columns, rows or keys than the table",
                hint="register without with_copy, or capture the table without these options",
            )
    compatible = any(name in trigger.definition for trigger in mine for name in _COMPATIBLE)
    if compatible and tree:
        raise BadOption(
            f"table {table}: its events have the names of its partitions",
            detail="it is captured by a compatible trigger on each row",
            hint="name the partitions instead of the table, or use the native capture: londiste"
            f" change-form {argument(table)} --trigger capture",
        )
    return compatible


def _end(on: QueueSource, seen: str) -> Tick:
    found: list[Tick] = []
    snapshot = Snapshot.parse(seen)
    with on.administering() as conn:
        (queue,) = queues.get_queue_info(conn, on.queue)
        if queue.queue_ticker_paused:
            raise StateError(
                f"queue {on.queue}: its ticker is paused",
                detail="the copy needs a tick that is created after its snapshot",
                hint=f"londiste queue config {word(on.queue)} ticker_paused=no",
            )

        def has_come() -> bool:
            tick = ticks.newest(conn, on.queue)
            if tick is not None and Snapshot.parse(tick.snapshot).covers(snapshot):
                found.append(tick)
            return bool(found)

        if not has_come():
            queues.force_tick(conn, on.queue)
            wait_until(has_come, _TICK_SECONDS)
    if not found:
        start = "the ticker: londiste ticker"
        if queue.queue_external_ticker:
            start = "the provider's ticker and the worker"
        raise TransientError(
            f"queue {on.queue} has had no tick for {_TICK_SECONDS:g} s",
            detail="the copy needs one that is created after its snapshot",
            hint=f"start {start}; then repeat the command",
        )
    return found[0]


def require_other(source: Connection, target: Connection, same: Sequence[TableName]) -> None:
    """Raises BadOption where a table would be copied into itself.

    same -- the tables whose rows go into a table of the same name.
    """
    asked = "select current_database(), pg_postmaster_start_time(), inet_server_port()"
    if same and source.execute(asked).fetchall() == target.execute(asked).fetchall():
        raise BadOption(
            f"table {same[0]} would be copied into itself",
            detail="queue and target are in the same database",
            hint="set target_db, or the option table of its section",
        )


def require_empty(conn: Connection, table: TableName) -> None:
    """Locks a table of the target, and raises BadOption if it has rows, which might come twice."""
    _require_table(conn, table)
    with translated(conn):
        conn.execute(sql.SQL("lock table {} in row exclusive mode").format(table.sql))
    # Again: behind the lock it stays what it is.
    _require_table(conn, table)
    with translated(conn), reading(conn, table):
        statement = sql.SQL("select exists (select from {})").format(table.sql)
        ((filled,),) = conn.execute(statement).fetchall()
    if filled:
        raise BadOption(
            f"table {table} in the target has rows",
            detail="the copy might write rows a second time; nothing was written",
            hint="register without --with-copy to keep them; or empty the table, then repeat the"
            " command",
        )


@contextlib.contextmanager
def of_copy(table: TableName) -> Iterator[None]:
    """Around the copy of a table: its errors name it, and commands that exist here."""
    try:
        yield
    except (BadOption, TableChanged):
        raise
    except LondisteError as error:
        reason = re.sub(r"^event 0[^:]*: ", "", error.message)
        raise type(error)(
            f"table {table} cannot be copied: {reason}",
            detail=error.detail,
            hint="correct the row, the target or the options, then repeat the command: nothing was"
            " written",
        ) from error


def require_options(settings: DispatchBase, *, placed: bool) -> None:
    """Raises BadOption for settings that exclude a first copy.

    placed -- the consumer is to start at a position that was given.
    """
    if placed:
        raise BadOption(
            "with_copy starts where the copy ends",
            hint="omit --at and --like, or with_copy",
        )
    if settings.consumer_filter or settings.subconsumer_name:
        name = "consumer_filter" if settings.consumer_filter else "subconsumer_name"
        raise BadOption(
            f"with_copy is not available with {name}",
            hint=f"register without {name}, then set it",
        )


def rule_of_copy(table: TableName, work: Dispatching | None) -> Dispatching:
    """The rule for rows that exist: without those that retention would drop at once.

    work -- the rule of a chosen table, which has one.

    Raises BadOption for a rule without inserts.
    """
    assert work is not None
    if Op.INSERT not in work.ops:
        raise BadOption(
            f"table {table}: with_copy is not available with event_types ="
            f" {','.join(sorted(work.ops))}",
            hint="add I, or register without with_copy",
        )
    return work if work.parts is None else replace(work, parts=work.parts.of_copy())


def require_copyable(table: TableName, work: Dispatching) -> None:
    """Raises BadOption where the files cannot begin with rows, which come from no event."""
    others: Sequence[str]
    if work.row_mode is RowMode.LATEST:
        given, others = f"row_mode = {work.row_mode}", (RowMode.PLAIN, RowMode.ALL)
    elif work.part_mode is PartMode.EVENT:
        given = f"part_mode = {work.part_mode}"
        others = (PartMode.BATCH, PartMode.FIELD, PartMode.CURRENT)
    else:
        return
    raise BadOption(
        f"table {table}: with_copy is not available with {given}",
        hint=f"remove with_copy; or set {given.partition(' ')[0]} = {', '.join(others[:-1])}"
        f" or {others[-1]}; or keep the table in a lake, which starts with the rows:"
        " docs/howto/lake.md",
    )
