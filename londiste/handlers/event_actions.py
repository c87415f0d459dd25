"""What a handler may do with the events of a table in the place of writing their rows into it.

The work is done in the transaction of the batch, so it takes effect with the position of the node,
exactly once.  It gets the events of its table in their order, in portions; it is plain data, made
from the options of the handler, and what it has to remember it keeps in the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from londiste.changes.types import RowChange, Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.errors import EventError
from londiste.pgq.types import Event

#: Writes changes into tables of this node, as replication does it: net effect, many at a time.
Write = Callable[[Iterable[tuple[TableName, RowChange | Truncate]]], None]


@dataclass(frozen=True)
class At:
    """Where events are worked on.

    conn -- session with the replica role, inside of the transaction of the batch; what fails
        here has to leave it as it was, or raise.
    queue, tick_id, tick_time -- of the batch.
    dest -- the table of this node.
    write -- writes changes into tables of this node.
    """

    conn: Connection
    queue: str
    tick_id: int
    tick_time: datetime
    dest: TableName
    write: Write


class EventWork:
    """A subclass is a frozen dataclass with ``work``; it is compared and pickled as data."""

    def work(self, at: At, events: Sequence[Event]) -> None:
        """Takes some events of the table.  Raises EventError, naming the one that does not fit."""
        raise NotImplementedError

    def check(self, conn: Connection, queue: str, dest: TableName) -> None:
        """Refuses, when a table is added, what is not there on this node.  Raises BadOption."""


def partial(event: Event, handler: str) -> EventError:
    """What to say of an event that does not tell a whole row."""
    return EventError(
        f"event {event.id} of table {event.extra1} does not tell a whole row",
        detail=f"handler {handler} needs it; events of pgq.sqltriga are fragments of SQL",
        hint=f"capture the table on the root with whole rows: londiste remove-table {event.extra1},"
        f" then londiste add-table {event.extra1} --trigger capture",
        event_id=event.id,
    )
