"""Events are decoded to changes; malformed events cause errors that name them."""

from __future__ import annotations

import json
import urllib.parse
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from londiste.changes.decode import decode, decode_all, singles
from londiste.changes.keyed import columns_digest, read_type
from londiste.changes.types import (
    ExecuteScript,
    Op,
    RowChange,
    SystemEvent,
    Truncate,
)
from londiste.db.names import TableName
from londiste.errors import EventError
from londiste.pgq.types import Event

FRUIT = TableName("public", "fruit")


def event(
    type_: str | None,
    data: str | None,
    extra1: str | None = "public.fruit",
    extra2: str | None = None,
) -> Event:
    return Event(
        4711, datetime(2024, 1, 1, tzinfo=UTC), 99, None, type_, data, extra1, extra2, None, None
    )


def change(op: Op, key: tuple[str, ...], image: dict[str, str | None], partial: bool = False):
    return RowChange(4711, 99, FRUIT, op, key, image, partial)


def header(op: str = "INSERT", key: tuple[str, ...] = ("id",)) -> str:
    return json.dumps({"op": op, "table": ["public", "fruit"], "pkey": list(key)})


@pytest.mark.parametrize(
    ("type_", "data", "expected"),
    [
        (
            "I",
            "(id,region,name,qty) values ('1','eu',E'O''Brien\\\\tab',null)",
            change(Op.INSERT, (), {"id": "1", "region": "eu", "name": "O'Brien\\tab", "qty": None}),
        ),
        (
            "U",
            "name='plum',ok=NULL where id='1' and region='eu'",
            change(
                Op.UPDATE,
                ("id", "region"),
                {"id": "1", "region": "eu", "name": "plum", "ok": None},
                partial=True,
            ),
        ),
        ("U", "id='2' where id='2'", change(Op.UPDATE, ("id",), {"id": "2"}, partial=True)),
        ("D", "id='2' and r is null", change(Op.DELETE, ("id", "r"), {"id": "2", "r": None})),
        (
            "I",
            "(\"Sel\"\"ect\", a$1, Été) VALUES ('', 'a,b)', 'where')",
            change(Op.INSERT, (), {'Sel"ect': "", "a$1": "a,b)", "Été": "where"}),
        ),
        (
            "U:id, region",
            "id=1&region=eu&note",
            change(Op.UPDATE, ("id", "region"), {"id": "1", "region": "eu", "note": None}),
        ),
        (
            "D:my key,a\tb",
            "my+key=1&a=2&b=3",
            change(Op.DELETE, ("my key", "a", "b"), {"my key": "1", "a": "2", "b": "3"}),
        ),
        (
            "I:id,region",
            "id=1&region=eu&name=kiwi+%26+lime&qty&note=",
            change(
                Op.INSERT,
                ("id", "region"),
                {"id": "1", "region": "eu", "name": "kiwi & lime", "qty": None, "note": ""},
            ),
        ),
        ("U:a,b,c", "a%2cb=1&c=2", change(Op.UPDATE, ("a,b", "c"), {"a,b": "1", "c": "2"})),
        ("I:", "a=1", change(Op.INSERT, (), {"a": "1"})),
        (
            header("UPDATE"),
            '{"id":9007199254740993,"p":1.50,"big":1e400,"t":true,"f":false,"n":null,"s":"\\u00e9"}',
            change(
                Op.UPDATE,
                ("id",),
                {
                    "id": "9007199254740993",
                    "p": "1.50",
                    "big": "1e400",
                    "t": "t",
                    "f": "f",
                    "n": None,
                    "s": "é",
                },
            ),
        ),
        (header("INSERT", ()), "{}", change(Op.INSERT, (), {})),
        ("R", "", Truncate(4711, 99, FRUIT)),
        (header("TRUNCATE"), "{}", Truncate(4711, 99, FRUIT)),
        (
            "londiste.add-table",
            "public.x",
            SystemEvent(4711, 99, "londiste.add-table", "public.x", "public.fruit", None, None),
        ),
        (
            "pgq.tick-id",
            None,
            SystemEvent(4711, 99, "pgq.tick-id", None, "public.fruit", None, None),
        ),
        ("EXECUTE", "select 1", ExecuteScript(4711, 99, "public.fruit", "select 1", None)),
    ],
)
def test_every_form_of_event_becomes_its_change(type_, data, expected):
    assert decode(event(type_, data)) == expected


def test_a_table_without_schema_is_in_public():
    assert decode(event("R", "", "fruit")).table == FRUIT


def test_the_registered_name_wins_over_the_table_of_the_trigger():
    renamed = decode(event(header(), '{"id":1}', "sales.fruit"))
    assert renamed.table == TableName("sales", "fruit")


def test_without_a_registered_name_the_table_of_the_json_type_counts():
    assert decode(event(header(), '{"id":1}', None)).table == FRUIT


HOSTILE = [
    (None, "x"),
    ("", "x"),
    ("X", "x"),
    ("I;", "x"),
    ("I", None),
    ("I", ""),
    ("I", "(id) values ('1'); drop table fruit"),
    ("I", "(id) values ('1') -- comment"),
    ("I", "(id) values ((select password from users))"),
    ("I", "(id) values (current_user)"),
    ("I", "(id,id) values ('1','2')"),
    ("I", "(id) values ('1','2')"),
    ("I", "(id) values (E'\\x41')"),
    ("I", "(id) values ('1"),
    ("I", "(id) values ($$1$$)"),
    ("I", "(id) values ('a\0b')"),
    ("U", "name='x'"),
    ("U", "name='x' where true"),
    ("U", "name='x' where id='1' or '1'='1'"),
    ("U", "name='x',name='y' where id='1'"),
    ("U", "id='2' where id='1'"),
    ("D", "id='1' and id='2'"),
    ("D", "id in ('1')"),
    ("D", ""),
    ("I:id", "x=1"),
    ("D:", "id=1"),
    ("I:id", "id=%4"),
    ("I:id", "id=%ff"),
    ("I:id", "id=%00"),
    ("I:id", "id=1&id=2"),
    ("I:id", "id=1&=2"),
    ("{", "{}"),
    ("{}", "{}"),
    ('{"op":"DROP","table":["a","b"],"pkey":[]}', "{}"),
    ('{"op":["INSERT"],"table":["a","b"],"pkey":[]}', "{}"),
    ('{"op":"INSERT","table":"fruit","pkey":[]}', "{}"),
    ('{"op":"INSERT","table":["a"],"pkey":[]}', "{}"),
    ('{"op":"INSERT","table":["a",1],"pkey":[]}', "{}"),
    ('{"op":"INSERT","table":["a","b"],"pkey":"id"}', "{}"),
    ('{"op":"INSERT","table":["a","b"]}', "{}"),
    ('{"op":"UPDATE","table":["a","b"],"pkey":[]}', '{"id":1}'),
    ('{"op":' + "[" * 100_000, "{}"),
    ('{"op":"INSERT","op":"DELETE","table":["a","b"],"pkey":["id"]}', '{"id":1}'),
    (header(), "[1]"),
    (header(), "1"),
    (header(), '{"id":'),
    (header(), '{"id":{"a":1}}'),
    (header(), '{"id":[1]}'),
    (header(), '{"id":1,"id":2}'),
    (header(), '{"x":1}'),
    (header(), '{"id":NaN}'),
    (header(), '{"id":"\\u0000"}'),
    (header(), '{"id":"\\ud800"}'),
    (header(), '{"id":' + '{"a":' * 200_000),
    (header(), None),
    ("EXECUTE", None),
    ("I:" + "x" * 300_000, "x=1"),
]


@pytest.mark.parametrize(("type_", "data"), HOSTILE)
def test_anything_else_is_an_event_error_that_names_the_event(type_, data):
    with pytest.raises(EventError) as caught:
        decode(event(type_, data))
    assert caught.value.event_id == 4711
    assert "4711" in caught.value.message
    assert caught.value.hint
    assert len(caught.value.detail) < 500


@pytest.mark.parametrize("name", [None, "", ".x", "a.", "a\0b", "x" * 5000])
def test_a_bad_table_name_is_an_event_error(name):
    with pytest.raises(EventError):
        decode(event("R", "", name))


def keyed(op: str = "INSERT", *, key: tuple[str, ...] = ("id",), **more: object) -> str:
    what = {"op": op, "table": ["public", "fruit"], "pkey": list(key), "row": "3fa9c1d2", **more}
    return json.dumps(what, separators=(",", ":"))


def test_a_keyed_type_says_everything_but_the_row():
    kind = keyed("DELETE", key=("id", "region"), state=True, pack=True)
    assert read_type(kind) == (
        Op.DELETE,
        "public.fruit",
        ("id", "region"),
        "3fa9c1d2",
        True,
        True,
    )
    assert read_type(keyed("UPDATE")) == (
        Op.UPDATE,
        "public.fruit",
        ("id",),
        "3fa9c1d2",
        False,
        False,
    )


@pytest.mark.parametrize(
    "kind", [None, "I", "U:id", header(), '{"op"', keyed("TRUNCATE"), "{" * 300_000]
)
def test_other_types_are_not_keyed(kind):
    assert read_type(kind) is None


def test_the_digest_is_that_of_the_names_joined_by_commas():
    assert columns_digest(["id", "region"]) == "3c863585"


def test_a_keyed_event_is_decoded_like_an_ordinary_one():
    found = decode(event(keyed(), '{"id":1,"name":"kiwi"}'))
    assert found == change(Op.INSERT, ("id",), {"id": "1", "name": "kiwi"})


def test_an_event_about_a_state_says_so():
    there = decode(event(keyed(state=True), '{"id":1}'))
    gone = decode(event(keyed("DELETE", state=True), '{"id":1}'))
    assert isinstance(there, RowChange) and isinstance(gone, RowChange)
    assert (there.op, there.state) == (Op.INSERT, True)
    assert (gone.op, gone.state) == (Op.DELETE, True)


PACKED = '{"id":1,"name":"a\\nb"}\n{"id":2,"name":null}'


def test_a_packed_event_is_one_change_for_each_line():
    found = list(decode_all(event(keyed("UPDATE", pack=True), PACKED)))
    assert found == [
        change(Op.UPDATE, ("id",), {"id": "1", "name": "a\nb"})._replace(row=1),
        change(Op.UPDATE, ("id",), {"id": "2", "name": None})._replace(row=2),
    ]
    assert [one.address for one in found if isinstance(one, RowChange)] == ["4711:1", "4711:2"]


def test_a_packed_event_can_be_taken_apart_into_plain_ones():
    packed = event(keyed(pack=True), PACKED, extra2="x\ny")._replace(extra3="1\n2")
    one, two = singles(packed)
    assert [one.data, two.data] == PACKED.split("\n")
    assert (one.type, one.extra2, one.extra3) == (keyed(), "x", "1")
    assert (two.type, two.extra2, two.extra3) == (keyed(), "y", "2")
    assert list(singles(one)) == [one]


def test_a_packed_event_with_too_few_keys_is_an_error():
    with pytest.raises(EventError, match="different numbers of rows"):
        list(singles(event(keyed(pack=True), PACKED)._replace(extra3="1")))


def test_one_change_is_not_taken_from_a_packed_event():
    with pytest.raises(EventError, match="packed"):
        decode(event(keyed(pack=True), PACKED))


@pytest.mark.parametrize(
    "kind",
    [
        keyed(row="3FA9C1D2"),
        keyed(row="3fa9c1d"),
        keyed(row=7),
        keyed(state="yes"),
        keyed(pack=1),
        keyed("UPDATE", state=True),
        keyed(key=(), state=True),
        keyed("TRUNCATE", pack=True),
    ],
)
def test_a_keyed_type_that_is_not_exactly_so_is_an_error(kind):
    with pytest.raises(EventError, match="in its type"):
        decode(event(kind, '{"id":1}'))


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=10
)
ROWS = st.dictionaries(NAMES, st.none() | TEXT, min_size=1, max_size=6)


def encoded(text: str) -> str:
    return urllib.parse.quote_plus(text.encode(), safe="_.-").replace("~", "%7e")


def literal(text: str) -> str:
    if "\\" in text:
        return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"


def name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@settings(max_examples=300)
@given(ROWS)
def test_a_row_survives_url_encoding(row):
    data = "&".join(
        encoded(key) + ("" if value is None else "=" + encoded(value)) for key, value in row.items()
    )
    decoded = decode(event("I:", data))
    assert isinstance(decoded, RowChange)
    assert decoded.image == row


@settings(max_examples=300)
@given(ROWS)
def test_a_row_survives_json(row):
    decoded = decode(event(header("INSERT", ()), json.dumps(row)))
    assert isinstance(decoded, RowChange)
    assert decoded.image == row


@settings(max_examples=300)
@given(ROWS)
def test_a_row_survives_an_sql_fragment(row):
    columns = ",".join(name(key) for key in row)
    values = ",".join("null" if value is None else literal(value) for value in row.values())
    decoded = decode(event("I", f"({columns}) values ({values})"))
    assert isinstance(decoded, RowChange)
    assert decoded.image == row


@settings(max_examples=300)
@given(ROWS, st.data())
def test_a_partial_update_survives_an_sql_fragment(row, data):
    keys = data.draw(st.lists(st.sampled_from(sorted(row)), min_size=1, unique=True))
    where = " and ".join(
        name(key) + (" is null" if row[key] is None else "=" + literal(row[key] or ""))
        for key in keys
    )
    changed = ",".join(
        name(key) + "=" + ("NULL" if value is None else literal(value))
        for key, value in row.items()
    )
    decoded = decode(event("U", f"{changed} where {where}"))
    assert isinstance(decoded, RowChange)
    assert decoded.partial
    assert decoded.image == row
    assert set(decoded.key) == set(keys)


@settings(max_examples=500)
@given(
    st.sampled_from(["I", "U", "D", "R", "I:id", "U:id", "D:id", header(), header("DELETE")])
    | TEXT,
    TEXT | st.text(alphabet="id='\"(),ENULand where%+&{}[]:\\01", max_size=60),
)
def test_random_text_never_gives_another_error(type_, data):
    try:
        decode(event(type_, data))
    except EventError as error:
        assert error.event_id == 4711
