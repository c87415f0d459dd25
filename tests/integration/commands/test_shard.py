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


#: Of each type some values: those whose text differs from what the type prints, and domains.
KEYS = {
    "boolean": "(true), (false)",
    "character(5)": "('ab'), ('')",
    "inet": "('10.0.0.1'), ('10.0.0.0/8'), ('::1')",
    "cidr": "('10.0.0.0/8')",
    '"char"': "('x'), ('')",
    "name": "('n')",
    "numeric": "(1.50), ('nan')",
    "timestamptz": "('2026-01-02 03:04:05+01')",
    "bytea": "('a'), ('')",
    "text[]": "('{a,\"b c\",null}')",
    "jsonb": """('{"a": 1}')""",
    "public.mood": "('glad')",
    "public.yes": "(true)",
    "public.host": "('10.0.0.1')",
    "public.code": "('ab')",
}
TYPES = """
    create type public.mood as enum ('sad', 'glad');
    create domain public.yes as boolean;
    create domain public.host as inet;
    create domain public.code as character(5);
"""


def test_the_hash_is_that_of_the_text_of_every_type(pgq_db: Database) -> None:
    pgq_db.execute(TYPES)
    shard = Shard(nr=0, count=1, key="k")
    for kind, values in KEYS.items():
        pgq_db.execute("drop table if exists public.t")
        pgq_db.execute(f"create table public.t (k {kind})")
        pgq_db.execute(f"insert into public.t values {values}, (null)")
        base = {"public.yes": "boolean", "public.host": "inet", "public.code": "character(5)"}
        # A comparison reads a domain as the type below it.
        for read in (kind, base.get(kind, kind)):
            found = pgq_db.execute(
                f'select {shard._hash()}, hashtextextended(k::text collate "C", 0)'
                f" from (select k::{read} as k from public.t) t"
            )
            assert [left for left, _ in found] == [right for _, right in found], (kind, read)
            assert sum(left is None for left, _ in found) == 1, kind


def test_the_hash_calls_no_cast_of_the_owner_of_a_type(pgq_db: Database) -> None:
    pgq_db.execute(TYPES)
    pgq_db.execute(
        "create function public.evil(public.mood) returns text language plpgsql immutable"
        " as 'begin raise exception ''called''; end';"
        "create cast (public.mood as text) with function public.evil(public.mood);"
        "create table public.t (k public.mood); insert into public.t values ('glad')"
    )
    where = Shard(nr=0, count=1, key="k").wants().where
    assert pgq_db.value(f"select count(*) from public.t where {where}") == 1
