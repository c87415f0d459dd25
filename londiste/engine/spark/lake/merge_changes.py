"""Merge of changes into states and histories of a table.

A change is placed by its event and, in a packed event, its row: both grow with time for one row of
a table, and TRUNCATE stands behind everything that it removes.  Nothing here runs a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as f
from pyspark.sql import types as t

from londiste.engine.spark.lake.dataframes import col, cols, every

#: Behind every row of a packed event.
_LAST_ROW = (1 << 31) - 1

#: What a file of a state has besides the columns of the table.
STATE = (("_commit_version", t.LongType()), ("_commit_timestamp", t.TimestampType()))
#: The same with Delta's change data feed, which reserves these names for itself.
FED_STATE = (("_tick", t.LongType()), ("_tick_time", t.TimestampType()))
#: What a file of a history has.
HISTORY = (
    ("_valid_from_tick", t.LongType()),
    ("_valid_from", t.TimestampType()),
    ("_valid_to_tick", t.LongType()),
    ("_valid_to", t.TimestampType()),
    ("_is_current", t.BooleanType()),
)
_NOT_A_ROW = ("truncate", "execute")


def renamed(rows: Any, *, back: bool = False) -> Any:
    """Rows of a state with the columns of ``FED_STATE``; back -- those of ``STATE`` instead."""
    for (one, _), (other, _) in zip(STATE, FED_STATE, strict=True):
        rows = rows.withColumnRenamed(*((other, one) if back else (one, other)))
    return rows


def of_rows(changes: Any) -> Any:
    """Without what is no change of one row."""
    return changes.where(~f.col("_change_type").isin(*_NOT_A_ROW))


def bucket(key: Sequence[str], count: int) -> Any:
    """The bucket of a row, as a text; the same in every release of Spark."""
    text = f.concat_ws("\x01", *(f.hex(col(name).cast("string").cast("binary")) for name in key))
    return f.format_string("bucket=%04d", f.pmod(f.crc32(text.cast("binary")), f.lit(count)))


def after_truncate(changes: Any, event: int | None) -> Any:
    """The changes behind an event; None: all."""
    return changes if event is None else changes.where(f.col("_event_id") > event)


def last(changes: Any, key: Sequence[str], also: Sequence[str] = ()) -> Any:
    """The last change of each key; also -- of each key and these columns."""
    order = Window.partitionBy(*cols([*key, *also])).orderBy(
        f.col("_event_id").desc_nulls_last(), f.col("_row").desc_nulls_last()
    )
    return changes.withColumn("_n", f.row_number().over(order)).where("_n = 1").drop("_n")


def state(base: Any, changes: Any, key: Sequence[str], names: Sequence[str]) -> Any:
    """The rows of a table after some changes, none of them a TRUNCATE.

    base -- the rows before, with the columns of ``STATE``.
    """
    final = last(of_rows(changes), key)
    kept = base.join(final.select(*cols(key)), list(key), "left_anti")
    wanted = [*names, *(name for name, _ in STATE)]
    there = final.where("_change_type != 'delete'")
    return kept.select(*cols(wanted)).unionByName(there.select(*cols(wanted)))


def history(base: Any, changes: Any, key: Sequence[str], names: Sequence[str]) -> Any:
    """Every state that a row had at the end of some tick, from those that are current on.

    base -- the current rows before, with the columns of ``HISTORY``; with a TRUNCATE all of them.
    """
    tick, time = f.col("_commit_version"), f.col("_commit_timestamp")
    truncates = changes.where("_change_type = 'truncate'")
    events = of_rows(changes)
    everybody = base.select(*cols(key)).unionByName(events.select(*cols(key))).distinct()
    gone = everybody.crossJoin(
        truncates.select("_commit_version", "_commit_timestamp", "_event_id")
    ).withColumns({"_change_type": f.lit("delete"), "_row": f.lit(_LAST_ROW)})
    per_tick = last(events.unionByName(gone, allowMissingColumns=True), key, ["_commit_version"])
    before = base.select(
        *cols(names),
        f.col("_valid_from_tick").alias("_commit_version"),
        f.col("_valid_from").alias("_commit_timestamp"),
        f.lit("insert").alias("_change_type"),
    )
    wanted = [*names, "_commit_version", "_commit_timestamp", "_change_type"]
    order = Window.partitionBy(*cols(key)).orderBy(tick)
    told = before.unionByName(per_tick.select(*cols(wanted))).withColumns(
        {"_next": f.lead(tick).over(order), "_then": f.lead(time).over(order)}
    )
    return told.where("_change_type != 'delete'").select(
        *cols(names),
        tick.alias("_valid_from_tick"),
        time.alias("_valid_from"),
        f.col("_next").alias("_valid_to_tick"),
        f.col("_then").alias("_valid_to"),
        f.col("_next").isNull().alias("_is_current"),
    )


def current(history: Any, names: Sequence[str]) -> Any:
    """The current rows of a history, as those of a state."""
    return history.where("_is_current").select(
        *cols(names),
        f.col("_valid_from_tick").alias("_commit_version"),
        f.col("_valid_from").alias("_commit_timestamp"),
    )


def corrections(
    base: Any, rows: Any, key: Sequence[str], names: Sequence[str], tick: int, time: datetime
) -> Any:
    """The changes that lead from the current rows of a history to the rows of a table.

    tick, time -- when they are taken to have come.
    """
    same = every(
        base_column.eqNullSafe(row_column)
        for base_column, row_column in (
            (f.col(f"b.{_quoted(name)}"), f.col(f"r.{_quoted(name)}")) for name in names
        )
    )
    changed = rows.alias("r").join(base.alias("b"), same, "left_anti")
    gone = base.join(rows.select(*cols(key)), list(key), "left_anti").select(
        *cols(names), f.lit("delete").alias("_change_type")
    )
    told = changed.unionByName(gone, allowMissingColumns=True)
    return told.withColumns({"_commit_version": f.lit(tick), "_commit_timestamp": f.lit(time)})


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def state_of_log(log: Any, key: Sequence[str], names: Sequence[str]) -> Any:
    """The rows of a table of all its changes, the rows that came first among them."""
    truncated = log.where("_change_type = 'truncate'").agg(f.max("_event_id").alias("_truncated"))
    rows = of_rows(log).crossJoin(truncated)
    rows = rows.where(
        "_truncated is null or (_event_id is not null and _event_id > _truncated)"
    ).drop("_truncated")
    final = last(rows, key).where("_change_type != 'delete'")
    return final.select(*cols([*names, *(name for name, _ in STATE)]))
