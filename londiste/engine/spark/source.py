"""Spark data source of queues: ``spark.readStream.format("pgq")`` and ``spark.read.format("pgq")``.

The offset is a tick, a partition is a slice of the events between two ticks, which an executor
reads with COPY into record batches of Arrow.  What is decided in the driver is in
``stream/driver.py``, what executors do in ``stream/reader.py``; here is only what Spark calls.

Spark makes these objects many times, in processes of its own, and pickles them; so they hold the
options and nothing that is open, but in the one process that runs a query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from londiste.db import catalog
from londiste.db.connection import Connection, session, whereabouts
from londiste.db.names import TableName
from londiste.engine.spark.sink.queue_sink import QueueBatchWriter, QueueStreamWriter
from londiste.engine.spark.stream import bounds, offsets, snapshot
from londiste.engine.spark.stream import reader as reading
from londiste.engine.spark.stream import schema as schemas
from londiste.engine.spark.stream.driver import Driver, RequireRows, no_check
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import GapPolicy, Mode, Options, Payload, parse
from londiste.engine.spark.stream.snapshot import TablePart, table_parts
from londiste.engine.spark.stream.types import StreamShape, shape_of, unlimited
from londiste.errors import BadOption, UnknownTable
from londiste.pgq import admin

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before Spark 4.2
    ReadAllAvailable = ReadMaxFiles = ReadMaxRows = None

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Not there before Spark 4.2."""


log = logging.getLogger(__name__)


class QueuePartition(InputPartition):  # type: ignore[misc]
    """What one task reads."""

    def __init__(self, what: TickRange | TablePart) -> None:
        super().__init__(what)
        self.what = what


class PgqDataSource(DataSource):  # type: ignore[misc]
    """The queue as a source and as a sink: docs/howto/spark-streams.md and spark-enqueue.md."""

    @staticmethod
    def require_rows(conn: Connection, queue: str, table: TableName) -> None:
        """Checks a table whose rows are the start of a stream."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options.items())

    @classmethod
    def name(cls) -> str:
        """What follows ``format``."""
        return "pgq"

    def schema(self) -> Any:
        """The columns of the result; those of a table are asked for."""
        options = parse(self._given)
        shape = shape_in(options)
        warn_of_unlimited(options, shape)
        return schemas.of_shape(options.payload, shape)

    def reader(self, schema: Any) -> BatchReader:
        """For ``spark.read``."""
        return BatchReader(parse(self._given, stream=False), schema)

    def streamReader(self, schema: Any) -> StreamReader:  # noqa: N802
        """For ``spark.readStream``."""
        return StreamReader(parse(self._given, stream=True), schema, self.require_rows)

    def writer(self, schema: Any, overwrite: bool) -> QueueBatchWriter:
        """For ``df.write``."""
        return QueueBatchWriter(self._given, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> QueueStreamWriter:  # noqa: N802
        """For ``df.writeStream``."""
        return QueueStreamWriter(self._given, schema, overwrite)


class _Reader:
    """What both have: options, and what the result looks like."""

    def __init__(self, options: Options, schema: Any) -> None:
        self.options = options
        self._shape = shape_in(options)
        self._schema = schemas.of_shape(options.payload, self._shape)
        if schema != self._schema:
            raise BadOption(
                ".schema(…) does not match the columns of the source",
                detail=f"they are {self._schema.simpleString()}",
                hint="remove .schema(…); without one, the table has changed since the DataFrame"
                " was created: create it again",
            )

    def __getstate__(self) -> dict[str, Any]:
        """What goes to executors: nothing that is open."""
        return {**self.__dict__, "_driver": None}

    def read(self, partition: QueuePartition) -> Iterator[pa.RecordBatch]:
        """In an executor."""
        what = partition.what
        if isinstance(what, TablePart):
            return snapshot.rows(self.options, what, self._shape, self._schema)
        return reading.changes(self.options, what, self._shape, self._schema)


class BatchReader(_Reader, DataSourceReader):  # type: ignore[misc]
    """The events between two ticks, or the rows of a table."""

    def partitions(self) -> list[QueuePartition]:
        """Parts of the events that are there now."""
        options = self.options
        with session(options.conninfo, name="londiste-spark", autocommit=True) as conn:
            admin.find_queue(conn, options.queue)
            if options.mode is Mode.SNAPSHOT:
                return [
                    QueuePartition(what) for what in table_parts(conn, options, options.snapshot)
                ]
            first = bounds.starting_tick(conn, options, otherwise="earliest")
            last = bounds.ending_tick(conn, options, first)
            found = bounds.parts(conn, options, first.id, last.id)
            if found is None:
                raise bounds.lost(conn, options.queue, first.id)
        # Spark asks for one part at least.
        return [QueuePartition(what) for what in found[2]] or [
            QueuePartition(TickRange((first, first)))
        ]


class StreamReader(_Reader, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """The events as they come."""

    _driver: Driver | None = None

    def __init__(self, options: Options, schema: Any, require: RequireRows = no_check) -> None:
        super().__init__(options, schema)
        self._require = require

    @property
    def driver(self) -> Driver:
        """In the process that runs the query."""
        if self._driver is None:
            self._driver = Driver(self.options, self._shape.types or None, self._require)
        return self._driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a query without a checkpoint begins."""
        return offsets.write(self.driver.initial())

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Where the next batch ends; Spark before 4.2 gives neither start nor limit."""
        limited = limit is not None and not isinstance(limit, ReadAllAvailable)
        begin = None if start is None else offsets.read(start)
        return offsets.write(self.driver.latest(begin, limited=limited))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """That there is a limit; what it is, ``latestOffset`` takes from the options."""
        if self.options.max_events is not None or self.options.max_bytes is not None:
            return ReadMaxRows(self.options.max_events or 1)
        if self.options.max_ticks is not None:
            # Spark knows limits of its own kinds only.
            return ReadMaxFiles(self.options.max_ticks)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The newest tick, for the progress of the query."""
        newest = self.driver.newest()
        return None if newest is None else offsets.write(newest)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query ends with the newest tick of now."""
        self.driver.stop_at_newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[QueuePartition]:
        """The parts of a batch."""
        return [
            QueuePartition(s) for s in self.driver.parts(offsets.read(start), offsets.read(end))
        ]

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has finished the batch that ends there."""
        self.driver.finished(offsets.read(end))

    def stop(self) -> None:
        """The query has ended."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def warn_of_unlimited(options: Options, shape: StreamShape) -> None:
    """Names the columns whose values may stop the query later."""
    if options.payload is not Payload.TYPED or options.values is not GapPolicy.FAIL:
        return
    for table, one in shape.tables or ((str(options.table), shape),):
        found = unlimited(one)
        if found:
            log.warning(
                "table %s: numeric without limits in columns %s: a value that does not fit into"
                " decimal(38,18) stops the query; set unsupportedValues=round or null,"
                " or stringColumns=%s before the first start",
                table,
                ", ".join(found),
                ",".join(found),
            )


def shape_in(options: Options) -> StreamShape:
    """The columns of the tables, for payload typed.  Raises UnknownTable.

    With another payload a table that is not there may be one of another node: it is a warning.
    """
    if not options.tables:
        return StreamShape()
    typed = options.payload is Payload.TYPED
    found: dict[str, Sequence[catalog.Column]] = {}
    with session(options.conninfo, name="londiste-spark", autocommit=True) as conn:
        for table in options.tables:
            missing = catalog.info(conn, table) is None
            if missing and typed:
                raise UnknownTable(
                    f"table {table} does not exist in {whereabouts(conn)}",
                    hint="correct the option tables, or read it with payload=json if it is a table"
                    " of another node",
                )
            if missing:
                log.warning(
                    "table %s does not exist in %s: only events of other nodes can name it",
                    table,
                    whereabouts(conn),
                )
            if typed:
                found[str(table)] = catalog.columns(conn, table)
    if not typed:
        return StreamShape()
    if len(found) == 1:
        (columns,) = found.values()
        return shape_of(columns, strings=options.strings, policy=options.values)
    unknown = set(options.strings) - {c.name for columns in found.values() for c in columns}
    if unknown:
        raise BadOption(
            f"stringColumns: unknown columns {', '.join(sorted(unknown))}",
            hint="use columns of the tables",
        )
    shapes = []
    for name, columns in found.items():
        own = [c.name for c in columns if c.name in options.strings]
        shapes.append((name, shape_of(columns, strings=own, policy=options.values)))
    return StreamShape(tables=tuple(shapes))
