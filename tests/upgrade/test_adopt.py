"""A database with Londiste 3's extensions is adopted in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.embedded.postgres import Cluster
from londiste.errors import InstallError
from londiste.install import adopt, apply
from tests.fixtures.cluster import Database, create_database
from tests.fixtures.nodes import make_root
from tests.fixtures.original import EXTENSIONS, original_database
from tests.upgrade.catalog import shape

ROWS = {
    "tables": "select * from londiste.get_table_list('q')",
    "registered": "select nr, table_name, table_attrs from londiste.table_info order by nr",
    "sequences": "select * from londiste.get_seq_list('q')",
    "scripts": "select * from londiste.applied_execute",
    "keys": "select * from londiste.pending_fkeys",
    "nodes": "select * from pgq_node.node_location order by 1, 2",
    "node": "select * from pgq_node.get_node_info('q')",
    "positions": "select queue_name, consumer_name, last_tick, current_batch, next_tick"
    " from pgq.get_consumer_info() order by 2",
    "ticks": "select tick_queue, tick_id, tick_snapshot::text, tick_event_seq from pgq.tick"
    " order by 2",
    "events": "select ev_id, ev_txid, ev_type, ev_data, ev_extra1 from pgq.event_template"
    " order by 1",
    "triggers": "select oid, pg_get_triggerdef(oid) from pg_trigger"
    " where tgrelid = 't'::regclass and not tgisinternal order by 1",
}


@pytest.fixture
def database(original_server: Cluster) -> Iterator[Database]:
    """The root of a queue with tables, a sequence, a script, events, an open batch and a retry."""
    made = original_database(original_server)
    make_root(made)
    made.execute(
        """
        create table t (id serial primary key, v text);
        create table u (id int primary key, t_id int references t);
        select londiste.local_add_table('q', 'u');
        select londiste.local_add_table('q', 't', '{}', 'handler=londiste');
        select londiste.local_add_seq('q', 'public.t_id_seq');
        select londiste.execute_start('q', 'one.sql', 'select 1', true);
        select londiste.execute_finish('q', 'one.sql');
        select londiste.drop_table_fkey('public.u', 'u_t_id_fkey');
        select pgq_node.register_location('q', 'n2', 'dbname=elsewhere', true);
        select pgq.register_consumer('q', 'reader');
        """
    )
    made.execute("insert into t (v) values ('a&b'), (null)")
    made.execute("select pgq.force_tick('q')")
    made.execute("select pgq.ticker('q')")
    made.execute("select pgq.next_batch('q', 'reader')")
    made.execute(
        "select pgq.event_retry(sub_batch, 2, 600) from pgq.subscription where sub_batch > 0"
    )
    yield made
    made.drop()


def everything(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    return {name: database.execute(statement) for name, statement in ROWS.items()}


def test_rows_numbers_and_triggers_stay(database: Database) -> None:
    before = everything(database)
    assert all(before[name] for name in ROWS)
    events = "select ev_id, ev_data from pgq.get_batch_events(%s) order by 1"
    batch = database.value("select current_batch from pgq.get_consumer_info('q', 'reader')")
    seen = database.execute(events, batch)
    conn = database.connect()
    assert adopt.adopt(conn)
    assert everything(database) == before
    assert database.execute(events, batch) == seen
    assert database.value("select count(*) from pgq.retry_queue") == 1
    database.execute("insert into t (v) values ('later')")
    last = "select ev_data from pgq.event_template where ev_id > %s"
    assert database.execute(last, before["events"][-1][0]) == [("id=3&v=later",)]
    assert database.value("select (londiste.local_add_table('q', 't')).ret_code") in {200, 410}
    database.execute("create table later (id int primary key)")
    assert database.value("select (londiste.local_add_table('q', 'later')).ret_code") == 200
    assert database.value("select nr from londiste.table_info order by nr desc limit 1") == 3


def test_the_result_is_what_a_new_database_has(original_server: Cluster) -> None:
    database = original_database(original_server)
    new = create_database(original_server, pgq=True)
    try:
        conn, other = database.connect(), new.connect()
        adopt.adopt(conn)
        assert adopt.found(conn) == []
        apply.install(conn)
        for schema in EXTENSIONS:
            have, wanted = set(shape(conn, schema)), set(shape(other, schema))
            missing = {line for line in wanted - have if not line.startswith("comment ")}
            assert missing == set()
            # What only the original's commands call stays for them.
            more = {line for line in have - wanted if "pgq_node." not in line}
            assert more == set()
        assert all(not plan.steps for plan in apply.plan_for(conn))
        assert adopt.adopt(conn) == []
    finally:
        database.drop()
        new.drop()


def test_a_view_of_somebody_stops_it_and_nothing_is_changed(database: Database) -> None:
    database.execute("create view mine as select * from londiste.table_info")
    before = everything(database)
    conn = database.connect()
    with pytest.raises(InstallError, match="cannot be adopted") as caught:
        adopt.adopt(conn)
    assert "view public.mine" in str(caught.value.detail)
    assert everything(database) == before
    assert adopt.found(conn) == ["londiste", "pgq_node", "pgq"]


def test_the_command_says_what_it_would_do_and_does_it(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(database)
    assert run(cli, ["install", "--db", database.dsn, "--adopt", "--dry-run"]) == 0
    assert "would: pgq: adopted, no longer an extension" in capsys.readouterr().err
    assert everything(database) == before
    assert adopt.found(database.connect()) == ["londiste", "pgq_node", "pgq"]
    assert run(cli, ["install", "--db", database.dsn, "--adopt", "--after"]) == 2
    assert run(cli, ["install", "--db", database.dsn, "--adopt", "--json"]) == 0
    assert run(cli, ["install", "--db", database.dsn]) == 0
    assert run(cli, ["install", "--db", database.dsn, "--adopt"]) == 0
    assert "nothing to do" in capsys.readouterr().err
    assert everything(database) == before


def test_install_without_the_word_refuses_and_says_it(database: Database) -> None:
    with pytest.raises(InstallError, match="belongs to the extension pgq") as caught:
        apply.install(database.connect())
    assert "londiste install --adopt" in caught.value.hint


@pytest.mark.parametrize("option", [(), ("--dry-run",)])
def test_a_schema_of_a_stranger_is_not_filled(
    option: tuple[str, ...], database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    role = f"stranger_{database.name}"
    database.execute(f"create role {role}; create schema londiste_capture authorization {role}")
    try:
        assert run(cli, ["install", "--adopt", "--db", database.dsn, *option]) == 4
        assert f"schema londiste_capture belongs to role {role}" in capsys.readouterr().err
        assert {name for (name,) in database.execute("select extname from pg_extension")} > {
            *EXTENSIONS
        }
    finally:
        database.execute(f"drop owned by {role}; drop role {role}")
