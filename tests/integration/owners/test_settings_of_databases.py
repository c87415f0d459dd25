"""A database owner who is no superuser chooses settings for every session of the database.

Nothing of it may run code with the rights of who connects, or change what a query returns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.connection import connect
from londiste.db.sessions import pooler
from londiste.errors import NotTrusted
from londiste.install import apply, owners
from tests.fixtures.cluster import Database

#: A function that makes mallory a superuser, if a superuser runs it, and what calls it by a name
#: that is found in ``evil`` before pg_catalog.
TRAP = """
create schema evil;
create function evil.act(text) returns boolean language plpgsql as $$
begin
    if (select rolsuper from pg_catalog.pg_roles r where r.rolname::pg_catalog.text
            operator(pg_catalog.=) current_user::pg_catalog.text) then
        execute 'alter role {mallory} superuser';
    end if;
    return true;
end $$;
"""
TYPES = """
create domain evil.text as pg_catalog.text check (evil.act(value));
create domain evil.int4 as pg_catalog.int4 check (evil.act(null));
create domain evil.bool as pg_catalog.bool check (evil.act(null));
"""
OPERATOR = """
create function evil.same({left}, {right}) returns boolean
    language sql as $$ select evil.act(null) $$;
create operator evil.= (leftarg = {left}, rightarg = {right}, function = evil.same);
"""
FUNCTIONS = """
create function evil.unnest(pg_catalog.text[], pg_catalog.text[]) returns table (n pg_catalog.text,
    v pg_catalog.text) language sql as $$ select 'a.b', 'c' where evil.act(null) $$;
create function evil.current_setting(pg_catalog.text) returns pg_catalog.text
    language sql as $$ select 'x' where evil.act(null) $$;
create function evil.bool_and(boolean) returns boolean language sql as $$ select evil.act(null) $$;
"""


@pytest.fixture
def mallory(database: Database) -> Iterator[str]:
    """The owner of ``database``, a role without rights."""
    name = f"mallory_{database.name}"
    database.execute(f"create role {name} login")
    database.execute(f"alter database {database.name} owner to {name}")
    yield name
    database.execute(f"alter database {database.name} reset all")
    database.execute(f"alter database {database.name} owner to {database.value('select user')}")
    database.execute(f"drop owned by {name} cascade; drop role {name}")


def _act(database: Database, role: str, *statements: str) -> None:
    """Each statement as the role, in a session without settings of the program."""
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        conn.execute(f"set session authorization {role}".encode())
        for statement in statements:
            conn.execute(statement.encode())


def _harmless(database: Database, role: str) -> bool:
    asked = "select not rolsuper from pg_catalog.pg_roles where rolname = %s"
    with psycopg.connect(database.cluster.dsn()) as conn:
        return conn.execute(asked, [role]).fetchone() == (True,)


def _trap(database: Database, role: str) -> None:
    kinds = ("text", "name", "oid", "bool")
    pairs = [(k, k) for k in kinds] + [("int4", f"int{size}") for size in (2, 4, 8)]
    operators = [
        OPERATOR.format(left=f"pg_catalog.{left}", right=f"pg_catalog.{right}")
        for left, right in pairs
    ]
    _act(database, role, TRAP.format(mallory=role), TYPES, FUNCTIONS, *operators)
    _act(database, role, f"alter database {database.name} set search_path = evil, pg_catalog")


def test_nothing_is_found_by_the_path_of_the_database(database: Database, mallory: str) -> None:
    _trap(database, mallory)
    with connect(database.dsn, autocommit=True) as conn:
        assert conn.execute("show search_path").fetchone() == ("pg_catalog, pg_temp",)
    assert _harmless(database, mallory)
    # What a session behind a pooler asks before that.
    with (
        psycopg.connect(database.dsn, autocommit=True) as first,
        contextlib.closing(psycopg.connect(database.dsn, autocommit=True)) as second,
    ):
        assert pooler.keeps_backend(first, lambda: second)
    assert _harmless(database, mallory)
    with connect(database.dsn, autocommit=True) as conn:
        apply.plan_for(conn)
    assert _harmless(database, mallory)
    # The trap works.
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        conn.execute("select 'x'::text")
    assert not _harmless(database, mallory)


def test_a_role_of_the_database_is_not_used(
    database: Database, mallory: str, caplog: pytest.LogCaptureFixture
) -> None:
    _act(database, mallory, f"alter database {database.name} set role = {mallory}")
    for options in ("", " options='-c session_replication_role=replica'"):
        with connect(database.dsn + options, autocommit=True) as conn:
            assert conn.execute("select current_user = session_user").fetchone() == (True,)
    assert f"options='-c role={mallory}'" in caplog.text
    # One that somebody with the right to connect has chosen is.
    for options in (f"-c role={mallory}", f"-crole={mallory}", f"-c jit=off --role={mallory}"):
        with connect(f"{database.dsn} options='{options}'", autocommit=True) as conn:
            assert conn.execute("select current_user::text").fetchone() == (mallory,)


@pytest.mark.parametrize(
    ("of_database", "expected"), [("off", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
)
def test_synchronous_commits_are_set_for_the_session(
    database: Database, of_database: str, expected: str
) -> None:
    """So that no reload of the server's settings changes them while a daemon runs."""
    database.execute(f"alter database {database.name} set synchronous_commit = {of_database}")
    setting = "select setting, source from pg_settings where name = 'synchronous_commit'"
    with connect(database.dsn, autocommit=True, synchronous=True) as conn:
        assert conn.execute(setting.encode()).fetchone() == (expected, "session")


@pytest.mark.parametrize("chosen", [False, True], ids=["by the owner", "by who connects"])
def test_schemas_of_the_owner_are_not_run_by_a_superuser(
    chosen: bool, database: Database, pgq_db: Database, mallory: str
) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        conn.execute(f"set session authorization {mallory}".encode())
        apply.install(conn)
    _act(
        database,
        mallory,
        f"alter database {database.name} set role = {mallory}",
        "create or replace function pgq.ticker() returns bigint language plpgsql as $$ begin"
        f" set role none; alter role {mallory} superuser; return 1; end $$",
    )
    dsn = f"{database.dsn} options='-c role={mallory}'" if chosen else database.dsn
    with connect(dsn, autocommit=True, guarded=False) as conn, pytest.raises(NotTrusted) as caught:
        owners.require(conn)
    assert f"belongs to role {mallory}" in caught.value.message
    with pytest.raises(NotTrusted, match=mallory):
        connect(dsn)
    assert _harmless(database, mallory)
