"""Staging of a task's rows, in an executor.

Rows are cut into chunks, texts of JSON that one statement takes.  The few of a small task go to
the driver with the message that it is done.  The chunks of a larger one go into a table that is
not logged, in one transaction; only the driver that gets the message reads them.  So a task
that fails or runs twice, or whose message is lost, leaves rows that are in no epoch; they are
dropped with the table when the next epoch is in.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from psycopg import sql
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from londiste.daemon import crash
from londiste.db.connection import Connection, session
from londiste.db.queries import translated
from londiste.engine.spark.sink.options import Common
from londiste.error_values import Values
from londiste.pgq import spark_epochs

#: Characters of a chunk, and rows; one row may be longer.
CHUNK_CHARACTERS = 1 << 20
CHUNK_ROWS = 5_000
#: A task with fewer characters hands them to the driver, where those of all tasks meet.
INLINE_CHARACTERS = 32 << 10


@dataclass(frozen=True)
class StagedRows:
    """A chunk of rows of one table.

    rows -- JSON objects separated by commas; empty: they are staged.
    table -- index of the table in the options.
    columns -- columns of the rows, if they may differ between chunks.
    """

    number: int
    count: int
    rows: str = ""
    table: int = 0
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):  # type: ignore[misc]
    """What a task has done.

    query -- the streaming query, known by its checkpoint; empty for a job.
    partition -- place of the task.
    stage, part -- where its chunks are; None: in the message.
    """

    query: str
    partition: int
    chunks: tuple[StagedRows, ...] = ()
    stage: int | None = None
    part: UUID | None = None

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(chunk.count for chunk in self.chunks)


@dataclass
class Cutter:
    """Makes chunks of rows; those of a table are apart, and those of each set of columns.

    Rows of one table keep their order.
    """

    _open: dict[tuple[int, tuple[str, ...]], list[str]] = field(default_factory=dict)
    _sizes: dict[tuple[int, tuple[str, ...]], int] = field(default_factory=dict)
    _number: int = 0

    def add(self, text: str, table: int = 0, columns: tuple[str, ...] = ()) -> Iterator[StagedRows]:
        """Takes a row; a chunk that is full by it."""
        place = (table, columns)
        rows = self._open.setdefault(place, [])
        rows.append(text)
        size = self._sizes[place] = self._sizes.get(place, 0) + len(text)
        if size >= CHUNK_CHARACTERS or len(rows) >= CHUNK_ROWS:
            yield self._cut(place)
        elif len(self._open) > 1 and sum(self._sizes.values()) >= 4 * CHUNK_CHARACTERS:
            # Many tables at a time: the largest makes room.
            yield self._cut(max(self._sizes, key=lambda one: self._sizes[one]))

    def rest(self) -> Iterator[StagedRows]:
        """What is not full at the end."""
        for place in list(self._open):
            yield self._cut(place)

    def _cut(self, place: tuple[int, tuple[str, ...]]) -> StagedRows:
        rows = self._open.pop(place)
        del self._sizes[place]
        number, self._number = self._number, self._number + 1
        return StagedRows(number, len(rows), ",".join(rows), *place)


def run(options: Common, attempt: UUID, chunks: Iterator[StagedRows]) -> StagedMessage:
    """``stage`` for the task of Spark that this is."""
    context = TaskContext.get()
    # Only the first attempt of a task may crash.
    crash.arm(None if context.attemptNumber() == 0 else "")
    query = context.getLocalProperty("sql.streaming.queryId") or ""
    return stage(options, attempt, query, context.partitionId(), chunks)


def stage(
    options: Common, attempt: UUID, query: str, partition: int, chunks: Iterator[StagedRows]
) -> StagedMessage:
    """Stages the chunks of a task, or returns a small task's rows in its message.

    attempt -- ID shared by all tasks of an epoch.
    query -- query ID from the checkpoint; empty for a job.
    partition -- number of the task.

    Raises TransientError and AccessDenied of the target; then nothing is stored.
    """
    few: list[StagedRows] = []
    size = 0
    for chunk in chunks:
        few.append(chunk)
        size += len(chunk.rows)
        if size >= INLINE_CHARACTERS:
            break
    else:
        return StagedMessage(query, partition, tuple(few))
    part = uuid4()
    name = options.name or query or str(attempt)
    done: list[StagedRows] = []
    with session(options.conninfo, name="londiste-spark stage", autocommit=True) as conn:
        number = spark_epochs.make_sink_stage(conn, name, attempt)
        with translated(conn, Values.APART), conn.transaction():
            _copy(conn, number, part, few, chunks, done)
            crash.point("sink.mid-stage")
    crash.point("sink.staged")
    return StagedMessage(query, partition, tuple(done), number, part)


def _copy(
    conn: Connection,
    number: int,
    part: UUID,
    few: list[StagedRows],
    chunks: Iterator[StagedRows],
    done: list[StagedRows],
) -> None:
    statement = sql.SQL("copy {} (part, chunk, rows) from stdin").format(staged_table(number))
    with conn.cursor() as cursor, cursor.copy(statement) as copy:
        for chunk in itertools.chain(few, chunks):
            copy.write_row((part, chunk.number, chunk.rows))
            done.append(StagedRows(chunk.number, chunk.count, "", chunk.table, chunk.columns))


def staged_table(number: int) -> sql.Identifier:
    """Where tasks of an attempt stage rows."""
    return sql.Identifier("pgq_ext", f"staged_{number}")


def column_lists(batch: Any, makers: list[Any]) -> list[list[Any]]:
    """The values of a record batch, column by column; makers -- what ``texts.nested`` gives."""
    found = []
    for column, maker in zip(batch.columns, makers, strict=True):
        values = column.to_pylist()
        found.append(values if maker is None else [maker(value) for value in values])
    return found
