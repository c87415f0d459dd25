"""Parquet writer: the files of an epoch by parts, and their statistics."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from londiste.engine.spark.lake.dataframes import cols
from londiste.engine.spark.lake.merge_changes import bucket, of_rows
from londiste.errors import LondisteError

#: A file ends with so many rows.
FILE_ROWS = 2_000_000
#: Columns of ours by which the rows of a joined file are sorted, as far as it has them.
_ORDER = ("_valid_from_tick", "_commit_version", "_event_id", "_row")
#: Tasks that write parts, at most.
_TASKS = 64
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


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


def by_day(changes: Any) -> Any:
    """Changes with the day of their tick as part."""
    kept = changes.where("_change_type != 'execute'")
    return kept.withColumn("_part", f.date_format("_commit_timestamp", "'day='yyyy-MM-dd"))


def by_bucket(rows: Any, key: Sequence[str], count: int, tasks: int) -> Any:
    """Rows of a state with their bucket as part."""
    return spread(rows.withColumn("_part", bucket(key, count)), tasks)


def by_currency(rows: Any, key: Sequence[str], count: int, tasks: int) -> Any:
    """Rows of a history: those that are current by bucket, the others together."""
    part = f.when(f.col("_is_current"), bucket(key, count)).otherwise("closed")
    return spread(rows.withColumn("_part", part), tasks)


def spread(rows: Any, tasks: int) -> Any:
    # All rows of a part in one task, so in one file.
    return rows.repartition(max(1, min(tasks, _TASKS)), "_part")


def joined(rows: Mapping[str, Any]) -> Any:
    """Rows of some parts, each in one task, in the order of their events or keys."""
    found = [some.withColumn("_part", f.lit(part)) for part, some in rows.items()]
    whole = spread(reduce(lambda one, other: one.unionByName(other), found), len(found))
    order = [name for name in _ORDER if name in whole.columns]
    return whole.sortWithinPartitions("_part", *cols(order))


#: How formats are written so that nothing of a value is lost.
_OPTIONS: dict[str, dict[str, str]] = {
    "parquet": {},
    "orc": {},
    "json": {**_TIMES, "ignoreNullFields": "false"},
    "csv": {
        **_TIMES,
        "header": "true",
        "escape": '"',
        "lineSep": "\n",
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
    },
}


def write(rows: Any, directory: Path, form: str = "parquet", *, split: bool = True) -> None:
    """Writes rows into a directory that is not there yet, one below it for each ``_part``.

    split -- a file ends with ``FILE_ROWS`` rows; otherwise each part of a task is one file.

    Raises LondisteError when they are not there.
    """
    writer = rows.write.format(form).options(**_OPTIONS[form]).partitionBy("_part")
    # Hadoop takes the path as it is: quoted as in other URIs it would be another directory.
    writer.option("maxRecordsPerFile", FILE_ROWS if split else 0).save(f"file://{directory}")
    if not directory.is_dir():
        raise LondisteError(
            f"{directory}: files written by Spark are missing",
            detail="nothing was published",
            hint="make lake_path a directory that all of Spark sees under this name",
        )


def count_rows(path: Path) -> int:
    """Rows of a file."""
    match path.suffix:
        case ".parquet":
            import pyarrow.parquet

            return int(pyarrow.parquet.read_metadata(path).num_rows)
        case ".orc":
            import pyarrow.orc

            return int(pyarrow.orc.ORCFile(path).nrows)
        case ".json":
            with path.open("rb") as file:
                return sum(1 for _ in file)
        case _:
            csv.field_size_limit(1 << 30)
            with path.open(encoding="utf-8", newline="") as file:
                return max(0, sum(1 for _ in csv.reader(file)) - 1)
