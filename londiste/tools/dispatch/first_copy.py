"""First copy of a dispatcher: the rows that exist, and what happened while they were read.

    source   consumer registered ── snapshot S ── tick T, the newest that S sees ── rows in S
             ── tick E, which sees all that S sees ── consumer moved to E
    target   rows, then the events between T and E that S does not see, and position E, together

The rows become inserts, as an application would have made them, so the rules decide about them as
about all others.  A snapshot keeps old row versions on the source as long as it lasts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from psycopg import sql

from londiste.changes.urlencoded import encoded
from londiste.consumer.source import QueueSource
from londiste.daemon.waiting import wait_until
from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import tuples
from londiste.db.snapshot import Snapshot
from londiste.errors import BadOption, StateError, TableChanged, TransientError
from londiste.handlers.dispatch import Dispatching, PartMode, RowMode
from londiste.pgq import blocks, queues, ticks
from londiste.pgq.types import Event, Tick

#: Seconds to wait for a tick after the snapshot.
_TICK_SECONDS = 60.0


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

    def rows(self, table: TableName) -> Iterator[list[Event]]:
        """The rows of a table as inserts at the tick.  Raises UnknownTable, TableChanged."""
        conn, tick = self.conn, self.tick
        info = catalog.require(conn, table)
        names = [column.name for column in catalog.columns(conn, table) if not column.generated]
        kind = f"I:{','.join(catalog.key(conn, table))}"
        statement = sql.SQL("select {} from {}").format(
            sql.SQL(", ").join(map(sql.Identifier, names)),
            table.own(info.tree) if info.kind in "rp" else table.sql,
        )
        for block in blocks.read(conn, statement.as_string(conn)):
            yield [
                Event(0, tick.time, 0, None, kind, encoded(image), str(table), None, None, None)
                for image in (
                    dict(zip(names, map(blocks.unescaped, line.split("\t")), strict=True))
                    for line in block.lines()
                )
            ]
        if catalog.moved(conn, table):
            # Such statements make a table look empty to snapshots from before.
            raise TableChanged(
                f"table {table}: rewritten during the copy",
                detail="by TRUNCATE, ALTER TABLE or a similar statement; nothing was written",
                hint="repeat the command",
            )

    def events(self) -> Iterator[list[Event]]:
        """The events between the two ticks that the rows do not contain."""
        if self.end.id == self.tick.id:
            return
        unseen = sql.SQL("not txid_visible_in_snapshot(ev_txid, {})").format(self.seen)
        where = self.on.wish.where
        asked = unseen if where is None else sql.SQL("{} and ({})").format(unseen, where)
        # A session of its own: this one sees no event that came after the snapshot.
        with self.on.administering() as conn:
            text = asked.as_string(conn)
            yield from ticks.tick_events(conn, self.on.queue, self.tick.id, self.end.id, where=text)


@contextlib.contextmanager
def held(on: QueueSource) -> Iterator[SourceSnapshot]:
    """A snapshot for the length of a with block.

    Raises StateError for a queue without ticks, TransientError when no tick follows.
    """
    with on.administering() as conn:
        conn.execute("begin transaction isolation level repeatable read, read only")
        ((seen,),) = tuples(conn, "current_snapshot")
        tick = ticks.newest(conn, on.queue)
        if tick is None:
            raise StateError(
                f"queue {on.queue} has no tick", hint="start the ticker: londiste ticker"
            )
        yield SourceSnapshot(on, conn, seen, tick, _end(on, Snapshot.parse(seen)))


def _end(on: QueueSource, seen: Snapshot) -> Tick:
    found: list[Tick] = []
    with on.administering() as conn:

        def has_come() -> bool:
            tick = ticks.newest(conn, on.queue)
            if tick is not None and Snapshot.parse(tick.snapshot).covers(seen):
                found.append(tick)
            return bool(found)

        if not has_come():
            queues.force_tick(conn, on.queue)
            wait_until(has_come, _TICK_SECONDS)
    if not found:
        raise TransientError(
            f"queue {on.queue} has had no tick for {_TICK_SECONDS:g} s",
            detail="the copy needs one that was created after its snapshot",
            hint="start the ticker: londiste ticker; then repeat the command",
        )
    return found[0]


def require_empty(conn: Connection, tables: Iterable[TableName]) -> None:
    """Raises BadOption for a target table with rows, which might come twice."""
    for table in tables:
        catalog.require(conn, table)
        statement = sql.SQL("select exists (select from {})").format(table.sql)
        ((filled,),) = conn.execute(statement).fetchall()
        if filled:
            raise BadOption(
                f"table {table} has rows",
                detail="the copy would write rows a second time; nothing was written",
                hint=f"in the target: truncate {table.quoted}; then repeat the command",
            )


def require_copyable(table: TableName, work: Dispatching) -> None:
    """Raises BadOption where the files cannot begin with rows, which come from no event."""
    if work.row_mode is RowMode.LATEST or work.part_mode is PartMode.EVENT:
        given = "row_mode = keep_latest" if work.row_mode is RowMode.LATEST else "part_mode = event"
        raise BadOption(
            f"table {table}: with_copy is not available with {given}",
            hint="remove with_copy; a lake starts with the rows: londiste lake",
        )
