"""``londiste.merge_on_time``: of several versions of a row the newest stays, in every order."""

from __future__ import annotations

import itertools
import json
from typing import Any

import psycopg
import pytest

from tests.fixtures.cluster import Database

SCHEMA = """
create table "Odd t" (
    a int, "b ""x" text, at timestamptz, doc jsonb, n int generated always as (a * 2) stored,
    primary key (a, "b ""x")
)
"""


def event(op: str, at: str | None, doc: str = "{}", **image: Any) -> tuple[str, str]:
    kind = {"op": op, "table": ["public", "Odd t"], "pkey": ["a", 'b "x']}
    row = {"a": 1, 'b "x': "k", "at": at, "doc": doc} | image
    return json.dumps(kind), json.dumps(row)


def merge(db: Database, kind: str, data: str, ev_time: str = "2026-06-01") -> str:
    conf = json.dumps({"timefield": "at", "table": "public.Odd t"})
    return str(
        db.value(
            "select londiste.merge_on_time(%s, 1, 1, %s, 1, null, %s, %s, null, null, null, null)",
            conf,
            ev_time,
            kind,
            data,
        )
    )


@pytest.fixture
def db(new_database: Any) -> Database:
    found: Database = new_database(pgq=True)
    found.execute(SCHEMA)
    return found


ROWS = 'select a, at::date::text, doc::text from "Odd t"'


def test_every_order_of_three_versions_gives_the_newest(db: Database) -> None:
    versions = [
        event("INSERT", "2026-01-01", '{"v": 1}'),
        event("UPDATE", "2026-01-03", '{"v": 3}'),
        event("UPDATE", "2026-01-02", '{"v": 2}'),
        event("UPDATE", None, '{"v": 0}'),
    ]
    for order in itertools.permutations(versions):
        db.execute('truncate "Odd t"')
        for one in order:
            merge(db, *one)
        assert db.execute(ROWS) == [(1, "2026-01-03", '{"v": 3}')]


def test_of_one_time_all_nodes_choose_the_same(db: Database) -> None:
    one, other = event("UPDATE", "2026-01-01", '{"v": 1}'), event("UPDATE", "2026-01-01", '"z"')
    found = []
    for order in ((one, other), (other, one)):
        db.execute('truncate "Odd t"')
        for each in order:
            merge(db, *each)
        found.append(db.execute(ROWS))
    assert found[0] == found[1]


def test_of_one_time_nodes_with_another_order_of_columns_choose_the_same(
    new_database: Any,
) -> None:
    kind = json.dumps({"op": "UPDATE", "table": ["public", "Odd t"], "pkey": ["a"]})
    versions = [
        json.dumps({"a": 1, "at": "2026-01-01", "b": b, "c": c}) for b, c in (("x", 1), ("w", 2))
    ]
    found = []
    for columns in ("b text, c int", "c int, b text"):
        db = new_database(pgq=True)
        db.execute(f'create table "Odd t" (a int primary key, at timestamptz, {columns})')
        for order in (versions, versions[::-1]):
            db.execute('truncate "Odd t"')
            for one in order:
                merge(db, kind, one)
            found.append(db.execute('select b, c from "Odd t"'))
    assert found == [[("x", 1)]] * 4


@pytest.mark.parametrize("base", ["jsonb", "json"])
def test_a_domain_over_json_gets_the_document(new_database: Any, base: str) -> None:
    db = new_database(pgq=True)
    db.execute(f"create domain first as {base}; create domain doc as first")
    db.execute('create table "Odd t" (a int primary key, at timestamptz, doc doc, list doc[])')
    kind = json.dumps({"op": "INSERT", "table": ["public", "Odd t"], "pkey": ["a"]})
    image = {"a": 1, "at": "2026-01-01", "doc": '{"v": 1}', "list": '{"{\\"w\\": 2}"}'}
    merge(db, kind, json.dumps(image))
    assert db.execute("select doc ->> 'v', list[1] ->> 'w' from \"Odd t\"") == [("1", "2")]


def test_a_delete_leaves_what_was_written_later(db: Database) -> None:
    merge(db, *event("INSERT", "2026-01-02"))
    assert merge(db, *event("DELETE", "2026-01-01")) == "older"
    assert merge(db, *event("DELETE", "2026-01-02")) == "deleted"
    merge(db, *event("INSERT", "2026-01-02"))
    kind, data = event("DELETE", None)
    key = json.dumps({k: v for k, v in json.loads(data).items() if k in ("a", 'b "x')})
    assert merge(db, kind, key, "2026-01-01") == "older"
    assert merge(db, kind, key, "2026-01-03") == "deleted"


def test_a_row_of_a_partition_is_deleted(db: Database) -> None:
    db.execute(
        'drop table "Odd t"; create table "Odd t" (a int, "b ""x" text, at timestamptz, doc jsonb,'
        ' primary key (a, "b ""x")) partition by range (a);'
        'create table part partition of "Odd t" default'
    )
    merge(db, *event("INSERT", "2026-01-02"))
    assert merge(db, *event("DELETE", "2026-01-02")) == "deleted"
    assert db.execute(ROWS) == []


def test_what_has_no_time_is_refused(db: Database) -> None:
    kind = json.dumps({"op": "TRUNCATE", "table": ["public", "Odd t"]})
    with pytest.raises(psycopg.Error, match="TRUNCATE"):
        merge(db, kind, "{}")
    kind, data = event("UPDATE", None)
    without = {k: v for k, v in json.loads(data).items() if k != "at"}
    with pytest.raises(psycopg.Error, match="does not contain column at"):
        merge(db, kind, json.dumps(without))


def test_a_column_that_the_table_lacks_is_an_error_and_no_loss(db: Database) -> None:
    kind, data = event("INSERT", "2026-01-01", extra="lost", more=None)
    with pytest.raises(psycopg.Error, match='"Odd t" has no column extra, more') as caught:
        merge(db, kind, data)
    assert caught.value.sqlstate == "LD005"
    assert db.execute(ROWS) == []
    assert merge(db, *event("INSERT", "2026-01-01")) == "written"
    kind, data = event("DELETE", "2026-01-02", extra="x")
    by_other = json.dumps({**json.loads(kind), "pkey": ["a", "c"]})
    with pytest.raises(psycopg.Error, match="has no column c"):
        merge(db, by_other, data)
    assert merge(db, kind, data) == "deleted"
