"""Spark data source and sinks of queues: ``londiste.spark.register(spark)``, ``format("pgq")``.

    import londiste.spark

    londiste.spark.register(spark)
    changes = spark.readStream.format("pgq").options(service="shop", queue="shop",
        tables="public.orders", consumer="orders_to_lake").load()

docs/howto/spark-streams.md tells the options, spark-enqueue.md and spark-tables.md those of what
writes.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def register(spark: Any) -> None:
    """Makes our formats known to a SparkSession; a second time changes nothing.

    ``pgq`` is a queue, read and written; ``pgq_table`` are tables, written.  On a cluster this
    package goes to the executors, which need a Python with psycopg and pyarrow; with Spark Connect
    it has to be installed there.

    On one machine (``local[…]``) Spark's tasks run with the Python of this process, unless
    PYSPARK_PYTHON or ``spark.pyspark.python`` names another.
    """
    source = importlib.import_module("londiste.lake.data_source")
    package = importlib.import_module("londiste.engine.spark.package_upload")
    context = getattr(spark, "_sc", None)
    if context is not None and package.is_needed(context.master):
        package.ship(context)
    if context is not None and _finds_its_python(context):
        context.pythonExec = sys.executable
    spark.dataSource.register(source.CascadeDataSource)
    table = importlib.import_module("londiste.engine.spark.sink.table_sink")
    spark.dataSource.register(table.TableSink)


def _finds_its_python(context: Any) -> bool:
    """Whether Spark would start the first python3 of PATH on this machine, whatever runs here."""
    named = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    return context.master.startswith("local") and not named


@contextlib.contextmanager
def snapshot(dsn: str, *, password: str = "") -> Iterator[str]:
    """Keeps a snapshot of a database for the length of a with block; its name.

    For ``mode=snapshot`` with many partitions, and for several tables at one moment:

        with londiste.spark.snapshot("service=shop") as name:
            spark.read.format("pgq").options(mode="snapshot", snapshot=name, …).load()

    All jobs that use it have to end inside.  It holds back VACUUM.
    """
    snapshots = importlib.import_module("londiste.engine.spark.stream.snapshot")
    with snapshots.exported(dsn, password) as name:
        yield name


def schema(spark: Any, table: str, **options: Any) -> Any:
    """The StructType of a table's columns, with the types that ``format("pgq")`` gives them.

    options -- of the source: ``service`` or ``dsn``, and for instance ``stringColumns``.

        londiste.spark.schema(spark, "public.orders", service="shop")
    """
    source = importlib.import_module("londiste.engine.spark.source")
    given = {"queue": "-", "tables": table, **options}
    found = source.parse({name: str(value) for name, value in given.items()})
    return source.schemas.columns(source.shape_in(found).columns)


def table(frame: Any, name: str) -> Any:
    """The changes of one table in a stream of several: its columns, and those of a change.

    name -- as in ``_table``: ``public.orders``.
    """
    known = str(importlib.import_module("londiste.db.names").TableName.parse(name))
    quoted = "`" + known.replace("`", "``") + "`"
    if known not in frame.columns:
        errors = importlib.import_module("londiste.errors")
        raise errors.BadOption(f"table {known}: not in this stream", hint="name it in its tables")
    of_change = importlib.import_module("londiste.engine.spark.stream.options").CHANGE_NAMES
    meta = [column for column in frame.columns if column in of_change]
    return frame.where(frame["_table"] == known).select(f"{quoted}.*", *meta)


def lag_listener(report: Any = None) -> Any:
    """A StreamingQueryListener that reports the lag of queries which read queues.

    report -- called after each micro-batch, with ``query``, ``source``, ``tick``, ``events`` and
    ``seconds`` as attributes; None: writes a line into the log.

        spark.streams.addListener(londiste.spark.lag_listener())
    """
    return importlib.import_module("londiste.engine.spark.stream.lag_listener").LagListener(report)


def lake(
    spark: Any,
    directory: str | os.PathLike[str],
    *,
    tick: int | None = None,
    storage: Mapping[str, str] | None = None,
) -> Any:
    """The DataFrame of a table that ``londiste lake`` keeps.

    directory -- of the table, below ``lake_path``; tick -- as it was there, while that version is
    kept.  It is that of one version, however long it is read, for ``lake_retention`` seconds.
    storage -- options of the object store, as in ``lake_storage``.

    Raises StateError when there is no such version.
    """
    frames = importlib.import_module("londiste.lake.frame")
    place = os.fspath(directory)
    if "://" not in place:
        place = str(Path(place).absolute())
    return frames.frame(spark, place, tick, storage or {})


__all__ = ["lag_listener", "lake", "register", "schema", "snapshot", "table"]
