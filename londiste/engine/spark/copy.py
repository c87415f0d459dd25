"""Copy as a Spark job: each chunk is a task, and each task is one byte pipe.

Nothing of a row passes through the JVM: it sees the number of a chunk go out and its counts
come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from londiste.engine import tasks
from londiste.engine.spark import jobs
from londiste.engine.spec import ChunkDone, CopySpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def copy(spark: SparkSession, spec: CopySpec, parallel: int) -> Iterator[ChunkDone]:
    """See ``Engine.copy``; the results come when the job has ended (done-marks show earlier)."""
    yield from jobs.run(spark, tasks.copy_chunk, tasks.chunk_tasks(spec), parallel)
