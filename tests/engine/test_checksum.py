"""Table comparison: the contract of every engine."""

from __future__ import annotations

import itertools

import pytest

from londiste.db.names import TableName
from londiste.engine.base import Engine
from londiste.engine.row_hash import form_of, row_sql
from tests.engine.conftest import LOCAL_FIRST, Pair
from tests.fixtures.cluster import Database

TABLE = TableName("public", "t")

SAME = "insert into public.t values (1, 'a', 0.5), (2, 'b', null), (3, null, 1.5), (4, '', 2.5)"


def differs(carrier: Engine, pair: Pair) -> bool:
    found = {
        c.side: (c.rows, c.sum1, c.sum2)
        for c in carrier.checksum([pair.compare("source", TABLE), pair.compare("target", TABLE)], 2)
    }
    return found["source"] != found["target"]


@pytest.fixture
def equal(pair: Pair) -> Pair:
    pair.both("create table public.t (id int8, v text, f float8)")
    pair.both(SAME)
    return pair


def test_equal_tables_are_equal_whatever_the_order_of_rows(carrier: Engine, equal: Pair) -> None:
    equal.target.execute("update public.t set v = v where id = 1")
    equal.target.execute("create index i on public.t (id desc); cluster public.t using i")
    assert not differs(carrier, equal)


@LOCAL_FIRST
@pytest.mark.parametrize(
    "change",
    [
        "delete from public.t where id = 1",
        "insert into public.t select * from public.t where id = 1",
        # a pair that is there twice on one side and once more instead of another row
        "delete from public.t where id = 2;"
        " insert into public.t select * from public.t where id = 1",
        "update public.t set v = '' where v is null",
        "update public.t set v = null where v = ''",
        "update public.t set id = id # 1 where id = 4",
        "update public.t set f = 0.5000000000000001 where id = 1",
        # two rows swap a value
        "update public.t set v = case id when 1 then 'b' else 'a' end where id in (1, 2)",
        "update public.t set v = v || ' ' where id = 1",
    ],
)
def test_a_difference_is_found(carrier: Engine, equal: Pair, change: str) -> None:
    equal.target.execute(change)
    assert differs(carrier, equal)


@LOCAL_FIRST
def test_text_does_not_depend_on_the_databases_settings(carrier: Engine, pair: Pair) -> None:
    pair.both("create table public.t (a timestamptz, b interval, c float8, d bytea, e date)")
    pair.both(
        "insert into public.t values"
        " ('2024-02-03 04:05:06+00', '1 mon -3 days', 0.1::float8 + 0.2, '\\x00ff', '2024-02-03')"
    )
    for setting in (
        "datestyle = 'SQL, DMY'",
        "intervalstyle = 'iso_8601'",
        "timezone = 'Asia/Kolkata'",
        "extra_float_digits = -3",
        "bytea_output = 'escape'",
    ):
        pair.target.execute(f'alter database "{pair.target.name}" set {setting}')
    assert not differs(carrier, pair)


def test_only_rows_of_the_snapshot_count(carrier: Engine, equal: Pair) -> None:
    specs = [equal.compare("source", TABLE), equal.compare("target", TABLE)]
    equal.target.execute("delete from public.t")
    source, target = sorted(carrier.checksum(specs, 2), key=lambda c: c.side)
    assert (source.rows, source.sum1, source.sum2) == (target.rows, target.sum1, target.sum2)


@LOCAL_FIRST
@pytest.mark.parametrize(
    "change",
    [
        "truncate public.t",
        "alter table public.t alter a type text",
        "drop table public.t; create table public.t (a int)",
    ],
)
def test_rows_that_were_taken_from_the_snapshot_are_not_counted(
    carrier: Engine, pair: Pair, change: str
) -> None:
    pair.both("create table public.t (a int); insert into public.t values (1), (2)")
    spec = pair.compare("source", TABLE)
    (before,) = carrier.checksum([spec], 2)
    assert (before.rows, before.moved) == (2, False)
    pair.source.execute(change)
    (after,) = carrier.checksum([spec], 2)
    assert (after.rows, after.moved) == (0, True)


@LOCAL_FIRST
def test_an_empty_table_has_no_rows_and_zero_sums(carrier: Engine, pair: Pair) -> None:
    pair.both("create table public.t (id int8)")
    (found,) = carrier.checksum([pair.compare("source", TABLE)], 2)
    assert (found.rows, found.sum1, found.sum2) == (0, 0, 0)


#: Values that a careless form of a row's text would mix up: separators, marks of NULL, lengths.
_TEXTS = [
    "null",
    "''",
    "'!tf'",
    "'1'",
    r"E'\x01'",
    r"E'a\x01'",
    r"E'\x01a'",
    "'a'",
    r"E'1\x01a'",
    "' '",
]
_VALUES = {
    "bigint": ["null", "1", "11"],
    "boolean": ["null", "true"],
    "character": ["null", "'a'", "' '"],
    "text": _TEXTS,
    "character varying": _TEXTS,
    "text[]": ["null", "'{}'", "'{NULL}'", r"array[E'\x01', 'a']", r"array[E'\x01a', '']"],
    '"char"': ["null", "''", r"E'\x01'"],
}


@pytest.mark.parametrize(
    "types",
    [
        ["bigint", "text", "character varying"],
        ["text", "character", "bigint", "text[]"],
        ["text", "boolean", "character varying", '"char"'],
        ["bigint", "text[]", '"char"', "text"],
        ["bigint", "text[]", "text[]"],
        ["text", "character varying"],
        ["bigint"],
    ],
    ids=lambda types: "-".join(name.partition(" ")[0].strip('"') for name in types),
)
def test_rows_have_the_same_text_if_their_values_are_the_same(
    cleared: Database, types: list[str]
) -> None:
    names = [f"c{n}" for n in range(len(types))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
    cleared.execute(f"create table public.t ({columns})")
    rows = list(itertools.product(*(_VALUES[kind] for kind in types)))
    cleared.execute(
        "insert into public.t values " + ", ".join(f"({', '.join(row)})" for row in rows)
    )
    text = row_sql(names, [form_of(kind) for kind in types])
    found = cleared.execute(f'select count(*), count(distinct {text} collate "C") from public.t')
    assert found == [(len(rows), len(rows))]


def test_a_row_of_many_columns_has_a_text(cleared: Database) -> None:
    for count in (45, 46, 300):
        names = [f"c{n}" for n in range(count)]
        text = row_sql(names, [("text", "plain", "other")[n % 3] for n in range(count)])
        values = ", ".join(f"'{n}'::text as {name}" for n, name in enumerate(names))
        assert cleared.execute(f"select {text} is null from (select {values}) t") == [(False,)]
