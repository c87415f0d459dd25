"""Row changes: the values between decoding and applying.

A row image is kept as text from the server to the server.  Values never become Python numbers,
dates or JSON trees, because each of those loses something.
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
    """Name of an event, or of a row of a packed one, for messages."""
    return f"{event_id}:{row}" if row else str(event_id)


class RowChange(NamedTuple):
    """One row inserted, updated or deleted.

    image -- column name -> text form of the value, None for NULL.  For inserts and updates the
        whole new row; for deletes at least the key (the old row).
    key -- names of the key columns, empty for a table without a key and for inserts captured by
        ``pgq.sqltriga``, which do not contain it.  A delete without key is of one row that equals
        the image in all columns.
    partial -- only for updates captured by ``pgq.sqltriga``: the image holds the key and the
        changed columns, all others keep their value.
    state -- the change is the current state of this key: INSERT, the row exists exactly so; DELETE,
        there is no such row.  Whether there was one before is unknown.
    row -- its place in a packed event, from 1; 0: the event has only one.
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
        """Name for messages:"""
        return address(self.event_id, self.row)


class Truncate(NamedTuple):
    """TRUNCATE of a table."""

    event_id: int
    txid: int
    table: TableName


class ExecuteScript(NamedTuple):
    """A DDL script that runs once per node (``EXECUTE`` events).

    rows -- the rows that it has written on the root, as ``replication.ddl.rows`` encodes them;
        None: unknown.
    """

    event_id: int
    txid: int
    name: str
    script: str
    attributes: str | None
    rows: str | None = None


class SystemEvent(NamedTuple):
    """Control messages of the cascade: ``pgq.*`` and ``londiste.*`` events."""

    event_id: int
    txid: int
    type: str
    data: str | None
    extra1: str | None
    extra2: str | None
    extra3: str | None


Change: TypeAlias = RowChange | Truncate | ExecuteScript | SystemEvent


class Malformed(Exception):
    """The event is not in the form its type promises.  The message completes "cannot be …:".

    quoted -- a piece of the event, which stands for ``{}`` in the message.
    blind -- the message without it, where values of the event must stay hidden.
    """

    def __init__(self, message: str, hint: str = "", *, quoted: str | None = None) -> None:
        shown = message if quoted is None else message.replace("{}", repr(quoted))
        super().__init__(shown)
        self.hint = hint
        self.blind = message if quoted is None else message.replace("{}", "…")
