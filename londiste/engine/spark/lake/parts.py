"""Parts of the rows of an epoch, and what its changes contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as f

from londiste.engine.spark.lake.dataframes import cols
from londiste.engine.spark.lake.merge_changes import bucket, of_rows

#: Tasks that write parts, at most.
_TASKS = 64


@dataclass(frozen=True)
class FileFacts:
    """What some changes hold.

    truncate -- event of the last TRUNCATE; None: there is none.
    scripts -- events of scripts; keyless -- rows whose key is not told.
    """

    changes: int
    truncate: int | None
    scripts: tuple[int, ...]
    keyless: int


def facts(changes: Any, key: Sequence[str]) -> FileFacts:
    """Looks through some changes once."""
    kind = f.col("_change_type")
    no_key = f.lit(False)
    for one in cols(key):
        no_key = no_key | one.isNull()
    row = changes.agg(
        f.count(f.lit(1)),
        f.max(f.when(kind == "truncate", f.col("_event_id"))),
        f.collect_set(f.when(kind == "execute", f.col("_event_id"))),
        f.count(f.when(no_key & ~kind.isin("truncate", "execute"), 1)),
    ).collect()[0]
    return FileFacts(row[0] - len(row[2]), row[1], tuple(sorted(row[2])), row[3])


def buckets(changes: Any, key: Sequence[str], count: int) -> set[str]:
    """The buckets that some changes touch."""
    found = of_rows(changes).select(bucket(key, count).alias("b")).distinct().collect()
    return {row[0] for row in found}


def by_bucket(rows: Any, key: Sequence[str], count: int, tasks: int) -> Any:
    """Rows of a state with their bucket as part."""
    return spread(rows.withColumn("_part", bucket(key, count)), tasks)


def by_currency(rows: Any, key: Sequence[str], count: int, tasks: int) -> Any:
    """Rows of a history: those that are current by bucket, the others together."""
    part = f.when(f.col("_is_current"), bucket(key, count)).otherwise("closed")
    return spread(rows.withColumn("_part", part), tasks)


def spread(rows: Any, tasks: int) -> Any:
    """All rows of a part in one task, one part after another."""
    return rows.repartition(max(1, min(tasks, _TASKS)), "_part").sortWithinPartitions("_part")
