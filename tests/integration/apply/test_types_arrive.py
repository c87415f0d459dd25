"""Every value of every type survives capture, decoding, net changes and apply."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from londiste.applier.applier import Applier
from londiste.changes.decode import decode_all
from londiste.changes.types import RowChange, Truncate
from londiste.db.relation import shapes
from londiste.pgq import batches, queues
from londiste.replication.apply.routing import Pending, plan
from tests.fixtures.cluster import Database
from tests.fixtures.values import quoted, usable


def _create(database: Database, types: dict[str, list[str]]) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        for number, (name, literals) in enumerate(types.items()):
            conn.execute(
                f"create table v{number} (id int primary key, v {name}, gone int, a {name}[]);"
                f"alter table v{number} drop column gone"
            )
            value = f"{quoted(literals[0])}::{name}"
            try:
                conn.execute(
                    f"create table k{number} (v {name} primary key, n int);"
                    f"insert into k{number} values ({value}, 1);"
                    f"insert into k{number} values ({value}, 1) on conflict do nothing;"
                    f"truncate k{number}"
                )
            except psycopg.Error:
                # a type without order cannot be a key
                continue


def _capture(source: Database) -> list[str]:
    with source.connect() as conn:
        queues.create_queue(conn, "q")
        batches.register_consumer(conn, "q", "c")
        tables = [
            f"public.{name}"
            for (name,) in conn.execute(
                "select relname::text from pg_class where relname ~ '^[kv][0-9]+$'"
                " and relkind = 'r'"
            )
        ]
        for table in tables:
            conn.execute("select londiste.create_capture('q', %s)", [table])
    return tables


def _replay(source: Database, target: Database) -> int:
    """Takes one batch to the target; the number of its changes."""
    with source.connect() as conn, target.connect(replica=True) as there:
        queues.force_tick(conn, "q")
        queues.ticker(conn, "q")
        pending = Pending()
        while (batch := batches.next_batch(conn, "q", "c")) is not None:
            for events in batches.events(conn, batch):
                for event in events:
                    for change in decode_all(event):
                        assert isinstance(change, RowChange | Truncate)
                        pending.add(change.table, change)
            batches.finish_batch(conn, batch.id)
        with there.transaction():
            there.execute("select 1")
            known = shapes(there, pending.changes)
            Applier(there, node="leaf").apply(plan(pending.changes, known, node="leaf"))
        return pending.count


def _texts(database: Database, table: str) -> list[tuple[object, ...]]:
    return database.execute(f"select t::text from {table} t order by 1")


def test_every_value_of_every_type_arrives_as_it_was(
    new_database: Callable[..., Database],
) -> None:
    source, target = new_database(pgq=True), new_database(pgq=True)
    with source.connect() as conn, target.connect() as there:
        types = usable(conn)
        usable(there)
    for database in (source, target):
        _create(database, types)
    tables = _capture(source)
    with psycopg.connect(source.dsn) as writer:
        for number, (name, literals) in enumerate(types.items()):
            values = [f"{quoted(literal)}::{name}" for literal in literals]
            for row, value in enumerate([*values, "null"]):
                several = _several(name, value)
                writer.execute(f"insert into v{number} values ({row}, {value}, {several})")
            if f"public.k{number}" in tables:
                for value in values:
                    writer.execute(
                        f"insert into k{number} values ({value}, 1) on conflict do nothing"
                    )
    assert _replay(source, target) > 200
    for table in tables:
        assert _texts(target, table) == _texts(source, table), table

    with psycopg.connect(source.dsn) as writer:
        for number, (name, literals) in enumerate(types.items()):
            first, last = (f"{quoted(literals[n])}::{name}" for n in (0, -1))
            writer.execute(f"update v{number} set v = {last}, a = {_several(name, first)}")
            writer.execute(f"delete from v{number} where id = 0")
            if f"public.k{number}" in tables:
                writer.execute(f"update k{number} set n = 2")
                writer.execute(f"delete from k{number} where v::text = ({first})::text")
                writer.execute(f"insert into k{number} values ({first}, 3)")
    assert _replay(source, target) > 200
    for table in tables:
        assert _texts(target, table) == _texts(source, table), table


def _several(name: str, value: str) -> str:
    """An array of the type; not of types that are arrays themselves."""
    if name.endswith(("[]", "fix_list")):
        return "null"
    return f"array[{value}, null]::{name}[]"
