"""Which small files of a lake are joined."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from londiste.lake.compact import PARTS, choose
from londiste.lake.versions import File

LIMIT = 1000


def file(number: int, size: int, part: str = "day=2026-01-31") -> File:
    return File(f"data/{part}/{number}.parquet", part, size, size, "")


def sizes(files: tuple[File, ...]) -> list[int]:
    return [one.bytes for one in files]


def test_files_of_one_size_are_joined_when_there_are_enough() -> None:
    files = [file(i, 10) for i in range(4)]
    assert choose(files, limit=LIMIT, least=5) == {}
    assert choose(files, limit=LIMIT, least=4) == {"day=2026-01-31": tuple(files)}
    # One that was joined before waits for others like it; one that is large is let alone.
    mixed = [*files, file(8, 400), file(9, LIMIT)]
    assert choose(mixed, limit=LIMIT, least=4) == {"day=2026-01-31": tuple(files)}


def test_small_ones_are_not_in_the_way_of_larger_ones() -> None:
    files = [file(0, 1), file(1, 1), *(file(i, 100) for i in range(2, 8))]
    (some,) = choose(files, limit=LIMIT, least=4).values()
    assert sizes(some) == [100] * 6


def test_by_hand_all_that_are_small_are_joined_up_to_the_limit() -> None:
    files = [file(0, 1), file(1, 100), file(2, 600), file(3, 700), file(4, 2000)]
    (some,) = choose(files, limit=LIMIT, tiered=False).values()
    assert sizes(some) == [1, 100, 600, 700]
    assert choose([file(0, 1), file(1, LIMIT)], limit=LIMIT, tiered=False) == {}


def test_a_part_is_joined_with_no_other_and_the_fullest_come_first() -> None:
    files = [
        file(i, 10, f"day={part}") for part in range(PARTS + 5) for i in range(3 if part < 5 else 4)
    ]
    found = choose(files, limit=LIMIT, least=2)
    assert len(found) == PARTS
    assert all(one.part == part for part, some in found.items() for one in some)
    assert all(len(some) == 4 for some in found.values())


@given(
    st.lists(st.tuples(st.integers(1, 1500), st.sampled_from("abc")), max_size=40),
    st.integers(0, 6),
    st.booleans(),
)
def test_what_is_chosen_is_small_and_is_there_once(
    given: list[tuple[int, str]], least: int, tiered: bool
) -> None:
    files = [file(number, size, part) for number, (size, part) in enumerate(given)]
    found = choose(files, limit=LIMIT, least=least, tiered=tiered)
    for part, some in found.items():
        assert len(some) == len(set(some)) >= max(2, least)
        assert set(some) <= {one for one in files if one.part == part and one.bytes < LIMIT}
        assert sum(sizes(some)) < 2 * LIMIT


@given(st.lists(st.integers(1, 40), min_size=200, max_size=1500))
def test_a_row_is_written_again_a_few_times_only(epochs: list[int]) -> None:
    limit, least = 10**6, 8
    files: list[File] = []
    written = 0
    for number, size in enumerate(epochs):
        files.append(file(number, size))
        for some in choose(files, limit=limit, least=least).values():
            files = [one for one in files if one not in some]
            files.append(file(10**6 + number, sum(sizes(some))))
            written += sum(sizes(some))
    total = sum(epochs)
    levels = math.log2(total) + 1
    assert sum(sizes(tuple(files))) == total
    assert len(files) < least * levels
    assert written < total * levels
