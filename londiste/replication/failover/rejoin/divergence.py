"""Diverged events: those after the last common tick that only a failed root has.

To undo a row it is enough to know it at that tick, and the first diverged event with its key shows
that: an inserted row did not exist, a deleted row is in the event, an updated row is its old image,
if the capture stores it (``backup``).  Later changes of the same row do not matter, with one
exception: after an insert, a state in the same transaction.  One part of a query may log an insert
before another part logs, as a state, that the row which it replaces was deleted.  Then nothing
tells what that row was.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from londiste.applier.plan import TableChange
from londiste.applier.row_by_row import RowWriter
from londiste.changes import jsonrow, urlencoded
from londiste.changes.decode import decode, singles
from londiste.changes.types import (
    Change,
    ExecuteScript,
    Malformed,
    Op,
    RowChange,
    SystemEvent,
    Truncate,
)
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation, shapes
from londiste.errors import BadOption, StateError
from londiste.pgq.ticks import tick_events
from londiste.pgq.types import Event
from londiste.replication import sqlapi as tables

#: Messages of the cascade to itself that say nothing of the user's data.
_OWN = ("pgq.", "londiste.update-seq")
#: Types of events that replication understands.
_OURS = re.compile(r"\{|[IUDR](:|$)|EXECUTE$|londiste\.")


@dataclass
class TableLoss:
    """The diverged changes of one table.

    dest -- the table in this database; None when it is not replicated here any more.
    obstacle -- why its rows cannot be undone; empty when they can.
    stored -- replication writes its rows here, so they can be copied again.
    """

    name: TableName
    dest: TableName | None
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    truncates: int = 0
    obstacle: str = ""
    stored: bool = True
    copied_beside: bool = False

    def describe(self) -> str:
        """As text, in one line."""
        counts = [
            f"{count} {word}"
            for count, word in (
                (self.inserts, "inserted"),
                (self.updates, "updated"),
                (self.deletes, "deleted"),
                (self.truncates, "emptied"),
            )
            if count
        ]
        return f"table {self.name}: {', '.join(counts)}"


@dataclass
class Lost:
    """All diverged events in numbers.

    events -- that no other node has, without control messages.
    scripts -- names of scripts that ran here only.
    others -- other types of events, with their number.
    """

    events: int = 0
    tables: dict[TableName, TableLoss] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    def here(self) -> list[TableLoss]:
        """The tables with changed rows."""
        return [t for t in self.tables.values() if t.dest is not None]


def read(conn: Connection, queue: str, from_tick: int, to_tick: int) -> Iterator[Event]:
    """The diverged events, ordered by id, without control messages."""
    for some in tick_events(conn, queue, from_tick, to_tick):
        for event in some:
            if not (event.type or "").startswith(_OWN):
                yield event


def survey(conn: Connection, queue: str, from_tick: int, to_tick: int) -> Lost:
    """Reads and counts them all.  EventError: one cannot be decoded."""
    found = Lost()
    known = {t.name: t for t in tables.get_table_list(conn, queue) if t.local}
    shaped = shapes(conn, [t.dest for t in known.values()])
    firsts = Firsts()
    for event, change in changes(read(conn, queue, from_tick, to_tick), found):
        if isinstance(change, ExecuteScript):
            found.scripts.append(change.name)
        elif isinstance(change, SystemEvent):
            found.others[change.type] += 1
        else:
            table = known.get(change.table)
            loss = found.tables.get(change.table)
            if loss is None:
                loss = TableLoss(change.table, table.dest if table is not None else None)
                if table is not None:
                    loss.copied_beside = "skip_truncate" in table.attrs
                    try:
                        loss.stored = table.wants.stored
                    except BadOption:
                        loss.stored = False
                found.tables[change.table] = loss
            _count(loss, change)
            shape = shaped.get(loss.dest) if loss.dest is not None else None
            if shape is not None and not loss.obstacle:
                answer = firsts.before(event, change, shape)
                if isinstance(answer, str):
                    loss.obstacle = answer
            elif shape is None and loss.dest is not None:
                loss.obstacle = "the table does not exist"
    return found


def changes(events: Iterable[Event], counted: Lost | None = None) -> Iterator[tuple[Event, Change]]:
    """Their changes, with the event of each; packed ones are unpacked.

    counted -- its number of events grows.

    Raises EventError for one that replication should understand and does not.
    """
    for event in events:
        if counted is not None:
            counted.events += 1
        if not _OURS.match(event.type or ""):
            # Of somebody else's kind: replication never did anything with it, it is exported only.
            yield event, SystemEvent(event.id, event.txid, event.type or "", None, None, None, None)
            continue
        for one in singles(event):
            yield one, decode(one)


class Firsts:
    """The rows that a diverged event has changed already, by 16 bytes each."""

    def __init__(self) -> None:
        #: With the transaction, if the first event was an insert.
        self._seen: dict[bytes, int | None] = {}

    def before(
        self, event: Event, change: RowChange | Truncate, shape: Relation
    ) -> RowChange | str | None:
        """The row before all diverged events, as a change that restores it.

        None when an earlier event had its key; a text with the reason when it is unknown, also
        when this event shows that the insert before it may have replaced a row.
        """
        if isinstance(change, Truncate):
            return "it was truncated, and TRUNCATE stores no rows"
        key = change.key or (shape.key if change.op is Op.INSERT else ())
        if not key or any(name not in change.image for name in key):
            return "it has no key, so its rows cannot be identified"
        digest = hashlib.blake2b(
            repr((change.table, [(name, change.image[name]) for name in sorted(key)])).encode(),
            digest_size=16,
        ).digest()
        if digest in self._seen:
            if change.state and self._seen[digest] == change.txid:
                return f"event {event.id} shows that an inserted row may have replaced another one"
            return None
        plain = change.op is Op.INSERT and not change.state
        self._seen[digest] = change.txid if plain else None
        return before(event, change, key, shape)


def before(
    event: Event, change: RowChange, key: tuple[str, ...], shape: Relation
) -> RowChange | str:
    """Pure: the row before the first diverged event with its key."""
    where = f"event {event.id}"
    if change.state:
        return f"{where} contains only the new row: its key was changed"
    if change.op is Op.INSERT:
        image = {name: change.image[name] for name in key}
        return RowChange(event.id, event.txid, change.table, Op.DELETE, key, image, state=True)
    if change.op is Op.DELETE:
        old: Mapping[str, str | None] = change.image
        what = "the deleted row"
    elif not event.extra2:
        return f"{where} does not contain the row before the update (option backup)"
    else:
        what = "the row before the update"
        try:
            old = _old_row(event)
        except Malformed:
            return f"{where} has no valid data of {what}"
    if any(old.get(name) != change.image[name] for name in key):
        return f"{where} has no valid data of {what}"
    missing = sorted(shape.writable - set(old))
    if missing:
        return f"{where} lacks column {missing[0]} of {what}"
    unknown = sorted(set(old) - set(shape.by_name))
    if unknown:
        return f"{where} has column {unknown[0]}, which the table does not have"
    return RowChange(event.id, event.txid, change.table, Op.INSERT, key, dict(old), state=True)


def _old_row(event: Event) -> dict[str, str | None]:
    text = event.extra2 or ""
    if (event.type or "").startswith("{"):
        return jsonrow.image(text)
    return urlencoded.row("", Op.INSERT, text)[1]


def _count(loss: TableLoss, change: RowChange | Truncate) -> None:
    if isinstance(change, Truncate):
        loss.truncates += 1
    elif change.op is Op.INSERT:
        loss.inserts += 1
    elif change.op is Op.UPDATE:
        loss.updates += 1
    else:
        loss.deletes += 1


def undo(
    conn: Connection,
    reader: Connection,
    queue: str,
    node: str,
    from_tick: int,
    to_tick: int,
    wanted: Mapping[TableName, TableName],
) -> int:
    """Reverts the rows; returns their number.  The caller's transaction decides.

    conn -- session with the replica role, in a transaction; reader -- another session there.
    wanted -- name in the events -> table here, of the tables that are undone.

    Raises StateError when the old row is unknown, EventError when it cannot be written.
    """
    shaped = shapes(conn, wanted.values())
    count = 0

    def rows() -> Iterator[tuple[Relation, TableChange]]:
        nonlocal count
        firsts = Firsts()
        for event, change in changes(read(reader, queue, from_tick, to_tick)):
            if not isinstance(change, RowChange | Truncate) or change.table not in wanted:
                continue
            shape = shaped[wanted[change.table]]
            was = firsts.before(event, change, shape)
            if isinstance(was, str):
                raise StateError(
                    f"table {change.table} cannot be undone: {was}",
                    detail="nothing was changed",
                    hint="run the command with --resync: it copies the table again",
                )
            if was is not None:
                count += 1
                yield shape, was

    writer = RowWriter(conn, node=node, queue=queue)
    writer.write(rows)
    writer.settle()
    return count
