"""Chunks of a table: every block is in exactly one chunk."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from londiste.copy.chunking.blocks import MAX_CHUNKS, count_chunks, split
from londiste.db.names import TableName
from londiste.engine.spec import Chunk

TABLE = TableName("public", "t")
BLOCK = 8192


def bounds(chunk: Chunk) -> tuple[int, int | None]:
    """First block of a chunk, and the first one behind it (None: no end)."""
    low = re.search(r"ctid >= '\((\d+),0\)'", chunk.condition)
    high = re.search(r"ctid < '\((\d+),0\)'", chunk.condition)
    return (int(low[1]) if low else 0), (int(high[1]) if high else None)


@given(
    pages=st.integers(0, 2**32 - 1),
    toast=st.integers(0, 2**40),
    chunk_bytes=st.integers(1, 2**34),
)
def test_every_block_is_in_one_chunk_and_the_last_chunk_has_no_end(
    pages: int, toast: int, chunk_bytes: int
) -> None:
    chunks = split(TABLE, pages=pages, total_bytes=pages * BLOCK + toast, chunk_bytes=chunk_bytes)
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    assert len(chunks) <= MAX_CHUNKS
    expected = 0
    for chunk in chunks[:-1]:
        low, high = bounds(chunk)
        assert low == expected
        assert high is not None
        assert high > low
        expected = high
    assert bounds(chunks[-1]) == (expected, None)
    assert expected <= pages


@given(pages=st.integers(2, 2**31), chunks=st.integers(2, 500))
def test_chunks_differ_by_one_block_at_most(pages: int, chunks: int) -> None:
    size = pages * BLOCK
    found = split(TABLE, pages=pages, total_bytes=size, chunk_bytes=max(1, size // chunks))
    ends = [bounds(chunk)[0] for chunk in found] + [pages]
    sizes = [high - low for low, high in pairwise(ends)]
    assert max(sizes) - min(sizes) <= 1


def test_a_table_of_one_chunk_and_a_half_is_not_split() -> None:
    assert len(split(TABLE, pages=150, total_bytes=150 * BLOCK, chunk_bytes=100 * BLOCK)) == 1
    assert len(split(TABLE, pages=151, total_bytes=151 * BLOCK, chunk_bytes=100 * BLOCK)) == 2


@pytest.mark.parametrize(
    ("megabytes", "parallel", "chunks"),
    [
        (40, 2, 1),  # not worth a second process
        (100, 2, 2),
        (190, 2, 2),
        (269, 1, 3),
        (269, 2, 4),  # not three, of which the last would be alone
        (269, 4, 4),
        (130, 4, 2),
        (650, 4, 8),
        (1300, 2, 11),  # of many chunks the last counts for little
    ],
)
def test_all_tasks_have_work_to_the_end(megabytes: int, parallel: int, chunks: int) -> None:
    size = megabytes << 20
    assert count_chunks(size // BLOCK, size, 128 << 20, parallel) == chunks


def test_an_unsplit_table_has_no_condition() -> None:
    (chunk,) = split(TABLE, pages=0, total_bytes=0, chunk_bytes=1000)
    assert chunk.condition == ""


def test_values_outside_the_heap_count_for_the_size_of_a_chunk() -> None:
    heap = 100 * BLOCK
    assert len(split(TABLE, pages=100, total_bytes=heap, chunk_bytes=heap)) == 1
    assert len(split(TABLE, pages=100, total_bytes=heap * 10, chunk_bytes=heap)) == 10
