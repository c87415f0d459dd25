"""What an event says: the contract between decode and plan.

A row image is kept as text from the server to the server.  Values are never turned into
Python numbers, dates or JSON trees, because each of those loses something.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

from londiste.db.names import TableName


class Op(StrEnum):
    """What happened to a row."""

    INSERT = "I"
    UPDATE = "U"
    DELETE = "D"


def address(event_id: int, row: int) -> str:
    """What people name an event by, or a row of a packed one."""
    return f"{event_id}:{row}" if row else str(event_id)


class RowChange(NamedTuple):
    """One row inserted, updated or deleted.

    image -- column name -> text form of the value, None for NULL.  For inserts and updates the
        whole new row; for deletes at least the key (the old row).
    key -- names of the key columns, empty for a table without a key and for inserts captured
        by ``pgq.sqltriga``, which do not say it.  A delete without key is of one row that is in all
        columns of the image as it says.
    partial -- only for updates captured by ``pgq.sqltriga``: the image holds the key and the
        changed columns, all others keep their value.
    state -- the change says what the table has now for this key, not what happened: INSERT, the
        row is there exactly so; DELETE, there is no such row.  Whether there was one before, it
        does not say.
    row -- its place in a packed event, from 1; 0: the event tells only one.
    """

    event_id: int
    txid: int
    table: TableName
    op: Op
    key: tuple[str, ...]
    image: dict[str, str | None]
    partial: bool = False
    state: bool = False
    row: int = 0

    @property
    def address(self) -> str:
        """What people name it by: ``4711``, or ``4711:7`` for a row of a packed event."""
        return address(self.event_id, self.row)


class Truncate(NamedTuple):
    """All rows of a table are gone."""

    event_id: int
    txid: int
    table: TableName


class ExecuteScript(NamedTuple):
    """A DDL script that runs once per node (``EXECUTE`` events)."""

    event_id: int
    txid: int
    name: str
    script: str
    attributes: str | None


class SystemEvent(NamedTuple):
    """``pgq.*`` and ``londiste.*`` events: messages of the cascade to itself."""

    event_id: int
    txid: int
    type: str
    data: str | None
    extra1: str | None
    extra2: str | None
    extra3: str | None


Change: TypeAlias = RowChange | Truncate | ExecuteScript | SystemEvent
