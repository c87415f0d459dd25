"""Handler ``shard``: every row is in exactly one part."""

from __future__ import annotations

import pytest

from londiste.handlers.shard import Shard
from tests.fixtures.cluster import Database

ROWS = "(values (null), ('a'), ('b'), ('c'), ('d'), ('')) as t (k)"


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("given", [{"key": "k"}, {"hash_expr": "hashtext(k)"}])
def test_each_row_is_in_one_part(pgq_db: Database, count: int, given: dict[str, str]) -> None:
    parts = []
    for number in range(count):
        where = Shard(nr=number, count=count, **given).wants().where
        parts.append(pgq_db.execute(f"select k from {ROWS} where {where}"))
    assert sorted(str(row) for part in parts for row in part) == sorted(
        str(row) for row in pgq_db.execute(f"select k from {ROWS}")
    )
    assert (None,) in parts[0]
