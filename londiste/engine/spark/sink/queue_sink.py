"""Queue sink, as Spark calls it: ``format("pgq")``.

Spark creates these objects in every process that takes part in an epoch, so they hold only the
options, and the name of the attempt, which tasks share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from londiste.db.connection import Connection, session
from londiste.engine.spark.sink import commit, event_rows, stage
from londiste.engine.spark.sink.event_rows import Given
from londiste.engine.spark.sink.options import parse_queue
from londiste.engine.spark.sink.stage import StagedMessage, StagedRows
from londiste.errors import BadOption
from londiste.pgq import admin, spark_epochs

if TYPE_CHECKING:
    import pyarrow as pa


class _QueueWriter:
    """What a stream and a job have in common."""

    stream: bool

    def __init__(self, given: Mapping[str, str], schema: Any, overwrite: bool) -> None:
        self.options = parse_queue(given, stream=self.stream)
        self.schema = schema
        self.attempt = uuid4()
        self.target = f"queue {self.options.queue}"
        require_append(overwrite)
        event_rows.shape_of(self.options, schema)
        with session(self.options.conninfo, name="londiste-spark sink", autocommit=True) as conn:
            admin.find_queue(conn, self.options.queue)
            self.done = is_done(conn, self.options.name, self.stream)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """In an executor."""
        rows = iter(()) if self.done else iterator
        return stage.run(
            self.options, self.attempt, event_rows.chunks(self.options, self.schema, rows)
        )

    def _commit(self, messages: Sequence[StagedMessage | None], epoch: int | None) -> None:
        if self.done:
            return

        def do(conn: Connection, chunks: list[tuple[StagedRows, Given]]) -> None:
            given = ((text, chunk.count) for chunk, text in chunks)
            event_rows.insert(conn, self.options, self.schema, given)

        commit.write(self.options, self.target, self.attempt, messages, epoch, do)


class QueueStreamWriter(_QueueWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """For ``df.writeStream``."""

    stream = True

    def commit(self, messages: list[StagedMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver: all tasks of an epoch have ended."""
        self._commit(messages, batchId)

    def abort(self, messages: list[StagedMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver: a task has failed permanently."""
        commit.give_up(self.options, self.attempt, messages)


class QueueBatchWriter(_QueueWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """For ``df.write``."""

    stream = False

    def commit(self, messages: list[StagedMessage | None]) -> None:
        """In the driver: all tasks have ended."""
        self._commit(messages, None)

    def abort(self, messages: list[StagedMessage | None]) -> None:
        """In the driver: a task has failed permanently."""
        commit.give_up(self.options, self.attempt, messages)


def require_append(overwrite: bool) -> None:
    """Raises BadOption for a mode that would delete existing rows."""
    if overwrite:
        raise BadOption(
            "overwrite mode: not supported by sinks",
            hint="use .mode('append') with df.write, and .outputMode('append') or 'update' with a"
            " stream",
        )


def is_done(conn: Connection, name: str, stream: bool) -> bool:
    """Whether this is a job that was done before."""
    return bool(name) and not stream and spark_epochs.is_sink_done(conn, name)
