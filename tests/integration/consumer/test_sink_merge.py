"""An epoch is merged into tables in one transaction; the last change of each key wins.

Spark's part is played by the test, as in test_sinks.py.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa
from pyspark.sql import types as t

from londiste.db.connection import Connection
from londiste.engine.spark.sink import change_rows, commit, merge, stage
from londiste.engine.spark.sink.options import parse_tables
from londiste.engine.spark.sink.stage import StagedMessage
from londiste.engine.spark.sink.table_sink import fitting
from londiste.engine.spark.stream.schema import arrow
from londiste.errors import BadOption, EventError, LondisteError, StateError, UnknownTable
from tests.fixtures.cluster import Database
from tests.support.suite.decoys import DECOYS

TYPES = {
    "int": t.IntegerType(),
    "long": t.LongType(),
    "text": t.StringType(),
    "double": t.DoubleType(),
    "dec": t.DecimalType(10, 4),
    "bool": t.BooleanType(),
    "at": t.TimestampType(),
    "local": t.TimestampNTZType(),
    "day": t.DateType(),
    "bin": t.BinaryType(),
    "ints": t.ArrayType(t.IntegerType()),
    "doc": t.MapType(t.StringType(), t.IntegerType()),
}
FEED = "_change_type text, _commit_version long, _event_id long"


@pytest.fixture
def pgq_db(cleared_pgq_db: Database) -> Database:
    """One database for all, cleared for each."""
    return cleared_pgq_db


def struct(columns: str) -> Any:
    pairs = [one.split() for one in columns.split(", ")]
    return t.StructType([t.StructField(name, TYPES[kind]) for name, kind in pairs])


class Query:
    """The part of Spark: tasks and commits of one query."""

    def __init__(self, database: Database, columns: str, **options: str) -> None:
        self.id, self.attempt = str(uuid4()), uuid4()
        self.schema = struct(columns)
        self.options = parse_tables({"dsn": database.dsn, **options}, stream=True)
        self.tables, self.columns = fitting(database.connect(), self.options, self.schema)

    def task(self, number: int, rows: Sequence[Sequence[Any]]) -> StagedMessage:
        fields = arrow(self.schema)
        arrays = [pa.array([row[n] for row in rows], f.type) for n, f in enumerate(fields)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=fields)
        cut = change_rows.chunks(self.options, self.schema, self.tables, [batch])
        return stage.stage(self.options, self.attempt, self.id, number, cut)

    def run(self, epoch: int, *parts: Sequence[Sequence[Any]], fail: bool = False) -> None:
        """An epoch, whose driver may die in front of COMMIT."""
        self.attempt = uuid4()
        messages = [self.task(number, rows) for number, rows in enumerate(parts)]

        def do(conn: Connection, chunks: Any) -> None:
            merge.write(conn, self.options, self.tables, self.columns, chunks)
            if fail:
                raise Died

        commit.write(self.options, "table t", self.attempt, messages, epoch, do)


class Died(Exception):
    """The driver is gone."""


def rows(database: Database, table: str = "t") -> list[tuple[Any, ...]]:
    return database.execute(f"select * from {table} order by 1")


def test_the_last_change_of_a_key_counts_wherever_it_stands(pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int primary key, v text, n int default 7)")
    pgq_db.execute("insert into t values (1, 'old', 1), (2, 'old', 2), (9, 'stays', 9)")
    query = Query(pgq_db, f"id int, v text, {FEED}", table="public.t")
    query.run(
        0,
        [
            (1, "last", "update_postimage", 3, 9),
            (2, None, "delete", 2, 4),
            (3, "a", "insert", 2, 5),
        ],
        [
            (1, "first", "update_postimage", 2, 3),
            (3, None, "delete", 2, 6),
            (4, "b", "insert", 2, 1),
        ],
        [(4, "old key", "update_preimage", 4, 1), (5, "new key", "update_postimage", 4, 1)],
    )
    # A column that the rows do not have stays as it is, or gets its default.
    assert rows(pgq_db) == [(1, "last", 1), (5, "new key", 7), (9, "stays", 9)]
    query.run(0, [(1, "last", "update_postimage", 3, 9)] * 8)
    query.run(1, [(2, "again", "insert", 5, 1), (2, "again", "insert", 5, 1)])
    assert rows(pgq_db)[1] == (2, "again", 7)


def test_what_does_not_tell_the_last_change_stops_and_nothing_is_done(pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int primary key, v text)")
    plain = Query(pgq_db, "id int, v text", table="t")
    with pytest.raises(StateError, match=r"table public\.t: several rows with one key") as caught:
        plain.run(0, [(1, "a"), (2, "b")], [(1, "c")])
    assert "_commit_version" in (caught.value.hint or "")
    with pytest.raises(StateError, match="row with NULL in key"):
        plain.run(0, [(None, "a")])
    feed = Query(pgq_db, f"id int, v text, {FEED}", table="t")
    with pytest.raises(EventError, match="_change_type truncate") as bad:
        feed.run(0, [(1, "a", "truncate", 1, 1)])
    assert bad.value.hint and rows(pgq_db) == []
    plain.run(0, [(1, "a"), (2, "b")], [(1, "a")])
    assert rows(pgq_db) == [(1, "a"), (2, "b")]


def test_a_delete_and_an_insert_of_one_key_need_an_order(pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int primary key, v text)")
    plain = Query(pgq_db, "id int, v text, _change_type text", table="t")
    for change in ([(1, "a", "insert")], [(1, None, "delete")]):
        with pytest.raises(StateError, match="several rows with one key") as caught:
            plain.run(0, [(2, "b", "insert"), *change], [(1, "a", "insert"), (1, None, "delete")])
        assert "_commit_version" in (caught.value.hint or "")
    assert rows(pgq_db) == []
    # Two deletes are one, and with an order a row may be deleted and inserted in one place.
    plain.run(0, [(2, "b", "insert"), (3, None, "delete")], [(3, None, "delete")])
    feed = Query(pgq_db, f"id int, v text, {FEED}", table="t")
    feed.run(1, [(1, None, "delete", 1, 1), (1, "c", "insert", 1, 1)])
    assert rows(pgq_db) == [(1, "c"), (2, "b")]


def test_an_operator_that_another_role_made_is_not_used(
    new_database: Callable[..., Database],
) -> None:
    database = new_database(pgq=True)
    database.execute("create table t (id varchar(9), no smallint, v text, primary key (id, no))")
    database.execute(DECOYS)
    query = Query(database, f"id text, no int, v text, {FEED}", table="public.t")
    query.run(0, [("a", 1, "x", "insert", 1, 1), ("b", 1, "x", "insert", 1, 2)])
    query.run(1, [("a", 1, "y", "update_postimage", 2, 1), ("b", 1, None, "delete", 2, 2)])
    unordered = Query(database, "id text, no int, v text", table="public.t")
    with pytest.raises(StateError, match="several rows with one key"):
        unordered.run(0, [("c", 1, "x")], [("c", 1, "z")])
    assert rows(database) == [("a", 1, "y")]


def test_every_type_comes_out_as_it_was(pgq_db: Database) -> None:
    pgq_db.execute("create domain name_d as text not null")
    pgq_db.execute(
        "create table t (id bigint primary key, v name_d, f float8, n numeric, b bool,"
        " at timestamptz, l timestamp, d date, x bytea, a int[], j jsonb, u uuid, arr text[],"
        " js json)"
    )
    columns = (
        "id long, v text, f double, n dec, b bool, at at, l local, d day, x bin, a ints, j doc,"
        " u text, arr text, js text"
    )
    query = Query(pgq_db, f"{columns}, _change_type text", table="t")
    from datetime import UTC, date, datetime
    from decimal import Decimal

    when = datetime(2026, 2, 3, 4, 5, 6, 7, UTC)
    uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    values = (
        *(1 << 62, 'é "\\ \n', 0.1, Decimal("1.5000"), True, when, when.replace(tzinfo=None)),
        *(
            date(2026, 1, 2),
            b"\x00\xff",
            [1, None],
            [("k", 5)],
            uuid,
            '{a,"b c",NULL}',
            '{"a" : 1}',
        ),
    )
    gone = (2, *(None,) * 13)
    query.run(0, [(*values, "insert"), (*gone, "delete")])
    (row,) = pgq_db.execute(
        "select id, v, f, n::text, b, at, l, d, x, a, j::text, u::text, arr, js::text from t"
    )
    wanted = list(values)
    wanted[3], wanted[10], wanted[12] = "1.5000", '{"k": 5}', ["a", "b c", None]
    assert list(row) == wanted


@pytest.mark.parametrize(
    ("columns", "options", "kind", "text"),
    [
        ("id int, w text", {"table": "t"}, BadOption, "no column w"),
        ("v text", {"table": "t"}, BadOption, "rows have no key column id"),
        ("id int, v int", {"table": "t"}, BadOption, "column v is text, in Spark int"),
        (
            "id int, n dec",
            {"table": "t"},
            BadOption,
            r"column n is numeric\(10,2\), in Spark decimal\(10,4\)",
        ),
        (
            "id int, at local",
            {"table": "t"},
            BadOption,
            "column at is timestamp with time zone, in Spark timestamp_ntz",
        ),
        ("id int, g int", {"table": "t"}, BadOption, "table public.t: column g is generated"),
        ("id int", {"table": "nope"}, UnknownTable, "table public.nope: does not exist"),
        ("a int", {"table": "keyless"}, BadOption, "no primary key, required by mode=merge"),
        ("id int", {"tables": "t"}, BadOption, "payload=typed: requires option table"),
        ("id int", {"table": "t", "payload": "json"}, BadOption, "requires a column row"),
        ("row text", {"tables": "t", "payload": "json"}, BadOption, "requires a column _table"),
        (
            "row text, _table text",
            {"table": "t", "payload": "json"},
            BadOption,
            "rows with a column _table",
        ),
        ("id int", {}, BadOption, "table, tables: exactly one"),
    ],
)
def test_columns_that_do_not_fit_are_refused_at_the_start(
    pgq_db: Database, columns: str, options: dict[str, str], kind: type[LondisteError], text: str
) -> None:
    pgq_db.execute(
        "create table t (id int primary key, v text, n numeric(10,2), at timestamptz,"
        " g int generated always as (id + 1) stored)"
    )
    pgq_db.execute("create table keyless (a int)")
    with pytest.raises(kind, match=text) as caught:
        Query(pgq_db, columns, **options)
    assert caught.value.hint


def test_rows_are_appended_as_they_are(pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int, v text, _change_type text)")
    query = Query(pgq_db, "id int, v text, _change_type text", table="t", mode="append")
    query.run(0, [(1, "a", "insert"), (1, "a", "insert")], [(1, None, "delete")])
    query.run(0, [(1, "a", "insert")] * 3)
    assert rows(pgq_db) == [(1, "a", "insert"), (1, "a", "insert"), (1, None, "delete")]


def test_rows_of_several_tables_go_where_the_mapping_says(pgq_db: Database) -> None:
    pgq_db.execute("create table a (id int primary key, v text); create schema s")
    pgq_db.execute("create table s.b (id int primary key, j jsonb, n int)")
    query = Query(
        pgq_db,
        f"_table text, row text, {FEED}",
        tables="public.a, public.x=s.b",
        payload="json",
    )
    query.run(
        0,
        [
            ("public.a", '{"id":1,"v":"a"}', "insert", 1, 1),
            ("public.x", '{"id":1,"j":"{\\"k\\": 1}","n":3}', "insert", 1, 2),
        ],
        [("public.a", '{"id":2,"v":null}', "insert", 1, 3)],
    )
    assert rows(pgq_db, "a") == [(1, "a"), (2, None)]
    assert rows(pgq_db, "s.b") == [(1, {"k": 1}, 3)]
    with pytest.raises(EventError, match=r"_table public\.y: not in option tables"):
        query.run(1, [("public.y", "{}", "insert", 2, 4)])
    parts = [
        [
            ("public.a", '{"id":1}', "delete", 2, 5),
            ("public.x", '{"id":2,"j":null}', "insert", 2, 6),
        ],
        [("public.x", '{"id":3,"j":null,"n":4}', "insert", 2, 7)],
    ]
    with pytest.raises(StateError, match=r"table s\.b: rows have different columns") as caught:
        query.run(1, *parts)
    assert "missingColumns=null" in (caught.value.hint or "")
    assert rows(pgq_db, "a") == [(1, "a"), (2, None)]
    filling = Query(
        pgq_db,
        f"_table text, row text, {FEED}",
        tables="public.a, public.x=s.b",
        payload="json",
        missingColumns="null",
    )
    filling.run(0, *parts)
    assert rows(pgq_db, "a") == [(2, None)]
    assert rows(pgq_db, "s.b")[1:] == [(2, None, None), (3, None, 4)]
    with pytest.raises(EventError, match="not a JSON object"):
        filling.run(1, [("public.a", None, "insert", 3, 8)])


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 50))]
)
def test_random_changes_end_in_the_state_of_their_source(pgq_db: Database, seed: int) -> None:
    pgq_db.execute("create table t (id int primary key, v text)")
    chance = random.Random(seed)
    query = Query(pgq_db, f"id int, v text, {FEED}", table="t")
    state: dict[int, str] = {}
    event = 0
    for epoch in range(5):
        told: list[tuple[Any, ...]] = []
        for version in range(epoch * 3, epoch * 3 + 3):
            for _ in range(chance.randint(0, 25)):
                event += 1
                key, text = chance.randint(1, 12), f"{event}{'x' * chance.choice((0, 3000))}"
                if key not in state:
                    state[key] = text
                    told.append((key, text, "insert", version, event))
                elif chance.random() < 0.3:
                    del state[key]
                    told.append((key, None, "delete", version, event))
                elif chance.random() < 0.3 and (other := chance.randint(1, 12)) not in state:
                    # A key is updated: the old one goes, the new one comes.
                    del state[key]
                    state[other] = text
                    told.append((key, None, "delete", version, event))
                    event += 1
                    told.append((other, text, "insert", version, event))
                else:
                    state[key] = text
                    told.append((key, text, "update_postimage", version, event))
        chance.shuffle(told)
        parts = [told[n::3] for n in range(3)]
        if chance.random() < 0.5:
            with pytest.raises(Died):
                query.run(epoch, *parts, fail=True)
        for _ in range(chance.choice((1, 1, 2))):
            query.run(epoch, *parts)
        assert dict(rows(pgq_db)) == state
    assert pgq_db.value(
        "select count(*) = 0 from pg_class where relname like 'staged%%' and relkind = 'r'"
    )


@pytest.mark.parametrize("payload", ["typed", "json"])
def test_rows_that_leave_the_condition_are_deleted(pgq_db: Database, payload: str) -> None:
    pgq_db.execute(
        "create schema own; create function own.is_north(text) returns bool language sql as"
        " $$ select $1 = 'north' $$;"
        " create table t (id int primary key, region text, n int default 7)"
    )
    given = {"table": "t", "where": "own.is_north(region) -- of a table"}
    if payload == "json":
        query = Query(pgq_db, f"row text, {FEED}", payload="json", **given)
    else:
        query = Query(pgq_db, f"id int, region text, {FEED}", **given)
    chance = random.Random(5)
    state: dict[int, str | None] = {}
    event = 0
    for epoch in range(12):
        told: list[tuple[Any, ...]] = []
        for _ in range(chance.randint(1, 25)):
            key, region = chance.randint(1, 15), chance.choice(["north", "south", None])
            event += 1
            if key in state and chance.random() < 0.3:
                del state[key]
                row: tuple[Any, ...] = (key, None, "delete")
            else:
                kind = "update_postimage" if key in state else "insert"
                state[key], row = region, (key, region, kind)
            if payload == "json":
                document = {"id": key} if row[2] == "delete" else {"id": key, "region": region}
                row = (json.dumps(document), row[2])
            told.append((*row, epoch, event))
        chance.shuffle(told)
        query.run(epoch, told[::2], told[1::2])
        north = [(key, "north", 7) for key in sorted(state) if state[key] == "north"]
        assert rows(pgq_db) == north
    assert len(state) > len(north) > 1


def test_a_condition_that_cannot_be_evaluated_is_refused_at_the_start(pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int primary key, region text)")
    for condition, text in (
        ("area = 'north'", 'column "area" does not exist'),
        ("region", "argument of WHERE must be type boolean"),
        ("region =", "syntax error"),
        ("true) or (true", "syntax error"),
        ("true); drop table t; select (true", "cannot insert multiple commands"),
    ):
        with pytest.raises(BadOption, match=f"where: condition cannot be evaluated: {text}"):
            Query(pgq_db, f"id int, region text, {FEED}", table="t", where=condition)
    for more, text in (
        ({"mode": "append", "table": "t"}, "mode=append"),
        ({"tables": "t"}, "tables"),
    ):
        options = {"payload": "json", "where": "true", **more}
        with pytest.raises(BadOption, match=f"where: not supported with {text}"):
            Query(pgq_db, f"row text, {FEED}", **options)
