"""Partitions that a subscriber lacks are decided by the bounds of both trees."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from londiste.db.names import TableName
from londiste.replication.tablesync.missing_partitions import Path, TreeTable, lacking


def tree(
    key: str, *bounds: str, type: str | None = "integer", lists: str | None = "text"
) -> dict[Path, TreeTable]:
    """A table with partitions of one level."""
    found: dict[Path, TreeTable] = {(): TreeTable(TableName("public", "t"), key, type, lists)}
    for number, bound in enumerate(bounds):
        found[(bound,)] = TreeTable(TableName("public", f"t{number}"))
    return found


def meets(kind: str, one: str, others: Sequence[str]) -> bool:
    """As the server would: of ranges whose ends are digits."""

    def ends(bound: str) -> tuple[int, int]:
        words = bound.split("(")
        return int(words[1].split(")")[0]), int(words[2].split(")")[0])

    low, high = ends(one)
    return any(low < end and begin < high for begin, end in map(ends, others))


def span(low: int, high: int) -> str:
    return f"FOR VALUES FROM ({low}) TO ({high})"


@pytest.mark.parametrize(
    ("key", "theirs", "ours", "missing"),
    [
        ("RANGE (id)", span(5, 10), [span(0, 5)], True),
        ("RANGE (id)", span(5, 10), [], True),
        ("RANGE (id)", span(5, 10), [span(0, 100)], False),
        ("RANGE (id)", span(5, 10), [span(0, 5), "DEFAULT"], False),
        ("RANGE (id)", "DEFAULT", [span(0, 5)], False),
        # Of two columns: their order is not known.
        ("RANGE (id, n)", "FOR VALUES FROM (1, 2) TO (3, 4)", [span(0, 1)], False),
        ("LIST (id)", "FOR VALUES IN ('a''b', NULL)", ["FOR VALUES IN ('b')"], True),
        ("LIST (id)", "FOR VALUES IN ('a''b', NULL)", ["FOR VALUES IN (NULL, 'c')"], False),
        ("HASH (id)", "FOR VALUES WITH (modulus 4, remainder 1)",
         ["FOR VALUES WITH (modulus 2, remainder 0)"], True),
        ("HASH (id)", "FOR VALUES WITH (modulus 4, remainder 3)",
         ["FOR VALUES WITH (modulus 2, remainder 1)"], False),
    ],
)  # fmt: skip
def test_a_partition_is_missing_where_none_may_take_its_rows(
    key: str, theirs: str, ours: list[str], missing: bool
) -> None:
    found = lacking(tree(key, theirs), tree(key, *ours), meets)
    assert found == ([(theirs,)] if missing else [])


def test_tables_with_other_keys_or_types_of_unknown_order_are_not_compared() -> None:
    one, other = span(5, 10), span(0, 5)
    assert not lacking(tree("RANGE (id)", one), tree("RANGE (n)", other), meets)
    assert not lacking(tree("RANGE (id)", one), {}, meets)
    unknown = tree("RANGE (id)", other, type=None)
    assert not lacking(tree("RANGE (id)", one), unknown, meets)
    # Of two types: bounds may not fit the other one, and texts of equal values differ.
    assert not lacking(tree("RANGE (id)", one, type="bigint"), tree("RANGE (id)", other), meets)
    one, other = "FOR VALUES IN (1.0)", "FOR VALUES IN (1)"
    key = "LIST (id)"
    assert not lacking(tree(key, one, lists=None), tree(key, other, lists=None), meets)
    assert not lacking(tree(key, one, lists="text"), tree(key, other, lists="date"), meets)
