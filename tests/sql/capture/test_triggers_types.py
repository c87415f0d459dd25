"""Values of every type in the three formats, byte for byte, against independent encoders."""

from __future__ import annotations

import json
from urllib.parse import quote_plus

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.values import quoted, usable
from tests.support.queue_events import Fields, take_events, writer

NATIVE = {"bool", "int2", "int4", "int8"}
ISO = {"timestamp", "timestamptz"}
TYPE = '{"op":"%s","table":["public","%s"],"pkey":["id"]}'


def url(text: str) -> str:
    """Lower-case hex, blank as +, and only letters, digits, _ . - as they are."""
    encoded = quote_plus(text, safe="").replace("~", "%7E")
    parts = encoded.split("%")
    return parts[0] + "".join("%" + part[:2].lower() + part[2:] for part in parts[1:])


def literal(text: str) -> str:
    inner = text.replace("'", "''")
    return "E'" + inner.replace("\\", "\\\\") + "'" if "\\" in text else f"'{inner}'"


def expected(trigger: str, table: str, text: str, as_json: str) -> list[tuple[str, str]]:
    """Type and data of: insert, update to null, update back, update of nothing, delete."""
    if trigger == "sqltriga":
        return [
            ("I", f"(id,v) values ('1',{literal(text)})"),
            ("U", "v=NULL where id='1'"),
            ("U", f"v={literal(text)} where id='1'"),
            ("U", "id='1' where id='1'"),
            ("D", "id='1'"),
        ]
    if trigger == "logutriga":
        full, empty = f"id=1&v={url(text)}", "id=1&v"
        return [("I:id", full), ("U:id", empty), *[("U:id", full)] * 2, ("D:id", full)]
    full, empty = f'{{"id":1,"v":{as_json}}}', '{"id":1,"v":null}'
    operations = ["INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE"]
    data = [full, empty, full, full, full]
    return [(TYPE % (op, table), each) for op, each in zip(operations, data, strict=True)]


@pytest.mark.parametrize("trigger", ["sqltriga", "logutriga", "jsontriga"])
def test_every_value_of_every_type_is_written_exactly(pgq_db: Database, trigger: str) -> None:
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("set timezone = utc")
        seen = 0
        for number, (type_, values) in enumerate(usable(conn).items()):
            table = f"t{number}"
            conn.execute(f"create table {table} (id int4 primary key, v {type_})")
            conn.execute(
                f"create trigger a after insert or update or delete on {table}"
                f" for each row execute function pgq.{trigger}('q')"
            )
            for value in values:
                row = conn.execute(
                    f"insert into {table} values (1, {quoted(value)})"
                    " returning format('%s', v), to_json(v)::text"
                ).fetchone()
                assert row is not None
                text, iso = str(row[0]), str(row[1])
                conn.execute(f"update {table} set v = null")
                conn.execute(f"update {table} set v = {quoted(value)}")
                conn.execute(f"update {table} set v = v")
                conn.execute(f"delete from {table}")
                as_json = json.dumps(text, ensure_ascii=False)
                if type_ in NATIVE:
                    as_json = {"t": "true", "f": "false"}.get(text, text)
                elif type_ in ISO:
                    as_json = iso
                wanted = expected(trigger, table, text, as_json)
                found = take_events(conn)
                assert found == [Fields(t, d, f"public.{table}") for t, d in wanted], type_
                seen += 1
        assert seen > 150


@pytest.mark.parametrize("trigger", ["sqltriga", "logutriga", "jsontriga"])
def test_magic_columns_work_in_every_format(pgq_db: Database, trigger: str) -> None:
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute(
            "create table m (id int4 primary key, _pgq_ev_type text, _pgq_ev_data text,"
            " _pgq_ev_extra1 text, _pgq_ev_extra2 text, _pgq_ev_extra3 text, _pgq_ev_extra4 text)"
        )
        conn.execute(
            "create trigger a after insert or update or delete on m"
            f" for each row execute function pgq.{trigger}('q')"
        )
        names = ("type", "data", "extra1", "extra2", "extra3", "extra4")
        conn.execute("insert into m values (1, 't', 'd', '1', '2', '3', '4')")
        conn.execute("update m set _pgq_ev_type = 'T'")
        conn.execute("delete from m")
        assert take_events(conn) == [
            Fields("t", "d", "1", "2", "3", "4"),
            # The update of magic columns alone makes none.
            Fields("T", "d", "1", "2", "3", "4"),
        ]
        conn.execute("insert into m values (2)")
        assert take_events(conn) == [Fields(None, None, None, None, None, None)]
        for name in names:
            conn.execute(f"alter table m drop column _pgq_ev_{name}")
            conn.execute("insert into m (id) values (3)")
            conn.execute("delete from m where id = 3")
            inserted, _ = take_events(conn)
            assert getattr(inserted, name) == {
                "type": {"sqltriga": "I", "logutriga": "I:id", "jsontriga": TYPE % ("INSERT", "m")}[
                    trigger
                ],
                "data": {
                    "sqltriga": "(id) values ('3')",
                    "logutriga": "id=3",
                    "jsontriga": '{"id":3}',
                }[trigger],
                "extra1": "public.m",
            }.get(name)


@pytest.mark.parametrize("trigger", ["sqltriga", "logutriga", "jsontriga"])
def test_every_field_can_be_an_expression_in_every_format(pgq_db: Database, trigger: str) -> None:
    fields = ("ev_type", "ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table e (id int4 primary key, v text)")
        for field in fields:
            for value, written in (
                ("v || '=' || id", "x=1"),
                ("null::text", None),
                ("id > 0", "t"),
            ):
                argument = f"{field}={value}".replace("'", "''")
                conn.execute(
                    "create or replace trigger a after insert on e"
                    f" for each row execute function pgq.{trigger}('q', '{argument}')"
                )
                conn.execute("insert into e values (1, 'x')")
                (event,) = take_events(conn)
                assert getattr(event, field.removeprefix("ev_")) == written
                conn.execute("delete from e")


@pytest.mark.parametrize("trigger", ["sqltriga", "logutriga", "jsontriga"])
def test_backup_holds_the_old_row_without_ignored_columns(pgq_db: Database, trigger: str) -> None:
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table b (id int4 primary key, v text, secret text)")
        conn.execute(
            "create trigger a before update on b"
            f" for each row execute function pgq.{trigger}('q', 'backup', 'ignore=secret', 'SKIP')"
        )
        conn.execute("insert into b values (1, 'a&b', 's')")
        conn.execute("update b set v = null")
        (event,) = take_events(conn)
        old = '{"id":1,"v":"a&b"}' if trigger == "jsontriga" else "id=1&v=a%26b"
        assert event.extra2 == old
        assert conn.execute("select v from b").fetchone() == ("a&b",)
