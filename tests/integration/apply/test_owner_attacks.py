"""A table owner on the target cannot gain the rights of the worker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psycopg
import pytest

from londiste.applier.applier import Applier
from londiste.applier.plan import TableChange
from londiste.changes.types import Truncate
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.db.owner import OwnerStatement, run
from londiste.db.relation import shapes
from londiste.errors import LondisteError
from londiste.replication.apply.routing import plan
from londiste.settings import WorkerSettings
from tests.fixtures.cluster import Database
from tests.fixtures.copies import A, B, Nodes, fill, same
from tests.fixtures.owners import (
    OWNER,
    SCENE,
    T,
    as_owner,
    insert,
    make_owner,
    make_scene,
    proof,
)

#: What a function of the owner tries once it runs in the worker's session.
ESCAPES = {
    "nothing": "null",
    "reset role": "execute 'reset role'",
    "set role": "execute 'set role ' || quote_ident(session_user)",
    "set local role": "execute 'set local role ' || quote_ident(session_user)",
    "set role none": "execute 'set role none'",
    "role by set_config": "perform set_config('role', 'none', false)",
    "local role by set_config": "perform set_config('role', session_user, true)",
    "session authorization": "execute 'set session authorization default'",
    "session authorization by name": (
        "execute 'set session authorization ' || quote_ident(session_user)"
    ),
    "session authorization by set_config": (
        "perform set_config('session_authorization', session_user, false)"
    ),
    "reset all": "execute 'reset all'",
    "the replica role": "perform set_config('session_replication_role', 'origin', false)",
    "a function with a setting": (
        "execute 'create function shop.inner() returns void language plpgsql set role to default as"
        " $f$ begin insert into vault.proof values (''inner''); end $f$';"
        " perform shop.inner()"
    ),
    "the functions of the guard": (
        "execute (select format('alter function %s security invoker', p.oid::regprocedure)"
        " from pg_proc p where p.proowner = current_user::regrole and p.proname like 'write_as%');"
        " execute 'reset role'"
    ),
    "a function in the place of the guard's": (
        "execute 'create or replace function londiste_apply.write_as_owner() returns void"
        " language sql as ''select 1'''"
    ),
}

_EVIL = """
    create function shop.evil() returns boolean language plpgsql volatile as $evil$
    begin
        insert into shop.seen values (current_user);
        begin
            {escape};
        exception
            when others then
                null;
        end;
        begin
            insert into vault.proof values ('inside');
        exception
            when others then
                null;
        end;
        return true;
    end;
    $evil$;
    create function shop.as_if_immutable(text) returns text language plpgsql immutable as
        'begin perform shop.evil(); return $1; end';
    create function shop.as_trigger() returns trigger language plpgsql as
        'begin perform shop.evil(); return new; end';
"""

_TRIGGER = "create trigger x {when} on shop.t {each} execute function shop.as_trigger();"

#: What carries the function into the statement.
CARRIERS = {
    "always trigger": _TRIGGER.format(when="after insert", each="for each row")
    + "alter table shop.t enable always trigger x",
    "replica trigger": _TRIGGER.format(when="before insert", each="for each row")
    + "alter table shop.t enable replica trigger x",
    "statement trigger": _TRIGGER.format(when="after insert", each="for each statement")
    + "alter table shop.t enable always trigger x",
    "condition of a trigger": (
        "create function shop.quiet() returns trigger language plpgsql as 'begin return new; end';"
        "create trigger x before insert on shop.t for each row when (shop.evil())"
        " execute function shop.quiet(); alter table shop.t enable always trigger x"
    ),
    "check": "alter table shop.t add check (shop.evil())",
    "default": "alter table shop.t add extra boolean default shop.evil()",
    "generated column": (
        "alter table shop.t add g text generated always as (shop.as_if_immutable(v)) stored"
    ),
    "expression index": "create index on shop.t (shop.as_if_immutable(v))",
    "partial index": "create index on shop.t (id) where shop.as_if_immutable(v) is not null",
    "domain": (
        "create domain shop.checked as text check (shop.evil());"
        " alter table shop.t alter v type shop.checked"
    ),
    "array of a domain": (
        "create domain shop.checked as text check (shop.evil());"
        " alter table shop.t add arr shop.checked[];"
        " alter table shop.t alter arr set default array['a'::shop.checked]"
    ),
    "operator": (
        "create function shop.same(text, text) returns boolean language plpgsql immutable as"
        " 'begin return shop.evil(); end';"
        " create operator shop.=== (leftarg = text, rightarg = text, function = shop.same);"
        " alter table shop.t add check (v operator(shop.===) 'a')"
    ),
    "function of PostgreSQL that executes its argument": (
        "alter table shop.t add check (ts_rewrite('a'::tsquery, 'select ''a''::tsquery,"
        " case when shop.evil() then ''b''::tsquery end') is not null)"
    ),
    "table above": (
        "drop table shop.t; create table shop.p (id int8, v text)"
        " partition by range ((shop.as_if_immutable(v)));"
        " create table shop.t partition of shop.p for values from (minvalue) to (maxvalue)"
    ),
    "rule": (
        "create rule r as on insert to shop.t do also select shop.evil();"
        " alter table shop.t enable always rule r"
    ),
    "partition": (
        "alter table shop.t rename to t_old; create table shop.t (id int8 primary key, v text)"
        " partition by range (id); create table shop.t_all partition of shop.t default;"
        " create trigger x before insert on shop.t_all for each row"
        " execute function shop.as_trigger(); alter table shop.t_all enable always trigger x"
    ),
}


def apply(conn: Connection, *changes: TableChange) -> None:
    with conn.transaction():
        conn.execute("select 1")
        Applier(conn, node="leaf", queue="q").apply(
            plan({T: list(changes)}, shapes(conn, [T]), node="leaf")
        )


def _bulk(conn: Connection) -> None:
    apply(conn, *map(insert, range(100, 1000)))


def _rows(conn: Connection) -> None:
    with contextlib.suppress(LondisteError):
        # Is there already: the rows are written one by one.
        apply(conn, insert(50), insert(50))
    apply(conn, insert(51))


def _copied(conn: Connection) -> None:
    with conn.transaction():
        staged = OwnerStatement(conn, T, ["id", "v"])
        with conn.cursor().copy(f"copy {staged.into.quoted} (id, v) from stdin".encode()) as copy:
            copy.write(b"2000\ta\n2001\ta\n")
        staged.finish(2)


def _repaired(conn: Connection) -> None:
    with conn.transaction():
        assert run(conn, T, "insert into shop.t (id, v) values (3000, 'a')") == 1


WAYS: dict[str, Callable[[Connection], None]] = {
    "set": lambda conn: apply(conn, insert(1), insert(2)),
    "bulk": _bulk,
    "rows": _rows,
    "copy": _copied,
    "repair": _repaired,
}


@pytest.fixture
def scene(cleared_pgq_db: Database) -> Database:
    make_scene(cleared_pgq_db)
    return cleared_pgq_db


@pytest.mark.parametrize("carrier", CARRIERS)
def test_code_of_a_table_runs_as_its_owner(scene: Database, carrier: str) -> None:
    as_owner(scene, _EVIL.format(escape=ESCAPES["reset role"]) + CARRIERS[carrier])
    for name, way in WAYS.items():
        with scene.connect(replica=True, autocommit=True) as conn:
            way(conn)
        seen = {row[0] for row in scene.execute("select who from shop.seen")}
        assert seen == {OWNER}, f"{name}: the code did not run at all, or as another role"
        assert proof(scene) == [], name
        assert scene.value("select count(*) from shop.t") > 0, name
        # The next way begins as this one did, also with the functions of the guard.
        scene.execute(
            "truncate shop.t; truncate shop.seen; drop schema if exists londiste_apply cascade"
        )


@pytest.mark.parametrize("escape", ESCAPES)
def test_an_owner_does_not_get_out_of_its_role(scene: Database, escape: str) -> None:
    as_owner(scene, _EVIL.format(escape=ESCAPES[escape]) + CARRIERS["always trigger"])
    with scene.connect(replica=True, autocommit=True) as conn:
        for number in range(1, 4):
            with contextlib.suppress(LondisteError):
                apply(conn, insert(number), insert(number + 10))
        assert conn.execute("select current_user = session_user").fetchone() == (True,)
        with conn.transaction():
            assert conn.execute("show session_replication_role").fetchone() == ("replica",)
    assert proof(scene) == []
    assert {row[0] for row in scene.execute("select who from shop.seen")} == {OWNER}


def _evil_trigger(body: str, declared: str = "") -> str:
    return (
        f"{declared}; create function shop.as_trigger() returns trigger language plpgsql as $t$"
        f" begin {body}; return new; end $t$;" + CARRIERS["always trigger"]
    )


_PROOF = "insert into vault.proof values (''later'')"
_LATER = (
    "create function shop.later() returns int language plpgsql as"
    f" 'begin {_PROOF}; return 1; exception when insufficient_privilege then return 1; end'"
)

#: What a trigger leaves behind for the worker to run as itself.
TRAPS = {
    "cursor with hold": _evil_trigger(
        "if to_regclass('shop.done') is null then create table shop.done ();"
        " execute 'declare c cursor with hold for select shop.later()'; end if",
        _LATER,
    ),
    "deferred trigger": (
        f"{_LATER}; create function shop.at_commit() returns trigger language plpgsql as"
        " 'begin perform shop.later(); return null; end';"
        " create constraint trigger c after insert on shop.t deferrable initially deferred"
        " for each row execute function shop.at_commit();"
        " alter table shop.t enable always trigger c"
    ),
    "deferred trigger of a table made on the way": _evil_trigger(
        "if to_regclass('shop.other') is null then create table shop.other (id int);"
        " create constraint trigger c after insert on shop.other deferrable initially deferred"
        " for each row execute function shop.at_commit();"
        " alter table shop.other enable always trigger c; end if;"
        " insert into shop.other values (1)",
        f"{_LATER}; create function shop.at_commit() returns trigger language plpgsql as"
        " 'begin perform shop.later(); return null; end'",
    ),
    "deferred by a statement": (
        f"{_LATER}; create function shop.at_commit() returns trigger language plpgsql as"
        " 'begin perform shop.later(); return null; end';"
        " create constraint trigger c after insert on shop.seen deferrable initially immediate"
        " for each row execute function shop.at_commit();"
        " alter table shop.seen enable always trigger c;"
        + _evil_trigger(
            "execute 'set constraints all deferred'; insert into shop.seen values ('x')", "select 1"
        )
    ),
    "operators before those of PostgreSQL": _evil_trigger(
        "perform set_config('search_path', 'shop, pg_catalog', false)",
        f"{_LATER};"
        + "".join(
            f" create function shop.eq({kind}, {kind}) returns boolean language sql as"
            f" 'select shop.later() is not null';"
            f" create operator shop.= (leftarg = {kind}, rightarg = {kind}, function = shop.eq);"
            for kind in ("text", "name", "oid", "int8", "int4", '"char"', "boolean")
        )
        + " create function shop.current_setting(text) returns text language sql as"
        " 'select shop.later()::text'; create function shop.count(text) returns int8 language sql"
        " as 'select shop.later()::int8'",
    ),
    "prepared statements": _evil_trigger(
        "for i in 0..30 loop"
        " begin execute format('deallocate %I', '_pg3_' || i);"
        " exception when others then null; end;"
        " begin execute format('prepare %I as select shop.later()', '_pg3_' || i);"
        " exception when others then null; end; end loop",
        _LATER,
    ),
    "prepared statements, and an error": _evil_trigger(
        "for i in 0..30 loop"
        " begin execute format('deallocate %I', '_pg3_' || i);"
        " exception when others then null; end;"
        " begin execute format('prepare %I as select shop.later()', '_pg3_' || i);"
        " exception when others then null; end; end loop; raise exception 'no'",
        _LATER,
    ),
    "temporary table in the place of ours": _evil_trigger(
        "create temp table if not exists londiste_stage (id int8, v text);"
        " create temp table if not exists pg_class (oid oid)",
        "select 1",
    ),
    "quotes that escape": _evil_trigger(
        "perform set_config('standard_conforming_strings', 'off', false);"
        " perform set_config('client_encoding', 'SJIS', false);"
        " perform set_config('bytea_output', 'escape', false);"
        " perform set_config('datestyle', 'German', false);"
        " perform set_config('transform_null_equals', 'on', false);"
        " perform set_config('londiste.run_as_owner', 'off', false)",
        "select 1",
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_an_owner_leaves_nothing_that_runs_as_the_worker(scene: Database, trap: str) -> None:
    as_owner(scene, TRAPS[trap])
    with scene.connect(replica=True, autocommit=True) as conn:
        clean = _settings(conn)
        for number in range(1, 12):
            with contextlib.suppress(LondisteError):
                apply(conn, insert(number), insert(number + 100))
            if number == 1:
                with contextlib.suppress(LondisteError, psycopg.Error):
                    _copied(conn)
            with contextlib.suppress(psycopg.Error):
                conn.execute("select count(*) from pg_catalog.pg_class where relname = 't'")
        # A statement under the name of a prepared one would be run in its place.
        assert conn.prepare_threshold is None
        # A language that was loaded has brought settings of its own.
        assert {k: v for k, v in _settings(conn).items() if k in clean} == clean
    assert proof(scene) == []


def _settings(conn: Connection) -> dict[str, str]:
    return dict(
        conn.execute(
            "select name, setting from pg_catalog.pg_settings"
            " where context in ('user', 'superuser')"
        ).fetchall()
    )


def test_a_truncate_trigger_runs_as_the_owner(scene: Database) -> None:
    as_owner(
        scene,
        _EVIL.format(escape=ESCAPES["reset role"])
        + _TRIGGER.format(when="after truncate", each="for each statement")
        + "alter table shop.t enable always trigger x",
    )
    with scene.connect(replica=True, autocommit=True) as conn:
        apply(conn, Truncate(1, 1, T))
        run(conn, T, "truncate shop.t")
    assert scene.execute("select distinct who from shop.seen") == [(OWNER,)]
    assert proof(scene) == []


def test_a_schema_that_somebody_else_has_made_is_refused(scene: Database) -> None:
    scene.execute(f"create schema londiste_apply authorization {OWNER}")
    with (
        scene.connect(replica=True, autocommit=True) as conn,
        pytest.raises(LondisteError, match="londiste_apply is open to other roles"),
    ):
        apply(conn, insert(1))


def test_the_functions_of_the_guard_are_out_of_reach_of_their_owner(scene: Database) -> None:
    with scene.connect(replica=True, autocommit=True) as conn:
        apply(conn, insert(1))
    name = scene.value(
        "select p.oid::regprocedure::text from pg_proc p"
        " where proname like 'write_as_%'"
        " and pronamespace = 'londiste_apply'::regnamespace"
    )
    for statement in (
        "alter function {} security invoker",
        "grant all on function {} to public",
        "drop function {}",
        "alter function {} set role to postgres",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_owner(scene, statement.format(name))


def test_tables_of_the_worker_are_written_as_ever(scene: Database) -> None:
    scene.execute("create table public.mine (id int8 primary key)")
    with scene.connect(replica=True, autocommit=True) as conn:
        shape = shapes(conn, [TableName("public", "mine")])[TableName("public", "mine")]
        assert not shape.of_other
        assert OwnerStatement(conn, TableName("public", "mine"), ["id"]).direct
    assert scene.value("select to_regnamespace('londiste_apply') is null")


def test_a_table_without_code_of_its_own_is_copied_directly(scene: Database) -> None:
    with scene.connect(replica=True, autocommit=True) as conn, conn.transaction():
        assert shapes(conn, [T])[T].of_other
        assert OwnerStatement(conn, T, ["id", "v"]).direct


def test_run_as_owner_false_trusts_the_owners(scene: Database) -> None:
    as_owner(scene, _EVIL.format(escape="null") + CARRIERS["always trigger"])
    settings = WorkerSettings(db=scene.dsn, queue_name="q", run_as_owner=False)
    with session(settings.db, replica=True, autocommit=True) as conn:
        apply(conn, insert(1))
    assert proof(scene) == ["inside"]


def test_a_copy_of_a_table_with_code_runs_as_its_owner(nodes: Nodes) -> None:
    make_owner(nodes.leaf)
    nodes.leaf.execute(SCENE.replace("create table shop.t (id int8 primary key, v text);", ""))
    nodes.leaf.execute(
        f"alter table public.a owner to {OWNER}; alter table public.b owner to {OWNER}"
    )
    as_owner(
        nodes.leaf,
        _EVIL.format(escape=ESCAPES["reset role"])
        + "create domain shop.checked as text check (shop.evil());"
        " alter table public.a alter v type shop.checked;"
        " create trigger x before insert on public.b for each row"
        " execute function shop.as_trigger(); alter table public.b enable always trigger x",
    )
    # The session that made the domain has run it.
    nodes.leaf.execute("truncate vault.proof, shop.seen")
    fill(nodes, A, 1500)
    fill(nodes, B, 20)
    nodes.add(A, B)
    nodes.start()
    nodes.wait_end()
    assert same(nodes, A)
    assert same(nodes, B)
    assert nodes.leaf.execute("select distinct who from shop.seen") == [(OWNER,)]
    assert proof(nodes.leaf) == []
