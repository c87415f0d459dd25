"""Code of a table raises an error: its event is named, and its words are not Londiste's."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from londiste.applier.applier import Applier
from londiste.applier.plan import TableChange
from londiste.cascade.model import NodeType
from londiste.changes.row_values import origin, stored_error
from londiste.console.facts import masked_text
from londiste.daemon.loop import describe
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.owner import OwnerStatement
from londiste.db.relation import shapes
from londiste.errors import (
    EventError,
    LockTimeout,
    LondisteError,
    NodeUnreachable,
    TransientError,
    from_database,
)
from londiste.replication.apply.routing import plan
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line
from tests.fixtures.owners import OWNER, T, as_owner, insert, make_scene
from tests.support.waiting import wait_for

#: States that mean a temporary failure when the server raises them, and some of Londiste.
STATES = [
    "25006",
    "40001",
    "40P01",
    "55P03",
    "57014",
    "57P01",
    "57P03",
    "08006",
    "53100",
    "LD107",
    "LD200",
]

_TRIGGER = """
    create function {schema}.says() returns trigger language plpgsql as $t$
    begin
        {body};
        return new;
    end $t$;
    create trigger x before insert on {table} for each row execute function {schema}.says();
    alter table {table} enable always trigger x
"""


@pytest.fixture
def pgq_db(cleared_pgq_db: Database) -> Database:
    """One database for all, cleared for each."""
    return cleared_pgq_db


def raising(state: str, *, schema: str = "shop", table: str = "shop.t") -> str:
    body = f"raise exception using errcode = '{state}', message = 'own words', hint = 'run evil'"
    return _TRIGGER.format(schema=schema, table=table, body=body)


def apply(conn: Connection, name: TableName = T) -> None:
    with conn.transaction():
        conn.execute("select 1")
        changes: list[TableChange] = [insert(n)._replace(table=name) for n in (1, 2)]
        Applier(conn, node="leaf", queue="q").apply(
            plan({name: changes}, shapes(conn, [name]), node="leaf")
        )


@pytest.fixture
def scene(pgq_db: Database) -> Database:
    make_scene(pgq_db)
    return pgq_db


@pytest.mark.parametrize("state", STATES)
def test_the_event_of_what_an_owner_raises_is_named(scene: Database, state: str) -> None:
    as_owner(scene, raising(state))
    with scene.connect(replica=True, autocommit=True) as conn, pytest.raises(EventError) as caught:
        apply(conn)
    error = caught.value
    assert (error.event_id, error.finding and error.finding.dest) == (1, "shop.t")
    assert "own words" in error.message
    assert f"SQLSTATE {state}" in error.detail
    assert "change the trigger or function of shop.t" in error.hint
    assert "evil" not in error.hint + error.detail
    assert masked_text(origin(error) + describe(error)) == f"code of table shop.t raised {state}"
    assert not error.retry


@pytest.mark.parametrize("state", STATES[:-2])
def test_so_is_that_of_a_table_of_the_worker(pgq_db: Database, state: str) -> None:
    pgq_db.execute("create table public.mine (id int8 primary key, v text)")
    pgq_db.execute(raising(state, schema="public", table="public.mine"))
    with pgq_db.connect(replica=True, autocommit=True) as conn, pytest.raises(EventError) as caught:
        apply(conn, TableName("public", "mine"))
    assert caught.value.event_id == 1


@pytest.mark.parametrize("state", [*STATES, "P0001", "42501", "28000", "3D000"])
def test_the_hint_of_an_owner_is_not_one_of_londiste(scene: Database, state: str) -> None:
    as_owner(scene, raising(state))
    with (
        scene.connect(replica=True, autocommit=True) as conn,
        pytest.raises(LondisteError) as caught,
        conn.transaction(),
    ):
        staged = OwnerStatement(conn, T, ["id", "v"])
        assert not staged.direct
        with conn.cursor().copy(f"copy {staged.into.quoted} (id, v) from stdin".encode()) as copy:
            copy.write(b"1\ta\n")
        staged.finish(1)
    error = caught.value
    assert "own words" in error.message
    assert "evil" not in error.hint + error.detail
    assert masked_text(stored_error(error)) == f"code of a table raised {state}"
    assert not isinstance(error, NodeUnreachable)
    assert not error.retry


def test_a_right_that_the_owner_lacks_is_not_missing_to_the_worker(scene: Database) -> None:
    body = "insert into vault.proof values ('x')"
    as_owner(scene, _TRIGGER.format(schema="shop", table="shop.t", body=body))
    with scene.connect(replica=True, autocommit=True) as conn, pytest.raises(EventError) as caught:
        apply(conn)
    assert "grant the missing privilege to the owner" in caught.value.hint
    assert "worker's user" not in caught.value.hint


def test_a_function_that_relies_on_the_search_path_of_its_caller_is_named(scene: Database) -> None:
    body = "insert into aud values (1)"
    as_owner(scene, _TRIGGER.format(schema="shop", table="shop.t", body=body))
    as_owner(scene, "create table shop.aud (n int)")
    scene.execute("create table public.mine (id int8 primary key); create table public.aud (n int)")
    scene.execute(_TRIGGER.format(schema="public", table="public.mine", body=body))
    with scene.connect(replica=True, autocommit=True) as conn:
        with pytest.raises(EventError) as caught:
            apply(conn)
        with pytest.raises(psycopg.Error) as plain:
            conn.execute("insert into public.mine values (1)")
    copied = from_database(plain.value)
    for hint, name in ((caught.value.hint, "shop.says()"), (copied.hint, "public.says()")):
        assert f"if {name} means an existing object: alter function {name} set search_path" in hint
        assert "resync" not in hint


def test_row_security_that_is_forced_on_the_owner_has_its_remedy(scene: Database) -> None:
    scene.execute("alter table shop.t enable row level security, force row level security")
    with scene.connect(replica=True, autocommit=True) as conn:
        with pytest.raises(EventError) as caught:
            apply(conn)
        with pytest.raises(LondisteError) as copied, conn.transaction():
            staged = OwnerStatement(conn, T, ["id", "v"])
            with conn.cursor().copy(f"copy {staged.into.quoted} (id, v) from stdin") as copy:
                copy.write(b"1\ta\n")
            staged.finish(1)
    assert 'alter table "shop"."t" no force' in caught.value.hint
    for error in (caught.value, copied.value):
        assert "t no force row level security" in error.hint.replace('"', "")
        assert "bypassrls" in error.hint
        assert "grant the missing" not in error.hint


@pytest.mark.parametrize("owner", ["the worker", OWNER])
def test_a_read_only_session_is_waited_for_and_no_event_is_named(
    scene: Database, owner: str
) -> None:
    if owner != OWNER:
        scene.execute("alter table shop.t owner to current_user")
    with (
        scene.connect(replica=True, autocommit=True) as conn,
        pytest.raises(TransientError, match="read-only transaction") as caught,
    ):
        conn.execute("set default_transaction_read_only = on")
        apply(conn)
    assert "its sessions are read only" in caught.value.hint


def test_the_hint_of_a_table_given_away_names_the_table_and_no_role_of_londiste(
    scene: Database,
) -> None:
    with scene.connect(autocommit=True) as conn:
        scene.execute("alter table shop.t owner to current_user")
        conn.execute(f"set role {OWNER}")
        with pytest.raises(EventError, match="permission denied for table t") as caught:
            apply(conn)
    assert 'alter table "shop"."t" owner to' in caught.value.hint
    assert "londiste_writer" not in caught.value.hint


def test_a_lock_is_waited_for_and_its_table_is_named(scene: Database) -> None:
    with (
        scene.connect(autocommit=True) as other,
        scene.connect(replica=True, autocommit=True) as conn,
        pytest.raises(LockTimeout) as caught,
        other.transaction(),
    ):
        other.execute("lock table shop.t in share mode")
        conn.execute("set lock_timeout = '50ms'")
        apply(conn)
    assert "while table shop.t was written" in caught.value.detail


def test_a_session_that_is_ended_is_no_error_of_the_event(scene: Database) -> None:
    """The table is locked, and the lock is given up together with the session that waits."""
    with (
        scene.connect(autocommit=True) as other,
        scene.connect(replica=True, autocommit=True) as conn,
        ThreadPoolExecutor() as pool,
        other.transaction(),
    ):
        other.execute("lock table shop.t in share mode")
        pid = conn.info.backend_pid
        done = pool.submit(apply, conn)
        end = (
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
        )
        wait_for(lambda: scene.execute(f"{end} and pid = {pid}"), what="the wait")
        with pytest.raises(NodeUnreachable):
            done.result(60)


def test_the_hint_about_a_deferred_trigger_is_kept(scene: Database) -> None:
    as_owner(
        scene,
        "create function shop.later() returns trigger language plpgsql as 'begin return null; end';"
        " create constraint trigger c after insert on shop.t deferrable for each row"
        " execute function shop.later(); alter table shop.t enable always trigger c",
    )
    with scene.connect(replica=True, autocommit=True) as conn, pytest.raises(EventError) as caught:
        apply(conn)
    assert "alter table shop.t enable trigger c" in caught.value.hint
    assert "resync" not in caught.value.hint


def test_a_worker_stores_the_event_and_continues_once_the_code_is_correct(line: Line) -> None:
    schema = "create table t (id int primary key)"
    root = line.node("root", NodeType.ROOT, schema=schema)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=schema)
    for node in (root, leaf):
        line.add(node, "t")
    line.tick()
    line.once(leaf)
    leaf.database.execute(
        f"do $$ begin create role {OWNER} nologin; exception when others then null; end $$;"
        f" alter table t owner to {OWNER}"
    )
    leaf.database.execute(raising("57P01", schema="public", table="public.t"))
    root.database.execute("insert into t values (50)")
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5, str(done)
    shown = line.here(leaf, "events", "show", "--json")
    (found,) = events(shown.out)
    assert (found["table"], found["kind"], found["sqlstate"]) == ("public.t", "refused", "57P01")
    status = line.here(leaf, "status")
    assert "host and port" not in str(status)
    assert "run evil" not in str(status) + str(shown)
    leaf.database.execute("alter table t enable trigger x")
    line.once(leaf)
    assert leaf.database.value("select count(*) from t where id = 50") == 1
    assert events(line.here(leaf, "events", "show", "--json").out) == []


def events(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["events"]
    return found
