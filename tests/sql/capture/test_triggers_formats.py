"""Output of the three change-log triggers, byte for byte."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.values import quoted, usable
from tests.support.queue_events import Fields, take_events, writer

FRUIT = """
select pgq.create_queue('q');
create table fruit (
    id int4, region text, name text, qty int8, price numeric, ok bool, tags text[], doc json,
    made timestamptz, d date, f float8, primary key (id, region));
create trigger a after insert or update or delete on fruit
    for each row execute function pgq.{trigger}('q');
create trigger b after truncate on fruit for each statement execute function pgq.{trigger}('q');
insert into fruit values (1, 'eu', 'kiwi & lime', 3, 1.50, true, '{{a,"b c"}}', '{{"x": 1}}',
    '2024-02-03 04:05:06.7+00', '2024-02-03', 1.25);
insert into fruit (id, region, name) values (2, 'eu', e'O''Brien\\\\tab');
update fruit set name = 'plum', ok = false where id = 1;
update fruit set name = null where id = 1;
update fruit set name = '' where id = 2;
update fruit set name = name where id = 2;
delete from fruit where id = 2;
truncate fruit;
"""

REST = "qty&price&ok&tags&doc&made&d&f"
LONG = (
    "qty=3&price=1.50&ok={ok}&tags=%7ba%2c%22b+c%22%7d&doc=%7b%22x%22%3a+1%7d"
    "&made=2024-02-03+04%3a05%3a06.7%2b00&d=2024-02-03&f=1.25"
)
JSON_REST = (
    '"qty":null,"price":null,"ok":null,"tags":null,"doc":null,"made":null,"d":null,"f":null}'
)
JSON_LONG = (
    '"qty":3,"price":"1.50","ok":%s,"tags":"{a,\\"b c\\"}","doc":"{\\"x\\": 1}",'
    '"made":"2024-02-03T04:05:06.7+00:00","d":"2024-02-03","f":"1.25"}'
)


def json_type(op: str) -> str:
    return f'{{"op":"{op}","table":["public","fruit"],"pkey":["id","region"]}}'


EXPECTED: dict[str, list[tuple[str, str]]] = {
    "sqltriga": [
        (
            "I",
            "(id,region,name,qty,price,ok,tags,doc,made,d,f) values ('1','eu','kiwi & lime','3',"
            "'1.50','t','{a,\"b c\"}','{\"x\": 1}','2024-02-03 04:05:06.7+00','2024-02-03','1.25')",
        ),
        (
            "I",
            "(id,region,name,qty,price,ok,tags,doc,made,d,f) values ('2','eu',E'O''Brien\\\\tab',"
            "null,null,null,null,null,null,null,null)",
        ),
        ("U", "name='plum',ok='f' where id='1' and region='eu'"),
        ("U", "name=NULL where id='1' and region='eu'"),
        ("U", "name='' where id='2' and region='eu'"),
        ("U", "id='2' where id='2' and region='eu'"),
        ("D", "id='2' and region='eu'"),
        ("R", ""),
    ],
    "logutriga": [
        ("I:id,region", "id=1&region=eu&name=kiwi+%26+lime&" + LONG.format(ok="t")),
        ("I:id,region", "id=2&region=eu&name=O%27Brien%5ctab&" + REST),
        ("U:id,region", "id=1&region=eu&name=plum&" + LONG.format(ok="f")),
        ("U:id,region", "id=1&region=eu&name&" + LONG.format(ok="f")),
        ("U:id,region", "id=2&region=eu&name=&" + REST),
        ("U:id,region", "id=2&region=eu&name=&" + REST),
        ("D:id,region", "id=2&region=eu&name=&" + REST),
        ("R", ""),
    ],
    "jsontriga": [
        (json_type("INSERT"), '{"id":1,"region":"eu","name":"kiwi & lime",' + JSON_LONG % "true"),
        (json_type("INSERT"), '{"id":2,"region":"eu","name":"O\'Brien\\\\tab",' + JSON_REST),
        (json_type("UPDATE"), '{"id":1,"region":"eu","name":"plum",' + JSON_LONG % "false"),
        (json_type("UPDATE"), '{"id":1,"region":"eu","name":null,' + JSON_LONG % "false"),
        (json_type("UPDATE"), '{"id":2,"region":"eu","name":"",' + JSON_REST),
        (json_type("UPDATE"), '{"id":2,"region":"eu","name":"",' + JSON_REST),
        (json_type("DELETE"), '{"id":2,"region":"eu","name":"",' + JSON_REST),
        (json_type("TRUNCATE"), "{}"),
    ],
}


@pytest.mark.parametrize("trigger", EXPECTED)
def test_a_trigger_writes_exactly_the_known_bytes(pgq_db: Database, trigger: str) -> None:
    pgq_db.execute(FRUIT.format(trigger=trigger))
    with writer(pgq_db.dsn) as conn:
        events = take_events(conn)
    assert events == [Fields(type_, data, "public.fruit") for type_, data in EXPECTED[trigger]]


@pytest.mark.parametrize("trigger", ["sqltriga", "logutriga", "jsontriga"])
def test_a_table_without_key_logs_inserts_with_an_empty_key(pgq_db: Database, trigger: str) -> None:
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table log (line text)")
        conn.execute(
            "create trigger a after insert or update or delete on log"
            f" for each row execute function pgq.{trigger}('q')"
        )
        conn.execute("insert into log values ('x')")
        (event,) = take_events(conn)
        for statement in ("update log set line = 'y'", "delete from log"):
            with pytest.raises(Exception, match=r"^Update/Delete on table without pkey\n"):
                conn.execute(statement)
    assert (
        event.type
        == {
            "sqltriga": "I",
            "logutriga": "I:",
            "jsontriga": '{"op":"INSERT","table":["public","log"],"pkey":[]}',
        }[trigger]
    )


def test_identifiers_are_quoted_only_when_needed_whatever_the_session_says(
    pgq_db: Database,
) -> None:
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute(
            'create table "Odd.Name" ("select" int4 primary key, "MiXed" text, "a""b" text,'
            ' ok_1 text, "new" text, r text)'
        )
        conn.execute(
            'create trigger a after insert or update on "Odd.Name"'
            " for each row execute function pgq.sqltriga('q')"
        )
        conn.execute("set quote_all_identifiers = on")
        conn.execute("set standard_conforming_strings = off")
        conn.execute("insert into \"Odd.Name\" values (1, '%', '', 'x', 'n', 'r')")
        conn.execute('update "Odd.Name" set "MiXed" = $$\\$$')
        assert take_events(conn) == [
            Fields(
                "I",
                "(\"select\",\"MiXed\",\"a\"\"b\",ok_1,new,r) values ('1','%','','x','n','r')",
                "public.Odd.Name",
            ),
            Fields("U", "\"MiXed\"=E'\\\\' where \"select\"='1'", "public.Odd.Name"),
        ]


def test_url_encoding_keeps_only_the_safe_set(pgq_db: Database) -> None:
    ascii_text = "".join(chr(code) for code in range(1, 128))
    expected = "".join(
        char if char.isalnum() or char in "_.-" else "+" if char == " " else f"%{ord(char):02x}"
        for char in ascii_text
    )
    with writer(pgq_db.dsn) as conn:
        encode = "select pgq._urlencode(%s)"
        assert conn.execute(encode, [ascii_text]).fetchone() == (expected,)
        assert conn.execute(encode, ["é漢😀"]).fetchone() == ("%c3%a9%e6%bc%a2%f0%9f%98%80",)
        assert conn.execute(encode, ["%25+ %"]).fetchone() == ("%2525%2b+%25",)


def test_json_is_native_only_for_bool_and_whole_numbers(pgq_db: Database) -> None:
    native = {"bool": "true", "int2": "1", "int4": "1", "int8": "1"}
    iso = {"timestamp": '"2024-02-03T04:05:06.7"', "timestamptz": '"2024-02-03T04:05:06.7+00:00"'}
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        types = usable(conn)
        for number, type_ in enumerate(types):
            value = types[type_][0]
            if type_ in native:
                value = "1" if type_ != "bool" else "t"
            if type_ in iso:
                value = "2024-02-03 04:05:06.7"
            table = f"t{number}"
            conn.execute(f"create table {table} (v {type_})")
            conn.execute(
                f"create trigger a after insert on {table}"
                " for each row execute function pgq.jsontriga('q')"
            )
            conn.execute("set timezone = utc")
            conn.execute(f"insert into {table} values ({quoted(value)})")
            (event,) = take_events(conn)
            expected = native.get(type_) or iso.get(type_)
            if expected is None:
                assert event.data is not None
                assert event.data.startswith('{"v":"'), f"{type_} is {event.data}"
                assert event.data.endswith('"}')
            else:
                assert event.data == f'{{"v":{expected}}}'


def test_stored_generated_columns_are_part_of_the_row_as_in_the_original(
    pgq_db: Database,
) -> None:
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute(
            "create table t (id int4 primary key, twice int4 generated always as (id * 2) stored)"
        )
        conn.execute(
            "create trigger a after insert on t for each row execute function pgq.logutriga('q')"
        )
        conn.execute("insert into t values (4)")
        assert take_events(conn) == [Fields("I:id", "id=4&twice=8", "public.t")]


def test_virtual_generated_columns_are_left_out(pgq_db: Database) -> None:
    with writer(pgq_db.dsn) as conn:
        if conn.info.server_version < 180000:
            pytest.skip("virtual generated columns came with PostgreSQL 18")
        conn.execute("select pgq.create_queue('q')")
        conn.execute(
            "create table t (id int4 primary key, twice int4 generated always as (id * 2) virtual)"
        )
        for name in ("sqltriga", "logutriga", "jsontriga"):
            conn.execute(
                f"create trigger {name} after insert on t"
                f" for each row execute function pgq.{name}('q')"
            )
        conn.execute("select londiste.create_capture('q', 't')")
        conn.execute("insert into t values (4)")
        assert sorted(event.data or "" for event in take_events(conn)) == [
            "(id) values ('4')",
            "id=4",
            '{"id":4}',
            '{"id":4}',
        ]


def test_dropped_columns_and_a_column_named_r_do_not_confuse_the_row(pgq_db: Database) -> None:
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table t (gone int4, id int4 primary key, r numeric, value text)")
        conn.execute("alter table t drop column gone")
        for name in ("sqltriga", "logutriga", "jsontriga"):
            conn.execute(
                f"create trigger {name} after insert on t"
                f" for each row execute function pgq.{name}('q')"
            )
        conn.execute("insert into t values (1, 2.0, 'x')")
        assert sorted(event.data or "" for event in take_events(conn)) == [
            "(id,r,value) values ('1','2.0','x')",
            "id=1&r=2.0&value=x",
            '{"id":1,"r":"2.0","value":"x"}',
        ]
