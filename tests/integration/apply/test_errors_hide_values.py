"""An event that cannot be decoded shows no data, and nothing at all of columns left out here."""

from __future__ import annotations

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.error_values import Values
from londiste.errors import from_database
from tests.fixtures.cluster import Database
from tests.fixtures.line import Command, Line
from tests.integration.commands.test_obfuscate import everything

SECRET = "0r1ginal"
SCHEMA = "create table {} (id int primary key, a text, note text)"
#: How columns are left out -- options of add-table.
WAYS = {
    "columns": ("--columns", "id,a"),
    "skip": ("--skip-columns", "note"),
    "where": ("--where", "id < 1000"),
}
#: Events that nobody can read: type and data.
BROKEN = {
    "url": ("I:id", "id=1&a=x&note=0r1ginal%zz"),
    "json": ('{"op":"INSERT","pkey":["id"]}', '{"id":1,"note":"0r1ginal'),
    "sql": ("I", "(id,note) values (1, '0r1ginal"),
    "pack": ('{"op":"INSERT","pkey":["id"],"rows":2}', '{"id":1,"note":"0r1ginal"},{"id":'),
}


#: A table whose types and checks refuse values, each in another place of the server.
REFUSING = """
create temp table refusing (
    i int check (i > 0), n numeric(3, 1), c varchar(3), t tsvector, q tsquery, r regclass,
    p jsonpath, j json, x inet, d date, g int4range, a text[], u text unique, dyn text)
"""
#: A column, and a value that it refuses.
REFUSED = [
    ("i", "secret"),
    ("i", "-471"),
    ("n", "secret"),
    ("c", "secret"),
    ("t", "'secret"),
    ("q", "secret & & secret"),
    ("r", "secret"),
    ("r", "secret.secret"),
    ("r", "a.b.c.secret"),
    ("p", "$.secret ="),
    ("j", '{"a": secret'),
    ("x", "secret"),
    ("d", "secret"),
    ("g", "[secret"),
    ("a", "{secret"),
    ("u", "secret"),
    ("q", "secret" * 400),
    ("dyn", "audit.secret"),
]
#: A trigger that puts a statement together from a row.
DYNAMIC = """
create function pg_temp.dyn() returns trigger language plpgsql as $$
begin execute 'insert into ' || new.dyn || ' values (1)'; return new; end $$;
create trigger dyn before insert on refusing for each row when (new.dyn is not null)
    execute function pg_temp.dyn()
"""


def test_no_error_of_the_server_shows_a_value_in_any_language(pgq_db: Database) -> None:
    with pgq_db.connect() as conn:
        conn.autocommit = True
        conn.execute(REFUSING)
        conn.execute(DYNAMIC)
        conn.execute("insert into refusing (u) values ('secret')")
        for language in ("C", "de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8", "ja_JP.UTF-8"):
            try:
                conn.execute(f"set lc_messages = '{language}'")
            except psycopg.errors.InvalidParameterValue:
                # The machine has no such locale; the unit tests have texts of it.
                continue
            for column, value in REFUSED:
                statement = f"insert into refusing ({column}) values (%s)"
                with pytest.raises(psycopg.Error) as by_parameter:
                    conn.execute(statement, [value])
                with pytest.raises(psycopg.Error) as by_copy:
                    with conn.cursor().copy(f"copy refusing ({column}) from stdin csv") as copy:
                        copy.write('"' + value.replace('"', '""') + '"\n')
                with pytest.raises(psycopg.Error) as by_text:
                    psycopg.ClientCursor(conn).execute(statement, [value])
                for how, values in (
                    (by_parameter, Values.APART),
                    (by_copy, Values.NONE),
                    (by_text, Values.INSIDE),
                ):
                    found = from_database(how.value, values=values)
                    told = f"{found.message}; {found.detail}; {found.hint}"
                    assert "secret" not in told and "471" not in told, (language, column, told)


def test_data_that_cannot_be_decoded_is_not_shown(line: Line, command: Command) -> None:
    root = line.node("root", NodeType.ROOT)
    leaf = line.node("leaf", NodeType.LEAF, root)
    tables = ["columns_sql", "columns_json", "skip_url", "skip_pack", "where_sql"]
    for node in (root, leaf):
        node.database.execute("; ".join(SCHEMA.format(name) for name in tables))
    line.add(root, *tables)
    for way, options in WAYS.items():
        names = [name for name in tables if name.startswith(f"{way}_")]
        done = command(leaf, "add-table", *names, "--expect-sync", *options)
        assert done.code == 0, str(done)
    line.tick()
    line.once(leaf)
    for name in tables:
        kind = name.partition("_")[2]
        ev_type, data = BROKEN[kind]
        event = root.database.value(
            "select pgq.insert_event('line', %s, %s, %s, null, null, null)",
            ev_type,
            data,
            f"public.{name}",
        )
        line.tick()
        done = command(leaf, "worker", "--once")
        assert done.code == 5, (name, str(done))
        told = done.out + done.err
        for args in (("events", "show"), ("events", "export", "-"), ("status",)):
            answer = command(leaf, *args)
            assert answer.code == 0, str(answer)
            told += answer.out + answer.err
        assert SECRET not in told, (name, told)
        if name.startswith("where"):
            # All columns come here: the event may be named, without its data.
            assert f"ev_data of {len(data)} characters" in told, (name, told)
            assert f"londiste queue events QUEUE --id {event} shows the event" in told, (name, told)
        else:
            assert SECRET not in everything(leaf), (name, told)
            assert "its data is hidden" in told, (name, told)
        root.database.execute(
            "delete from pgq.event_template where ev_extra1 = %s", f"public.{name}"
        )
        line.once(leaf)


def test_a_key_that_is_violated_at_the_end_of_a_batch_is_named_without_values(line: Line) -> None:
    root = line.node("root", NodeType.ROOT)
    leaf = line.node("leaf", NodeType.LEAF, root)
    for node in (root, leaf):
        node.database.execute("create table a (id int primary key)")
        line.add(node, "a")
    leaf.database.execute(
        "create table p (id int primary key);"
        "alter table a add constraint k foreign key (id) references p deferrable initially deferred"
    )
    trigger = leaf.database.value(
        "select tgname from pg_trigger where tgrelid = 'a'::regclass and tgconstraint <> 0"
        " order by tgtype limit 1"
    )
    leaf.database.execute(f'alter table a enable always trigger "{trigger}"')
    root.database.execute("insert into a values (471)")
    last = line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code != 0 and "471" not in done.err, str(done)
    assert "constraint of table public.a to table p" in done.err, str(done)
    hint = done.err.partition("hint: as a superuser: ")[2]
    repair, _, select = hint.partition(
        ", after which the batch is applied and this finds the rows: "
    )
    leaf.database.execute(repair)
    line.once(leaf)
    assert line.position(leaf) == last
    assert leaf.database.execute(select.partition("\n")[0]) == [('{"id": 471}',)]
