"""Diff of two DataFrames with the same key, and consistency check of a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as f

from londiste.engine.spark.lake.dataframes import col, cols, every


@dataclass(frozen=True)
class FileDifference:
    """A row that is not the same: ``missing`` in the lake, ``extra`` there, or it differs.

    key -- as texts; columns -- those that differ.
    """

    kind: str
    key: tuple[str | None, ...]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """What a comparison has found; differences -- some of the rows."""

    rows_here: int
    rows_lake: int
    missing: int
    extra: int
    differ: int
    differences: tuple[FileDifference, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether there is no difference."""
        return not (self.missing or self.extra or self.differ)


def differences(
    here: Any, lake: Any, key: Sequence[str], names: Sequence[str], limit: int
) -> Found:
    """Compares the columns ``names``, those of the key among them; limit -- of rows to name."""
    ours = here.select(*(col(n).alias(f"h{i}") for i, n in enumerate(names)), f.lit(1).alias("h"))
    theirs = lake.select(*(col(n).alias(f"l{i}") for i, n in enumerate(names)), f.lit(1).alias("l"))
    keys = [list(names).index(name) for name in key]
    rest = [i for i in range(len(names)) if i not in keys]
    both = ours.join(
        theirs, every(f.col(f"h{i}").eqNullSafe(f.col(f"l{i}")) for i in keys), "full_outer"
    )
    differing = f.array_compact(
        f.array(*(f.when(~f.col(f"h{i}").eqNullSafe(f.col(f"l{i}")), i) for i in rest))
        if rest
        else f.array().cast("array<int>")
    )
    told = both.withColumn("d", differing).withColumn(
        "kind",
        f.when(f.col("l").isNull(), "missing")
        .when(f.col("h").isNull(), "extra")
        .when(f.size("d") > 0, "differ"),
    )
    count = told.agg(
        f.count("h"),
        f.count("l"),
        *(f.count(f.when(f.col("kind") == k, 1)) for k in ("missing", "extra", "differ")),
    ).collect()[0]
    some: list[FileDifference] = []
    if count[2] or count[3] or count[4]:
        texts = [f.coalesce(f.col(f"h{i}"), f.col(f"l{i}")).cast("string") for i in keys]
        for row in (
            told.where("kind is not null").select("kind", "d", *texts).limit(limit).collect()
        ):
            columns = tuple(names[i] for i in row[1]) if row[0] == "differ" else ()
            some.append(FileDifference(row[0], tuple(row[2:]), columns))
    return Found(count[0], count[1], count[2], count[3], count[4], tuple(some))


def torn(history: Any, key: Sequence[str]) -> int:
    """Rows of a history that no history has: they end before they begin, or in another's time."""
    order = Window.partitionBy(*cols(key)).orderBy("_valid_from_tick")
    following = f.lead("_valid_from_tick").over(order)
    end = f.col("_valid_to_tick")
    wrong = (
        (f.col("_is_current") != end.isNull())
        | (end.isNotNull() & (end <= f.col("_valid_from_tick")))
        | (following.isNotNull() & (end.isNull() | (end > following)))
    )
    return int(history.select(wrong.alias("wrong")).where("wrong").count())
