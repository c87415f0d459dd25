"""Actions of handlers on events, instead of writing their rows.

It runs in the transaction of the batch, with the position of the node, so exactly once.  It gets
the events of its table in order, in portions.  It is plain data from the handler's options and
stores its state in the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from londiste.changes.types import RowChange, Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.errors import EventError
from londiste.pgq.types import Event
from londiste.wording import whole_rows

if TYPE_CHECKING:
    from londiste.handlers.placing import CopiedRows, Placing

#: Writes changes into tables of this node, as replication does it: net effect, many at a time.
Write = Callable[[Iterable[tuple[TableName, RowChange | Truncate]]], None]
#: Events that an operator skips, and the row of each; row 0: the whole event.
SkippedRows = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class At:
    """Context of an action.

    conn -- session with the replica role, inside of the transaction of the batch; a failure must
        leave it unchanged, or raise.
    queue, tick_id, tick_time -- of the batch.
    dest -- the table of this node.
    write -- writes changes into tables of this node.
    skips -- for those with ``skips_rows``: what is skipped of the events.
    """

    conn: Connection
    queue: str
    tick_id: int
    tick_time: datetime
    dest: TableName
    write: Write
    skips: SkippedRows = frozenset()


class EventWork:
    """A subclass is a frozen dataclass with ``work``; it is compared and pickled as data.

    skips_rows -- ``work`` gets whole events and leaves out ``At.skips`` itself, so that a row has
        its place in the event in all errors; otherwise it gets none of what is skipped.
    """

    skips_rows: ClassVar[bool] = False

    def work(self, at: At, events: Sequence[Event]) -> None:
        """Processes some events of the table.  Raises EventError for an invalid one."""
        raise NotImplementedError

    @property
    def spreads(self) -> bool:
        """Whether it stores the rows of the table in child tables: those are emptied with it."""
        return False

    def placing(self, rows: CopiedRows) -> Placing | None:
        """How rows that a copy has written into the table get to where ``work`` looks for them."""
        return None

    def needs_whole_rows(self) -> bool:
        """Whether ``work`` stops at an update of which only the changed columns are known."""
        return False

    def check(self, conn: Connection, queue: str, dest: TableName) -> None:
        """Checks this node when a table is added.  Raises BadOption."""


def partial(event: Event, handler: str) -> EventError:
    """Error of an event without a full row image."""
    return EventError(
        f"event {event.id}: table {event.extra1}: row image is incomplete",
        detail=f"handler {handler} needs full rows; pgq.sqltriga writes fragments of SQL",
        hint=whole_rows(argument(event.extra1 or "")),
        event_id=event.id,
    )
