"""Conflict log: decisions of conflict policies, written with the batch.

The counts, and with policy log the rows, are written in the transaction of the rows: either both
are committed, or neither.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from londiste.applier.conflict_policy import describe
from londiste.changes.types import RowChange
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation
from londiste.errors import ApplyError

#: Conflicts in memory before they are written.
_MANY = 500
#: Rows that policy log keeps of each table, unless the settings say another number.
KEEP = 10_000
#: Encodings of servers that store every text.
_ALL = frozenset({"UTF8", "SQL_ASCII"})


def storable(conn: Connection, text: str) -> str:
    """The text, with escapes for what the encoding of the database may lack."""
    if text.isascii() or conn.info.parameter_status("server_encoding") in _ALL:
        return text
    return text.encode("ascii", "backslashreplace").decode("ascii")


def storable_image(conn: Connection, image: Mapping[str, str | None]) -> str:
    """A row as JSON, which a database of any encoding can store."""
    whole = conn.info.parameter_status("server_encoding") in _ALL
    return json.dumps(dict(image), ensure_ascii=not whole)


@dataclass(frozen=True, order=True)
class Decided:
    """A kind of decision, the same for some rows of events."""

    table: TableName
    policy: str
    kind: str
    op: str


class Conflicts:
    """The decisions in one transaction.

    queue -- of the events.
    keep -- rows that policy log keeps of each table.
    """

    def __init__(self, conn: Connection, queue: str, keep: int = KEEP) -> None:
        self._conn = conn
        self._queue = queue
        self._keep = keep
        self._held: list[dict[str, object]] = []
        self.counts: Counter[Decided] = Counter()

    def add(self, change: RowChange, shape: Relation, found: ApplyError, message: str) -> None:
        """Records a decision; only policy log keeps the rows."""
        self.counts[Decided(shape.name, shape.on_error, found.kind, found.op)] += 1
        record: dict[str, object] = {
            "table": str(shape.name),
            "kind": found.kind,
            "policy": shape.on_error,
            "event": change.event_id,
        }
        if shape.on_error == "log":
            record |= {
                "row_nr": change.row,
                "message": storable(self._conn, message),
                "op": found.op,
                "image": storable_image(self._conn, found.image),
                "here": found.here,
            }
        self._held.append(record)
        if len(self._held) >= _MANY:
            self.write()

    def write(self) -> None:
        """Writes the recorded decisions, in the open transaction."""
        if self._held:
            held = json.dumps(self._held, ensure_ascii=False)
            call.value(self._conn, "londiste.note_conflicts", self._queue, held, self._keep)
            self._held.clear()

    def forget(self) -> None:
        """Starts a new transaction."""
        self._held.clear()
        self.counts.clear()

    def told(self) -> list[str]:
        """Lines of the log, one for each table and kind of decision."""
        return [
            f"{one.table}: {describe(one.policy, one.kind, one.op, count)}"
            for one, count in sorted(self.counts.items())
        ]
