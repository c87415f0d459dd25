"""``migrate --schema create`` gives functions, views, sequences and schemas to their owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest
from psycopg import conninfo

from londiste.migrate import rights, schema_copy
from londiste.migrate.databases import MigrateSettings, Pair, Side
from londiste.migrate.rights import (
    Grant,
    Rights,
    RightsState,
    compare,
    notes,
    run_as_others,
    statements,
    widened,
)
from londiste.orchestration.connections import Connections
from tests.fixtures.cluster import Database

SCHEMA = """
create schema app authorization "{owner}";
grant usage on schema app to "{user}";
grant usage on schema public to "{user}";
set role "{owner}";
create table app.t (id int primary key);
create sequence app.s;
grant usage, select on sequence app.s to "{user}" with grant option;
create function app.f(a int, b text default 'x') returns int language sql security definer
    as 'select 1';
revoke all on function app.f from public;
grant execute on function app.f to "{user}";
comment on function app.f is 'it''s a \\ "function"';
create function app.g() returns int language sql as 'select 2';
create procedure app.p() language sql as '';
grant execute on procedure app.p to "{user}";
create view app.v as select * from app.t;
grant select on app.v to public;
create materialized view app.m as select * from app.t;
grant select on app.m to "{user}";
reset role;
"""
#: Of every object: its owner, what others may do, its comment.
SEEN = """
select n.nspname, nspowner::regrole::text,
    array(select a::text from unnest(nspacl) a order by 1), null
from pg_namespace n where nspname = 'app'
union all
select p.oid::regprocedure::text, proowner::regrole::text,
    array(select a::text from unnest(proacl) a order by 1), obj_description(p.oid, 'pg_proc')
from pg_proc p where pronamespace = 'app'::regnamespace
union all
select c.oid::regclass::text, relowner::regrole::text,
    array(select a::text from unnest(relacl) a order by 1), null
from pg_class c where relnamespace = 'app'::regnamespace and relkind in ('r', 'S', 'v', 'm')
order by 1
"""


@pytest.fixture
def roles(database: Database) -> Iterator[tuple[str, str]]:
    names = (f"owner {database.name}", f"user {database.name}")
    for name in names:
        database.execute(f'create role "{name}"')
    yield names
    for name in names:
        database.execute(f'drop owned by "{name}"; drop role "{name}"')


def _create(old: str, new: str, *, accept: bool = False) -> list[str]:
    settings = MigrateSettings(from_db=old, to_db=new)
    pair = Pair(
        settings, Side("old", old, old, "migrate_old"), Side("new", new, new, "migrate_new")
    )
    with Connections(name="test") as sites:
        return list(schema_copy.create(sites, pair, accept_definers=accept))


def test_everything_belongs_to_whom_it_belonged(
    database: Database, new_database: Callable[..., Database], roles: tuple[str, str]
) -> None:
    owner, user = roles
    new = new_database()
    database.execute(SCHEMA.format(owner=owner, user=user))
    assert _create(database.dsn, new.dsn) == []
    seen = database.execute(SEEN)
    assert len(seen) == 8
    assert new.execute(SEEN) == seen
    assert new.value("select has_schema_privilege(%s, 'public', 'usage')", user)
    for name in roles:
        new.execute(f'drop owned by "{name}"')


def test_an_owner_who_is_no_superuser_makes_what_is_his(
    database: Database, new_database: Callable[..., Database], roles: tuple[str, str]
) -> None:
    owner, user = roles
    new = new_database()
    database.execute(SCHEMA.format(owner=owner, user=user))
    database.execute(f'alter role "{owner}" login')
    database.execute("create view app.not_his as select 1 as a")
    database.execute(f'grant select on app.not_his to "{owner}"')
    for one in (database, new):
        one.execute(f'alter database "{one.name}" owner to "{owner}"')
    notes = _create(*(conninfo.make_conninfo(d.dsn, user=owner) for d in (database, new)))
    assert notes == [
        "view app.not_his: belongs to you: its owner, role postgres, cannot be set by you"
    ]
    new.execute("drop view app.not_his")
    database.execute("drop view app.not_his")
    assert new.execute(SEEN) == database.execute(SEEN)
    for one in (database, new):
        one.execute(f'alter database "{one.name}" owner to postgres')
    for name in roles:
        new.execute(f'drop owned by "{name}"')


def test_an_owner_who_may_not_create_in_the_schema_is_named_with_the_grant(
    database: Database, new_database: Callable[..., Database], roles: tuple[str, str]
) -> None:
    owner, user = roles
    new = new_database()
    database.execute(
        "create sequence s; create function f() returns int language sql security definer as"
        f""" 'select 1'; alter sequence s owner to "{owner}"; alter function f owner to "{owner}";
        grant create on schema public to "{user}" """
    )
    new.execute(
        f'grant "{owner}" to "{user}"; alter role "{user}" login;'
        f' revoke create on schema public from public; grant create on schema public to "{user}"'
    )
    mine = conninfo.make_conninfo(new.dsn, user=user)
    reason = f'may not create in schema public: grant create on schema public to "{owner}"'
    with psycopg.connect(mine, autocommit=True) as conn:
        there, here = rights.state(database.connect()), rights.state(conn)
        foreseen = {(owner, "public"): ["function public.f()"]}
        assert rights.not_ownable(there, here, "code") == foreseen
        assert _create(database.dsn, mine, accept=True) == [
            "function public.f(), sequence public.s: belongs to you: its owner, role"
            f" {owner}, {reason}"
        ]
        here = rights.state(conn)
        words = list(rights.in_words(compare(there, here), here))
        assert [why for one, why, _ in words if one.startswith("objects")] == [
            f"role {owner} {reason}"
        ]
        assert all(why for _, why, _ in words), words
        new.execute(f'grant create on schema public to "{owner}"')
        now = rights.state(conn)
        assert f'alter sequence public.s owner to "{owner}"' in statements(compare(there, now), now)
        assert rights.not_ownable(there, replace(now, rights={}), "code") == {}
    for one in (database, new):
        one.execute(f'drop owned by "{owner}", "{user}"')


def _state(*found: Rights, version: int = 160000, **roles: bool) -> RightsState:
    return RightsState({one.key: one for one in found}, roles, version)


def test_what_the_old_database_does_not_allow_is_revoked_and_what_is_skipped_is_named() -> None:
    execute = Grant(None, "EXECUTE")
    old = _state(
        Rights("schema", "public", "pg_database_owner", grants=(Grant("lost", "USAGE"),)),
        Rights("function", "a.f()", "lost", "code", grants=(Grant("lost", "EXECUTE"),)),
        Rights("view", "a.v", "mine", grants=(Grant(None, "MAINTAIN"), Grant(None, "SELECT"))),
        Rights("sequence", "a.s", "other"),
        Rights("aggregate", "a.g(integer)", "mine", grants=(Grant("mine", "EXECUTE", own=True),)),
        Rights(
            "default privileges",
            "for role mine on functions",
            "mine",
            grants=(Grant("mine", "EXECUTE", own=True),),
        ),
        version=180000,
    )
    new = _state(
        Rights("schema", "public", "pg_database_owner", grants=(Grant(None, "USAGE"),)),
        Rights("function", "a.f()", "me", "code", grants=(execute,)),
        Rights("view", "a.v", "me"),
        Rights("sequence", "a.s", "me"),
        Rights("aggregate", "a.g(integer)", "me", grants=(Grant("me", "EXECUTE", own=True),)),
        me=True,
        mine=True,
        other=False,
    )
    found = compare(old, new)
    assert statements(found, new) == [
        "revoke USAGE on schema public from public cascade",
        "revoke EXECUTE on function a.f() from public cascade",
        "grant SELECT on table a.v to public",
        "alter default privileges for role mine revoke EXECUTE on functions from public cascade",
        'alter view a.v owner to "mine"',
        'alter routine a.g(integer) owner to "mine"',
    ]
    assert [str(one.old) for one in run_as_others(found)] == ["function a.f()"]
    assert widened(found, {("function", "a.f()")}) == ["function a.f(): EXECUTE of PUBLIC"]
    assert notes([d for d in found if d.old.kind in ("function", "sequence")], new)[:3] == [
        "function a.f(): belongs to you: its owner, role lost, does not exist",
        "sequence a.s: belongs to you: its owner, role other, cannot be set by you",
        "grants of role lost on function a.f() are skipped: it does not exist",
    ]
