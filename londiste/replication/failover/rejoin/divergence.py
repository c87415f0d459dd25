"""What a root that comes back has and nobody else: the events behind the last tick in common.

To take a row back it is enough to know what it was at that tick, and that is told by the first of
the lost events with its key: a row that was inserted was not there, one that was deleted was what
the event says, one that was updated was its old row, if the capture keeps it (``backup``).  What
came to the same row afterwards does not matter.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from londiste.changes import jsonrow, urlencoded
from londiste.changes.decode import decode, singles
from londiste.changes.malformed import Malformed
from londiste.changes.types import Change, ExecuteScript, Op, RowChange, SystemEvent, Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation, shapes
from londiste.errors import BadOption
from londiste.pgq.ticks import tick_events
from londiste.pgq.types import Event
from londiste.replication import sqlapi as tables

#: Messages of the cascade to itself that say nothing of the user's data.
_OWN = ("pgq.", "londiste.update-seq")
#: Types of events that replication understands.
_OURS = re.compile(r"\{|[IUDR](:|$)|EXECUTE$|londiste\.")


@dataclass
class TableLoss:
    """What the lost events did to one table.

    dest -- the table in this database; None when it is not replicated here any more.
    obstacle -- why its rows cannot be taken back; empty when they can.
    stored -- replication keeps its rows here, so they can be copied again.
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
        """For people, in one line."""
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
    """All of it.

    events -- that nobody else has, without messages of the cascade to itself.
    scripts -- names of scripts that ran here only.
    others -- types of events that are neither; how many of each.
    """

    events: int = 0
    tables: dict[TableName, TableLoss] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    def here(self) -> list[TableLoss]:
        """The tables whose rows here are not what they were."""
        return [t for t in self.tables.values() if t.dest is not None]


def read(conn: Connection, queue: str, from_tick: int, to_tick: int) -> Iterator[Event]:
    """The lost events, in the order of their ids, without messages of the cascade to itself."""
    for some in tick_events(conn, queue, from_tick, to_tick):
        for event in some:
            if not (event.type or "").startswith(_OWN):
                yield event


def survey(conn: Connection, queue: str, from_tick: int, to_tick: int) -> Lost:
    """Reads them all and says what they come to.  EventError: one cannot be understood."""
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
                loss.obstacle = "the table is not there"
    return found


def changes(events: Iterable[Event], counted: Lost | None = None) -> Iterator[tuple[Event, Change]]:
    """What they tell, with the event of each; packed ones are taken apart.

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
    """Knows of which rows a lost event came already, by 16 bytes each."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def before(
        self, event: Event, change: RowChange | Truncate, shape: Relation
    ) -> RowChange | str | None:
        """How the row was before all lost events, as a change that makes it so again.

        None when an earlier event has told it; a text when it cannot be told, for people.
        """
        if isinstance(change, Truncate):
            return "it was emptied, and TRUNCATE keeps no rows"
        key = change.key or (shape.key if change.op is Op.INSERT else ())
        if not key or any(name not in change.image for name in key):
            return "it has no key, so its rows cannot be told apart"
        digest = hashlib.blake2b(
            repr((change.table, [(name, change.image[name]) for name in sorted(key)])).encode(),
            digest_size=16,
        ).digest()
        if digest in self._seen:
            return None
        self._seen.add(digest)
        return before(event, change, key, shape)


def before(
    event: Event, change: RowChange, key: tuple[str, ...], shape: Relation
) -> RowChange | str:
    """Pure: how the row of the first lost event with its key was before it."""
    where = f"event {event.id}"
    if change.state:
        return f"{where} tells what a row is now, not what it was: its key was changed"
    if change.op is Op.INSERT:
        image = {name: change.image[name] for name in key}
        return RowChange(event.id, event.txid, change.table, Op.DELETE, key, image, state=True)
    if change.op is Op.DELETE:
        old: Mapping[str, str | None] = change.image
        what = "the deleted row"
    elif not event.extra2:
        return f"{where} does not keep the row before the update (option backup)"
    else:
        what = "the row before the update"
        try:
            old = _old_row(event)
        except Malformed:
            return f"{where} has something else in the place of {what}"
    if any(old.get(name) != change.image[name] for name in key):
        return f"{where} has something else in the place of {what}"
    missing = sorted(shape.writable - set(old))
    if missing:
        return f"{where} does not keep column {missing[0]} of {what}"
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
