"""Rows of events in an executor: what a slice becomes, whatever the payload.

A task reads all of its events or fails: the queue is asked before and after, so nothing that
rotation has removed in between is missing without a word.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.snapshot import Snapshot
from londiste.engine.spark.stream import schema
from londiste.engine.spark.stream.offsets import TickOf, TickRange
from londiste.engine.spark.stream.options import Options
from londiste.pgq import blocks, ticks
from londiste.pgq.types import Event, Tick

if TYPE_CHECKING:
    import pyarrow as pa

#: A record batch ends with the row that makes it this large.
BATCH_ROWS = 10_000
BATCH_CHARACTERS = 8 << 20


def batches(rows: Iterator[tuple[int, Sequence[Any]]], result: Any) -> Iterator[pa.RecordBatch]:
    """Rows as record batches of bounded size; each row comes with its size in characters."""
    import pyarrow

    fields = schema.arrow(result)
    lists: list[list[Any]] = [[] for _ in fields]
    count = size = 0

    def made() -> pa.RecordBatch:
        arrays = [
            pyarrow.array(values, field.type) for values, field in zip(lists, fields, strict=True)
        ]
        for values in lists:
            values.clear()
        return pyarrow.RecordBatch.from_arrays(arrays, schema=fields)

    for characters, row in rows:
        for values, value in zip(lists, row, strict=True):
            values.append(value)
        count += 1
        size += characters
        if count >= BATCH_ROWS or size >= BATCH_CHARACTERS:
            yield made()
            count = size = 0
    if count:
        yield made()


class Rows:
    """Makes rows of the events of a slice."""

    def __init__(self, options: Options, part: TickRange) -> None:
        self.options = options
        self._part = part
        self._tick_of = TickOf(part.ticks)
        self._seen = Snapshot.parse(part.seen) if part.seen else None

    def batches(self, conn: Connection, result: Any) -> Iterator[pa.RecordBatch]:
        """All rows, as record batches."""
        return batches(self._read(conn), result)

    def _read(self, conn: Connection) -> Iterator[tuple[int, Sequence[Any]]]:
        """All rows, each with its size."""
        with self._query(conn) as query:
            where = self.condition()
            if where:
                query = "\n".join(["select * from (", query, ") as ev where", where])
            for block in blocks.read(conn, query):
                for event in block:
                    yield from self.rows(event)

    @contextlib.contextmanager
    def _query(self, conn: Connection) -> Iterator[str]:
        """Yields the query in a transaction; raises PositionLost if events were removed."""
        given = conn, self.options.queue, self._part.ticks[0].id, self._part.ticks[-1].id
        with conn.transaction():
            yield ticks.tick_event_sql(*given, ordered=False)
        # Raises if rotation removed events during the read.
        ticks.tick_event_sql(*given)

    def is_seen(self, txid: int) -> bool:
        """Whether what a transaction did is in the rows that came first."""
        return self._seen is not None and self._seen.sees(txid)

    def rows(self, event: Event) -> Iterator[tuple[int, Sequence[Any]]]:
        """The rows of an event that are not in the snapshot's rows."""
        if not self.is_seen(event.txid):
            yield from self.of(event, self._tick_of(event.txid))

    def condition(self) -> str:
        """Which events of the ticks, as SQL."""
        found = []
        if self._part.first_id is not None:
            found.append(f"ev_id >= {self._part.first_id}")
        if self._part.last_id is not None:
            found.append(f"ev_id < {self._part.last_id}")
        if self.options.tables:
            # A script has its own name there.
            names = sql.SQL(", ").join(sql.Literal(name) for name in self._names())
            found.append(
                "(ev_extra1 is null or ev_type = 'EXECUTE'"
                f" or ev_extra1 in ({names.as_string(None)}))"
            )
        return " and ".join(found)

    def _names(self) -> list[str]:
        """The names that an event may have for a table."""
        found = [str(table) for table in self.options.tables]
        return found + [table.name for table in self.options.tables if table.schema == "public"]

    def of(self, event: Event, tick: Tick) -> Iterator[tuple[int, Sequence[Any]]]:
        """The rows of an event."""
        raise NotImplementedError


class RawRows(Rows):
    """A row for each event, as it is."""

    def of(self, event: Event, tick: Tick) -> Iterator[tuple[int, Sequence[Any]]]:
        size = sum(len(text) for text in event[4:] if isinstance(text, str))
        yield size, (tick.id, tick.time, event.id, event.txid, event.time, *event[4:])
