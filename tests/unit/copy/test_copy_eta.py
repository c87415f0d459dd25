"""The remaining time of a copy, from its finished chunks."""

from __future__ import annotations

from londiste.copy.progress import ChunkTimes, remaining


def test_without_a_finished_chunk_the_time_is_unknown() -> None:
    assert remaining(ChunkTimes(0, 0, 0.0), 5, 2) is None


def test_the_time_is_the_mean_of_the_finished_chunks_for_each_of_the_others() -> None:
    assert remaining(ChunkTimes(1, 1000, 4.0), 10, 1) == 40.0
    assert remaining(ChunkTimes(4, 4000, 8.0), 10, 1) == 20.0


def test_running_tasks_share_what_is_left() -> None:
    assert remaining(ChunkTimes(3, 3000, 6.0), 6, 3) == 4.0
    assert remaining(ChunkTimes(2, 2000, 4.0), 1, 2) == 1.0
    assert remaining(ChunkTimes(2, 2000, 4.0), 1, 0) == 2.0
