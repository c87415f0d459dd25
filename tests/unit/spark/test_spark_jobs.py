"""Data that a Spark job sends to its tasks, tested without Spark."""

from __future__ import annotations

from londiste.db.names import TableName
from londiste.engine import tasks
from londiste.engine.spark.jobs import packed
from londiste.engine.spec import Chunk, CopySpec


def spec(chunks: int, columns: int) -> CopySpec:
    """A copy of a table with so many chunks and columns."""
    name = TableName("public", "t")
    pairs = tuple((f"column_{n * 7919}", f"target_{n * 7907}") for n in range(columns))
    pieces = tuple(
        Chunk(name, n, f"ctid >= '({n * 16384},0)'::tid", 128 << 20, 0) for n in range(chunks)
    )
    return CopySpec("q", "host=a", "host=b", name, name, pairs, pieces, "s", 1)


def test_what_the_chunks_of_a_table_have_in_common_travels_once() -> None:
    many = tasks.chunk_tasks(spec(10_000, 1600))
    size = len(packed(tasks.copy_chunk, [[task] for task in many]))
    alone = len(packed(tasks.copy_chunk, [many[:1]]))
    # Every task of a job gets all of it.
    assert size < alone + 10_000 * 50
