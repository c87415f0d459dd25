"""Dispatch of changes into folders by time, of each key the last row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql import types as t

from londiste.engine.spark.lake.dataframes import col, cols, files
from londiste.engine.spark.lake.file_writer import Place
from londiste.engine.spark.lake.merge_changes import of_rows

#: What a file has behind the columns of the table.
MORE = (
    ("_change_type", t.StringType()),
    ("_commit_version", t.LongType()),
    ("_commit_timestamp", t.TimestampType()),
    ("_event_id", t.LongType()),
    ("_row", t.IntegerType()),
)


@dataclass(frozen=True)
class DispatchPlan:
    """Which rows of a table are kept as they were last.

    time -- the column with the time, or one time for all.
    pattern -- of folders, for ``date_format``; kinds -- values of ``_change_type`` that count.
    names -- columns and their names in files; empty: all as they are.
    key -- of the table, as it is called there.
    """

    time: str | datetime
    pattern: str
    kinds: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    key: tuple[str, ...]


def placed(changes: Any, plan: DispatchPlan) -> Any:
    """The changes of rows that count, with the columns of files, ``_part`` and their key."""
    rows = of_rows(changes).where(f.col("_change_type").isin(*plan.kinds))
    time = col(plan.time) if isinstance(plan.time, str) else f.lit(plan.time)
    return rows.withColumn("_part", f.date_format(time.cast("timestamp"), plan.pattern))


def parts(placed: Any) -> dict[str | None, int]:
    """The folders that some changes touch, with the first event; None: those without a time."""
    found = placed.groupBy("_part").agg(f.min("_event_id"))
    return {row[0]: row[1] for row in found.collect()}


def shown(placed: Any, plan: DispatchPlan, names: Sequence[str]) -> Any:
    """As it is written.  names -- the columns of the table."""
    pairs = plan.names or tuple((name, name) for name in names)
    return placed.select(
        *(col(there).alias(here) for there, here in pairs), *cols(n for n, _ in MORE), "_part"
    )


def latest(base: Any, placed: Any, plan: DispatchPlan, names: Sequence[str]) -> Any:
    """The rows of some folders, of each key the last.

    base -- their rows before, as they were read, with ``_part``.
    """
    here = dict(plan.names or ((name, name) for name in names))
    key = [here[name] for name in plan.key]
    rows = shown(placed, plan, names)
    order = Window.partitionBy(*cols([*key, "_part"])).orderBy(
        f.col("_event_id").desc(), f.col("_row").desc()
    )
    final = rows.withColumn("_n", f.row_number().over(order)).where("_n = 1").drop("_n")
    kept = base.join(final.select(*cols([*key, "_part"])), [*key, "_part"], "left_anti")
    there = final.where("_change_type != 'delete'")
    return kept.select(*cols(rows.columns)).unionByName(there)


def read(spark: Any, place: Place, found: Sequence[Any], schema: Any) -> Any:
    """Rows of files, with their folder as ``_part``."""
    wanted = t.StructType([*schema.fields, t.StructField("_part", t.StringType(), True)])
    rows = spark.createDataFrame([], wanted)
    for part in sorted({file.part for file in found}):
        paths = [file.path for file in found if file.part == part]
        some = files(spark, place, paths, schema).withColumn("_part", f.lit(part))
        rows = rows.unionByName(some)
    return rows
