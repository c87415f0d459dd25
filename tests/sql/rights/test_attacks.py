"""Attempts of each role to exceed its rights in a provider's database.

``ATTEMPTS`` is the list: who, and what; ``docs/design/security.md`` tells of whom each role has to
be kept from.  Every attempt is an error, and nothing has changed behind it: no event that a
subscriber would apply, no position, no right, no function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database, Server, create_database

ROLES = {
    "stranger": None,
    "reader": "pgq_reader",
    "writer": "pgq_writer",
    "lreader": "londiste_reader",
    "lwriter": "londiste_writer",
}
JSON = '{"op":"INSERT","table":["public","orders"],"pkey":["id"]}'
SCRIPT = "create role evil superuser login"
#: Events that a subscriber would apply: type, data, extra1.
FORGED = {
    "script": ("EXECUTE", SCRIPT, "x.sql"),
    "row-url": ("I:id", "id=9", "public.orders"),
    "row-sql": ("I", "(id) values ('9')", "public.orders"),
    "row-json": (JSON, '{"id":9}', "public.orders"),
    "truncate": ("R", "", "public.orders"),
    "location": ("pgq.location-info", "branch", "q"),
    "watermark": ("pgq.global-watermark", "1000", "q"),
    "unregister": ("pgq.unregister-location", "branch", "q"),
    "add-table": ("londiste.add-table", "public.orders", None),
    "remove-table": ("londiste.remove-table", "public.orders", None),
    "sequence": ("londiste.update-seq", "100000", "public.s"),
    "unknown-of-table": ("hello", "x", "public.orders"),
    "unknown-of-bare-name": ("hello", "x", "orders"),
}
#: Ways of a producer to write an event; %s: type, data, extra1.
WAYS = {
    "event": "select pgq.insert_event('q', {0}, {1}, {2}, null, null, null)",
    "events": "select pgq.insert_events('q', array[{0}], array[{1}], array[{2}])",
    "at-once": "select pgq.insert_event_at('q', '2020-01-01', {0}, {1}, {2})",
    "later": "select pgq.insert_event_at('q', now() + interval '1 hour', {0}, {1}, {2})",
    "once": "select pgq.insert_event_once('q', 'key', {0}, {1}, {2})",
}
OVER = "create function {schema}.{name}({args}) returns {result} language sql as $$ select null $$"


@dataclass(frozen=True)
class Attempt:
    """Who tries what; only the last statement has to fail."""

    role: str
    statements: tuple[str, ...]


def _text(value: str | None) -> str:
    return "null::text" if value is None else "'" + value.replace("'", "''") + "'"


def _list() -> dict[str, Attempt]:
    found: dict[str, Attempt] = {}

    def add(name: str, role: str, *statements: str) -> None:
        assert name not in found, name
        found[name] = Attempt(role, statements)

    for kind, fields in FORGED.items():
        for way, statement in WAYS.items():
            add(f"forge-{kind}-{way}", "writer", statement.format(*map(_text, fields)))
    script = WAYS["event"].format(*map(_text, FORGED["script"]))
    add("forge-stranger", "stranger", script)
    add("forge-reader", "reader", script)
    add("forge-without-extra", "writer", "select pgq.insert_event('q', 'londiste.x', 'y')")
    add("forge-old-snapshot", "writer", "set transaction isolation level repeatable read", script)

    # Below the functions for producers.
    row = "values (1, now(), 'EXECUTE', 'x', 'y')"
    for table in ("pgq.event_1", "pgq.event_1_0", "pgq.event_template"):
        add(
            f"insert-{table}",
            "writer",
            f"insert into {table} (ev_id, ev_time, ev_type, ev_data, ev_extra1) {row}",
        )
    nulls = ", ".join(["null"] * 4)
    for function, arguments in {
        "_insert_event": f"'q', 'EXECUTE', 'x', 'y', {nulls[6:]}",
        "_insert_events": "'q', '{EXECUTE}', '{x}', '{y}', null, null, null",
        "_insert_event_at": f"'q', now(), 'EXECUTE', 'x', 'y', {nulls[6:]}",
        "_insert_event_once": f"'q', 'k', 'EXECUTE', 'x', 'y', {nulls[6:]}",
        "insert_event_raw": f"'q', 99, now(), null, null, 'EXECUTE', 'x', 'y', {nulls[6:]}",
        "_store_event": "1, 'pgq.event_1', 0, 99, now(), 1, null, null, 'EXECUTE', 'x', 'y',"
        f" {nulls[6:]}",
        "event_retry_raw": f"'q', 'worker', now(), 99, now(), 1, 'EXECUTE', 'x', 'y', {nulls[6:]}",
        "set_queue_config": "'q', 'disable_insert', 'true'",
        "grant_produce": "'app', 'pgq_writer'",
        "set_consumer_owner": "'q', 'worker', 'pgq_writer'",
        "grant_perms": "'q'",
        "drop_queue": "'q', true",
        "ticker": "'q', 1000, now(), 1000",
        "move_known_tick": "'q', 'worker', 1, now()",
        "note_known_source": "'q', 'worker', 'a', null, 1, 1, now()",
        "forget_known_sources": "'q', null",
    }.items():
        add(f"call-{function}", "writer", f"select pgq.{function}({arguments})")
    add("update-queue", "writer", "update pgq.queue set queue_replicated = false")

    # A compatible trigger on a table of one's own, with an event of one's own.
    for option in ("ev_type=''EXECUTE''", "ev_type=''I:id'', ev_extra1=''public.orders''"):
        words = ", ".join(f"'{word}'" for word in option.split(", ")).replace("''", "\0")
        words = words.replace("\0", "''")
        for trigger in ("logutriga", "jsontriga", "sqltriga"):
            add(
                f"trigger-{trigger}-{option[8:11]}",
                "writer",
                "create temp table mine (id int4 primary key)",
                "create trigger t after insert on mine for each row"
                f" execute function pgq.{trigger}('q', {words}, 'ev_data=''x''')",
                "insert into mine values (1)",
            )
    add(
        "trigger-magic",
        "writer",
        "create temp table mine (id int4 primary key, _pgq_ev_type text, _pgq_ev_data text)",
        "create trigger t after insert on mine for each row execute function pgq.logutriga('q')",
        f"insert into mine values (1, 'EXECUTE', '{SCRIPT}')",
    )
    add(
        "trigger-as-another-table",
        "writer",
        "create temp table mine (id int4 primary key)",
        "create trigger t after insert on mine for each row"
        " execute function pgq.logutriga('q', 'ev_extra1=''public.logged''')",
        "insert into mine values (1)",
    )
    add(
        "row-of-a-table-not-changed",
        "writer",
        "select pgq.insert_event('q', 'I:id', 'id=9', 'public.logged', null, null, null)",
    )
    add(
        "truncate-of-a-table-not-emptied",
        "writer",
        "select pgq.insert_event('q', 'R', '', 'public.logged', null, null, null)",
    )

    # The cascade.
    for function, arguments in {
        "register_location": "'q', 'branch', 'host=attacker', false",
        "unregister_location": "'q', 'branch'",
        "register_consumer": "'q', 'c', 'root', 1",
        "unregister_consumer": "'q', 'root.worker'",
        "change_consumer_provider": "'q', 'root.worker', 'branch'",
        "set_consumer_completed": "'q', 'root.worker', 1000",
        "move_consumer_completed": "'q', 'root.worker', 1, 1000",
        "set_consumer_paused": "'q', 'root.worker', true",
        "set_consumer_uptodate": "'q', 'root.worker', false",
        "set_consumer_error": "'q', 'root.worker', null",
        "set_consumer_hold": "'q', 'root.worker', 1, 1000, 'x'",
        "clear_consumer_hold": "'q', 'root.worker', 'x'",
        "insert_part_tick": "'q', 'part', 7",
        "set_global_watermark": "'q', 1000",
        "set_node_attrs": "'q', 'x=y'",
        "drop_node": "'q', 'root'",
        "demote_root": "'q', 1, 'branch'",
        "_keep_consumer": "'q', 'mine'",
        "_take_over_queue": "'app'",
    }.items():
        add(f"node-{function}", "writer", f"select pgq_node.{function}({arguments})")
    for function, arguments in {
        "execute_start": "'q', 'x.sql', 'select 1', true",
        "global_add_table": "'q', 'public.x'",
        "global_remove_table": "'q', 'public.orders'",
        "local_add_table": "'q', 'public.logged'",
        "root_notify_change": "'q', 'londiste.remove-table', 'public.orders'",
        "set_session_replication_role": "'replica', true",
        "global_update_seq": "'q', 'public.s', 100000",
        "create_capture": "'q', 'public.orders'",
        "drop_capture": "'q', 'public.orders'",
    }.items():
        add(f"londiste-{function}", "writer", f"select londiste.{function}({arguments})")

    # Consumers of others.
    for function, arguments in {
        "unregister_consumer": "'q', 'worker'",
        "register_consumer_at": "'q', 'worker', 2",
        "pause_consumer": "'q', 'worker', null",
        "failed_event_delete_all": "'q', 'worker'",
    }.items():
        add(f"consumer-{function}", "reader", f"select pgq.{function}({arguments})")
    add("consumer-finish_batch", "reader", "select pgq.finish_batch(batch) from public.open_batch")
    add(
        "consumer-event_retry",
        "reader",
        "select pgq.event_retry(batch, 1, 1) from public.open_batch",
    )
    add("consumer-batch_retry", "reader", "select pgq.batch_retry(batch, 1) from public.open_batch")
    add("consumer-app", "reader", "select pgq.unregister_consumer('app', 'theirs')")
    add("consumer-app-move", "reader", "select pgq.register_consumer_at('app', 'theirs', 1)")
    for role in ("reader", "writer"):
        add(f"subscriber-{role}", role, "select pgq_node.unregister_subscriber('q', 'branch')")
        add(
            f"subscriber-watermark-{role}",
            role,
            "select pgq_node.set_subscriber_watermark('q', 'branch', 2)",
        )
        for change, number in (("watermark", "0"), ("watermark", "1"), ("since", "99")):
            add(
                f"subscriber-{change}-{number}-{role}",
                role,
                f"select pgq_node.set_subscriber_{change}('q', 'branch', {number})",
            )

    # What others have written.
    secrets = ("applied_execute", "script_state", "compare_range", "copy_range", "copy_chunk")
    for table in (*secrets, "copy_step", "apply_error", "apply_log", "apply_conflict"):
        for role in ("stranger", "reader", "writer", "lreader"):
            add(f"read-{table}-{role}", role, f"select * from londiste.{table}")
    for table in ("pgq.failed_queue", "pgq.retry_queue", "pgq.delayed_event", "pgq_ext.sink"):
        add(f"read-{table}", "stranger", f"select * from {table}")
    add("read-events", "stranger", "select * from pgq.event_template")

    # From an administrator of replication to the owner of the schemas.
    for schema in ("pgq", "pgq_node", "pgq_ext", "pgq_coop", "londiste"):
        add(f"create-table-{schema}", "lwriter", f"create table {schema}.mine (id int4)")
        add(
            f"create-function-{schema}",
            "lwriter",
            OVER.format(schema=schema, name="mine", args="int4", result="int4"),
        )
    add(
        "overload",
        "lwriter",
        OVER.format(schema="londiste", name="_capture_may_look", args="int4", result="bool"),
    )
    add(
        "replace",
        "lwriter",
        "create or replace function londiste.find_table_oid(i_table_name text) returns oid"
        " language sql as $$ select 0::oid $$",
    )
    add(
        "event-tables-elsewhere",
        "lwriter",
        "update pgq.queue set queue_data_pfx = 'public.orders' where queue_name = 'q'",
    )
    add(
        "role-for-the-session",
        "lwriter",
        "select londiste.set_session_replication_role('replica', false)",
    )
    add(
        "capture-of-others",
        "lwriter",
        "create temp table mine (id int4)",
        "select set_config('attack.f', tgfoid::regproc::text, false) from pg_trigger"
        " where tgrelid = 'public.orders'::regclass and tgname = '_londiste_q'",
        "do $$ begin execute format('create trigger t after insert on mine for each row"
        " execute function %s(''q'', ''public.orders'')', current_setting('attack.f')); end $$",
    )
    return found


ATTEMPTS = _list()


def test_there_are_many_attempts() -> None:
    assert len(ATTEMPTS) > 150


@pytest.fixture(scope="module")
def victims(cluster: Server) -> Iterator[Database]:
    """A root with two replicated tables, a subscriber, and a queue of an application."""
    database = create_database(cluster, pgq=True)
    conn = database.connect()
    conn.execute(
        "set search_path = public;"
        " create table orders (id int4 primary key); create sequence s;"
        " create table logged (id int4 primary key);"
        " select pgq_node.register_location('q', 'root', 'dbname=root', false);"
        " select pgq_node.create_node('q', 'root', 'root', 'root.worker', null, null, null);"
        " select pgq_node.register_location('q', 'branch', 'dbname=branch', false);"
        " select pgq_node.register_subscriber('q', 'branch', 'worker', null);"
        " select londiste.local_add_table('q', 'public.orders', '{tgflags=C}', null, null);"
        " select londiste.local_add_table('q', 'public.logged', '{tgflags=L}', null, null);"
        " select pgq.create_queue('app'), pgq.register_consumer('app', 'theirs');"
        " insert into orders values (1);"
        " select pgq.force_tick('q'); select pgq.ticker();"
        " create table open_batch as select pgq.next_batch('q', 'worker') as batch;"
        " grant select on open_batch to public;"
    )
    for role, of in ROLES.items():
        conn.execute(f"create role {_name(database, role)}")
        if of is not None:
            conn.execute(f"grant {of} to {_name(database, role)}")
    yield database
    for role in ROLES:
        conn.execute(f"drop owned by {_name(database, role)}")
        conn.execute(f"drop role {_name(database, role)}")
    database.drop()


def _name(database: Database, role: str) -> str:
    return f"{role}_{database.name}"


#: What an attempt could change; the ids that it used up do not count.
_STATE = """
select md5(string_agg(t, '|' order by t)) from (
    select e::text from pgq.event_template e
    union all select q::text from pgq.queue q
    union all select s::text from pgq.subscription s
    union all select o::text from pgq.consumer_owner o
    union all select d::text from pgq.delayed_event d
    union all select r::text from pgq.retry_queue r
    union all select k::text from pgq.known_source k
    union all select n::text from pgq_node.node_info n
    union all select l::text from pgq_node.node_location l
    union all select i::text from pgq_node.subscriber_info i
    union all select c::text from pgq_node.local_state c
    union all select i::text from londiste.table_info i
    union all select q::text from londiste.seq_info q
    union all select p.oid::text || p.prosrc || coalesce(p.proacl::text, '') || p.proowner
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace and n.nspname !~ '^pg_'
    union all select c.oid || coalesce(c.relacl::text, '') || c.relowner from pg_class c
        join pg_namespace n on n.oid = c.relnamespace and n.nspname !~ '^pg_'
    union all select r.rolname || r.rolsuper from pg_roles r
) x (t)
"""


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_is_refused_and_changes_nothing(victims: Database, name: str) -> None:
    attempt = ATTEMPTS[name]
    before = victims.value(_STATE)
    with victims.connect() as conn:
        conn.execute(f"set session authorization {_name(victims, attempt.role)}")
        conn.execute("begin")
        _try(conn, attempt)
        conn.execute("rollback")
    assert victims.value(_STATE) == before


def _try(conn: Connection, attempt: Attempt) -> None:
    *first, last = attempt.statements
    for statement in first:
        conn.execute(statement.encode())
    with pytest.raises(psycopg.Error) as caught:
        conn.execute(last.encode())
        # A right to do it that is only used up at the end would be one, too.
        conn.execute("commit")
    assert caught.value.sqlstate in {"42501", "LD005", "23514"}, caught.value


def test_what_replication_does_not_apply_is_taken_from_writers(victims: Database) -> None:
    with victims.connect() as conn:
        conn.execute(f"set session authorization {_name(victims, 'writer')}")
        for statement in WAYS.values():
            conn.execute(statement.format("'hello'", "'x'", "'public.unknown'").encode())
        for fields in FORGED.values():
            statement = WAYS["event"].replace("'q'", "'app'")
            conn.execute(statement.format(*map(_text, fields)).encode())


def test_a_compatible_trigger_captures_what_a_writer_of_the_table_changes(
    victims: Database,
) -> None:
    role = _name(victims, "writer")
    with victims.connect() as conn:
        conn.execute(f"grant select, insert, update, delete, truncate on public.logged to {role}")
        conn.execute(f"set session authorization {role}")
        conn.execute("insert into public.logged values (1), (2)")
        conn.execute("delete from public.logged where id = 1")
        with conn.transaction():
            conn.execute("savepoint a")
            conn.execute("update public.logged set id = 2 where id = 2")
            conn.execute("release a")
        conn.execute("truncate public.logged")
    types = victims.execute(
        "select ev_type from pgq.event_template where ev_extra1 = 'public.logged' order by ev_id"
    )
    assert [kind for (kind,) in types] == ["I:id", "I:id", "D:id", "U:id", "R"]


def test_a_role_writes_into_the_queue_that_it_was_given(victims: Database) -> None:
    role = _name(victims, "stranger")
    insert = "select pgq.insert_event('app', 't', 'd')"
    victims.execute("select pgq.grant_produce('app', %s)", role)
    with victims.connect() as conn:
        conn.execute(f"set session authorization {role}")
        conn.execute(insert.encode())
        assert conn.execute("select pgq.insert_events('app', '{a,b}', '{x,y}')").fetchone() == (2,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select pgq.insert_event('q', 't', 'd')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
        victims.execute("select pgq.grant_produce('q', %s)", role)
    assert caught.value.diag.message_primary == "queue q is a node of a cascade"
    victims.execute("select pgq.set_queue_config('app', 'ntables', '4')")
    last = "select has_table_privilege(%s, 'pgq.event_2_3', 'insert')"
    assert victims.value(last, role) is True
    victims.execute("select pgq.revoke_produce('app', %s)", role)
    with victims.connect() as conn:
        conn.execute(f"set session authorization {role}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(insert.encode())


def test_code_of_an_owner_that_a_worker_runs_is_not_the_worker(victims: Database) -> None:
    owner = _name(victims, "reader")
    with victims.connect(autocommit=False) as conn:
        # As londiste.write_as_owner() runs it, in a session of an administrator.
        conn.execute("create schema londiste_apply")
        conn.execute(
            "create function londiste_apply.write_as_1(s text) returns void language plpgsql"
            " security definer as $$ begin execute s; end $$"
        )
        conn.execute(f"alter function londiste_apply.write_as_1(text) owner to {owner}")
        for tried in (
            "unregister_consumer('q', 'worker')",
            "register_consumer_at('q', 'worker', 2)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
                conn.execute("select londiste_apply.write_as_1(%s)", [f"select pgq.{tried}"])
        conn.rollback()
