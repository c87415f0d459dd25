"""Table sink, as Spark calls it: ``format("pgq_table")``.

As in ``queue_sink.py``, Spark creates these objects in every process of an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
)

from londiste.db import relation as shapes
from londiste.db.connection import Connection, session
from londiste.db.relation import Relation
from londiste.engine.spark.sink import change_rows, commit, stage
from londiste.engine.spark.sink import merge as merging
from londiste.engine.spark.sink.event_rows import Given
from londiste.engine.spark.sink.options import Mode, TableOptions, parse_tables
from londiste.engine.spark.sink.queue_sink import is_done, require_append
from londiste.engine.spark.sink.stage import StagedMessage, StagedRows
from londiste.engine.spark.sink.type_check import require_columns, require_types
from londiste.errors import UnknownTable

if TYPE_CHECKING:
    import pyarrow as pa


class TableSink(DataSource):  # type: ignore[misc]
    """Tables of PostgreSQL as a sink; see docs/howto/spark-tables.md for its options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options.items())

    @classmethod
    def name(cls) -> str:
        """What follows ``format``."""
        return "pgq_table"

    def writer(self, schema: Any, overwrite: bool) -> TableBatchWriter:
        """For ``df.write``."""
        return TableBatchWriter(self._given, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> TableStreamWriter:  # noqa: N802
        """For ``df.writeStream``."""
        return TableStreamWriter(self._given, schema, overwrite)


class _TableWriter:
    """What a stream and a job have in common."""

    stream: bool

    def __init__(self, given: Mapping[str, str], schema: Any, overwrite: bool) -> None:
        self.options = parse_tables(given, stream=self.stream)
        self.schema = schema
        self.attempt = uuid4()
        require_append(overwrite)
        with session(self.options.conninfo, name="londiste-spark sink", autocommit=True) as conn:
            self.tables, self.columns = fitting(conn, self.options, schema)
            self.done = is_done(conn, self.options.name, self.stream)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """In an executor."""
        rows = iter(()) if self.done else iterator
        chunks = change_rows.chunks(self.options, self.schema, self.tables, rows)
        return stage.run(self.options, self.attempt, chunks)

    def _commit(self, messages: Sequence[StagedMessage | None], epoch: int | None) -> None:
        if self.done:
            return

        def do(conn: Connection, chunks: list[tuple[StagedRows, Given]]) -> None:
            merging.write(conn, self.options, self.tables, self.columns, chunks)

        options = self.options
        target = f"table {', '.join(map(str, options.targets))}"
        replica = options.replica
        commit.write(options, target, self.attempt, messages, epoch, do, replica=replica)


class TableStreamWriter(_TableWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """For ``df.writeStream``."""

    stream = True

    def commit(self, messages: list[StagedMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver: all tasks of an epoch have ended."""
        self._commit(messages, batchId)

    def abort(self, messages: list[StagedMessage | None], batchId: int) -> None:  # noqa: N803
        """In the driver: a task has failed for good."""
        commit.give_up(self.options, self.attempt, messages)


class TableBatchWriter(_TableWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """For ``df.write``."""

    stream = False

    def commit(self, messages: list[StagedMessage | None]) -> None:
        """In the driver: all tasks have ended."""
        self._commit(messages, None)

    def abort(self, messages: list[StagedMessage | None]) -> None:
        """In the driver: a task has failed for good."""
        commit.give_up(self.options, self.attempt, messages)


def fitting(
    conn: Connection, options: TableOptions, schema: Any
) -> tuple[list[Relation], list[str]]:
    """The tables, and the columns of all rows; no columns if each chunk has its own list.

    Raises UnknownTable, and BadOption for columns that do not fit.
    """
    shape = change_rows.shape_of(options, schema)
    found = shapes.shapes(conn, options.targets)
    for target in options.targets:
        if target not in found:
            raise UnknownTable(
                f"table {target}: does not exist",
                hint="create it first, or correct the name: schema.table, as in the catalog",
            )
    merge = options.mode is Mode.MERGE
    names = [name for name, _ in shape.columns]
    for target in options.targets:
        table = found[target]
        require_columns(table, names or table.key, key=merge)
        require_types(table, [f for f in schema.fields if f.name in names])
    if options.where:
        merging.check_condition(conn, found[options.targets[0]], names, options.where)
    return [found[target] for target in options.targets], names
