"""A migration to a server without all roles, or without a superuser, widens no rights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from psycopg import conninfo

from londiste.migrate import pg_dump, rights, schema_copy
from londiste.migrate.databases import MigrateSettings, Pair, Side
from londiste.orchestration.connections import Connections
from tests.fixtures.cluster import Database
from tests.integration.migrate.test_schema_copy import move
from tests.support.suite.slow import first

SCHEMA = """
create schema app authorization "{owner}";
grant usage on schema app to "{reads}";
revoke usage on schema public from public;
set role "{owner}";
create type app.kind as enum ('a');
revoke usage on type app.kind from public;
create domain app.short as text;
revoke usage on domain app.short from public;
create table app.t (id int primary key, secret app.short, kind app.kind);
grant select on app.t to "{lost}";
grant select (id) on app.t to "{reads}";
create sequence app.s;
grant usage on sequence app.s to "{reads}" with grant option;
create view app.v as select id from app.t;
grant select on app.v to "{lost}", "{reads}";
create function app.elevated(q text) returns void language plpgsql security definer
    as 'begin execute q; end';
revoke execute on function app.elevated from public;
create aggregate app.total(int) (sfunc = int4pl, stype = int);
revoke execute on function app.total(int) from public;
create function app.plain() returns int language sql as 'select 1';
revoke execute on function app.plain from public;
grant execute on function app.plain to "{reads}", "{lost}";
alter default privileges in schema app grant select on tables to "{reads}";
alter default privileges revoke execute on functions from public;
reset role;
revoke all on language plpgsql from public;
revoke execute on function pg_catalog.lo_creat(int) from public;
"""
#: Owners and grants by name, without what names the role of the old server alone.
SEEN = """
select 'n', nspname::text, nspowner::regrole::text,
    coalesce(nspacl, acldefault('n', nspowner))::text[] from pg_namespace
    where nspname in ('app', 'public')
union all
select 'c', relname, relowner::regrole::text,
    coalesce(relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char",
        relowner))::text[]
    from pg_class
    where relnamespace = 'app'::regnamespace and relkind in ('r', 'S', 'v')
union all
select 'a', attname, '', attacl::text[] from pg_attribute where attacl is not null
    and attrelid = 'app.t'::regclass
union all
select 'p', proname, proowner::regrole::text,
    coalesce(proacl, acldefault('f', proowner))::text[] from pg_proc
    where pronamespace = 'app'::regnamespace or proname = 'lo_creat'
union all
select 't', typname, typowner::regrole::text,
    coalesce(typacl, acldefault('T', typowner))::text[] from pg_type
    where typnamespace = 'app'::regnamespace and typtype in ('e', 'd')
union all
select 'l', lanname, '', coalesce(lanacl, acldefault('l', lanowner))::text[]
    from pg_language where lanname = 'plpgsql'
union all
select 'd', defaclobjtype::text, defaclrole::regrole::text, defaclacl::text[] from pg_default_acl
order by 1, 2
"""


def _seen(database: Database, lost: str) -> list[tuple[object, ...]]:
    """Without a grant to the role that is lost, and without a release's rights of the owner."""
    return [
        (
            *one[:3],
            sorted(a.replace("arwdDxtm/", "arwdDxt/") for a in one[3] or () if lost not in a),
        )
        for one in database.execute(SEEN)
    ]


@pytest.fixture
def names(
    database16: Database, new_database: Callable[..., Database]
) -> Iterator[tuple[Database, Database, dict[str, str]]]:
    """An old database, a new one, and the roles: all but one in both servers."""
    old, new = database16, new_database()
    roles = {name: f"{name} {old.name}" for name in ("owner", "reads", "lost", "mover")}
    for name in roles.values():
        old.execute(f'create role "{name}"')
    for name in ("owner", "reads"):
        new.execute(f'create role "{roles[name]}"')
    new.execute(f'create role "{roles["mover"]}" login in role "{roles["owner"]}"')
    old.execute(SCHEMA.format(**roles))
    yield old, new, roles
    new.execute(f'alter database "{new.name}" owner to postgres')
    for database in (old, new):
        for name in roles.values():
            if database.value("select 1 from pg_roles where rolname = %s", name):
                database.execute(f'drop owned by "{name}" cascade; drop role "{name}"')


def _make(old: str, new: str, way: str, *, accept: bool = False) -> list[str]:
    """Creates the structure; what was skipped."""
    method = schema_copy.SchemaMethod(way)
    dumper = pg_dump.find_dumper(16)
    pair = Pair(
        MigrateSettings(from_db=old, to_db=new),
        Side("old", old, old, "o"),
        Side("new", new, new, "n"),
    )
    warned: list[str] = []
    with Connections(name="test") as sites:
        schema_copy.MakeStructure(pair, method, dumper, True, accept, warned.append).run(sites)
    return warned


@pytest.mark.parametrize("way", first(["create", "pg_dump"]))
def test_a_missing_role_loses_its_own_grants_only(
    names: tuple[Database, Database, dict[str, str]], way: str
) -> None:
    old, new, roles = names
    lost = roles["lost"]
    done = move(old, new, "start", "--schema", way, "--no-daemons")
    assert done.exit_code == 0, done.output
    if way == "create":
        old.execute("drop aggregate app.total(int)")
    assert _seen(new, lost) == _seen(old, lost)
    for one in ("table app.t", "view app.v", "function app.plain()"):
        assert one in done.output
    assert f"grants of role {lost} on" in done.output
    assert not new.value(
        "select has_function_privilege(%s, 'app.elevated(text)', 'execute')", roles["reads"]
    )
    assert move(old, new, "finish", "--abandon").exit_code == 0


def test_a_function_whose_owner_is_lost_does_not_run_as_the_user_of_the_migration(
    names: tuple[Database, Database, dict[str, str]],
) -> None:
    old, new, roles = names
    lost = roles["lost"]
    old.execute(f'alter function app.elevated owner to "{lost}"')
    checked = move(old, new, "check", "--json")
    (found,) = (f for f in json.loads(checked.stdout)["findings"] if f["kind"] == "definers")
    assert found["what"] == (
        "1 SECURITY DEFINER functions would run as postgres: function app.elevated(q text)"
    )
    assert f'create role "{lost}" nologin' in found["do"]
    for way in ("pg_dump", "create"):
        refused = move(old, new, "start", "--schema", way, "--no-daemons")
        assert refused.exit_code != 0, refused.output
        assert "--accept-definers" in refused.output
    assert new.value("select to_regnamespace('app') is null")
    assert any(
        "function app.elevated(q text): belongs to you" in one
        for one in _make(old.dsn, new.dsn, "pg_dump", accept=True)
    )
    assert not new.value(
        "select has_function_privilege(%s, 'app.elevated(text)', 'execute')", roles["reads"]
    )


@pytest.mark.parametrize("way", first(["pg_dump", "create"]))
def test_a_user_who_is_no_superuser_restores_owners_and_grants(
    names: tuple[Database, Database, dict[str, str]], way: str
) -> None:
    old, new, roles = names
    lost, mover = roles["lost"], roles["mover"]
    # What belongs to the system, he may not change.
    old.execute("grant execute on function pg_catalog.lo_creat(int) to public")
    old.execute("grant usage on language plpgsql to public")
    new.execute(f'alter database "{new.name}" owner to "{mover}"')
    if way == "create":
        old.execute("drop aggregate app.total(int)")
    warned = _make(old.dsn, conninfo.make_conninfo(new.dsn, user=mover), way)
    assert _seen(new, lost) == _seen(old, lost)
    assert all(lost in one for one in warned), warned


def test_both_databases_are_compared(
    names: tuple[Database, Database, dict[str, str]],
) -> None:
    old, new, roles = names
    reads = roles["reads"]
    _make(old.dsn, new.dsn, "pg_dump")
    new.execute("grant execute on function app.elevated(text) to public")
    new.execute(f'revoke select (id) on app.t from "{reads}"; alter view app.v owner to postgres')
    there, here = (rights.state(one.connect()) for one in (old, new))
    found = {words for words, _, _ in rights.in_words(rights.compare(there, here), here)}
    assert found == {
        "PUBLIC has more rights in the {name} database",
        f"{reads} has fewer rights in the {{name}} database",
        f"{roles['lost']} has fewer rights in the {{name}} database",
        f"objects of role {roles['owner']} belong to another role in the {{name}} database",
    }
