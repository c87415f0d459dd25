"""Handler ``shard``: every row is in exactly one part."""

from __future__ import annotations

import pytest

from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.handlers import condition
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


def test_a_key_whose_text_depends_on_the_session_is_refused_with_what_to_use(
    pgq_db: Database,
) -> None:
    pgq_db.execute(
        'create table t (id int primary key, "At" timestamptz, i interval, m money, d date)'
    )
    conn, table = pgq_db.connect(), TableName("public", "t")
    for check in (condition.check, condition.check_source):
        for key in ("At", "d", "i", "m"):
            with pytest.raises(BadOption, match=f"text of column {key} depends on") as caught:
                check(conn, table, Shard(nr=1, count=4, key=key).wants())
            assert "hash_expr" in caught.value.hint
            assert "now()" not in str(caught.value.hint)
        for given in (
            "timestamp_hash_extended(\"At\" at time zone 'UTC', 0)",
            "d - date '2000-01-01'",
            "interval_hash_extended(i, 0)",
        ):
            check(conn, table, Shard(nr=1, count=4, hash_expr=given).wants())
