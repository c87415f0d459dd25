"""Comparison as a Spark job: each task reads one checksum from a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from londiste.engine import tasks
from londiste.engine.spark import jobs
from londiste.engine.spec import Checksum, CompareSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def checksum(
    spark: SparkSession, specs: Sequence[CompareSpec], parallel: int
) -> Iterator[Checksum]:
    """See ``Engine.checksum``."""
    yield from jobs.run(spark, tasks.checksum, specs, parallel)
