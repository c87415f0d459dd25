"""A schema of a stranger with a name of Londiste's: no code of its ledger runs in a command."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.errors import NotTrusted
from londiste.install import apply, remove
from londiste.install.remove import DropSchema
from londiste.monitor.doctor import collect
from londiste.shell import statements
from londiste.shell.session import Session
from tests.fixtures.cluster import Database

#: What the planner evaluates, and what rows are filtered by.
TRAPS = {
    "index": "create index on londiste.installed_file (path) where evil.tells(1)",
    "policy": "alter table londiste.installed_file enable row level security;"
    " create policy p on londiste.installed_file using (evil.tells(1))",
}
LEDGER = """
create schema londiste; create schema evil; create sequence evil.calls;
create table londiste.installed_file (path text, sha256 text, version text);
grant usage on schema londiste, evil to public;
grant select on londiste.installed_file to public; grant usage on sequence evil.calls to public;
create function evil.told() returns boolean language plpgsql as $$ begin
    if current_user <> '{eve}' then perform nextval('evil.calls'); end if;
    return true;
end $$;
create function evil.tells(int) returns boolean language plpgsql immutable
    as 'begin return evil.told(); end';
insert into londiste.installed_file values ('component.toml', 'x', '4.1.0');
"""


@pytest.fixture
def roles(pgq_db: Database, database: Database) -> Iterator[tuple[str, str]]:
    """The owner of ``database``, who has installed the queue, and who may create schemas there."""
    owner, eve = f"owner_{database.name}", f"eve_{database.name}"
    database.execute(f"create role {owner} login; create role {eve} login")
    database.execute(f"alter database {database.name} owner to {owner}")
    database.execute(f"grant create on database {database.name} to {eve}")
    assert apply.install(_as(database, owner), ["pgq"])
    yield owner, eve
    database.execute(f"alter database {database.name} owner to {database.value('select user')}")
    database.execute(f"drop owned by {owner}, {eve} cascade; drop role {owner}, {eve}")


def _as(database: Database, role: str) -> Connection:
    conn = database.connect()
    conn.execute(f"set session authorization {role}".encode())
    return conn


@pytest.mark.parametrize("trap", TRAPS)
def test_no_code_of_a_ledger_of_a_stranger_runs(
    trap: str, database: Database, roles: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    owner, eve = roles
    _as(database, eve).execute(LEDGER.format(eve=eve).encode())
    _as(database, eve).execute(TRAPS[trap].encode())
    stranger = f"schema londiste belongs to role {eve}"
    conn = _as(database, owner)
    for act in (apply.install, apply.plan_for, lambda c: remove.plan(c, ["londiste"])):
        with pytest.raises(NotTrusted, match=stranger) as caught:
            act(conn)
        assert caught.value.hint.endswith("drop schema londiste cascade")
    refused = collect._sql(conn).refused
    assert refused is not None
    assert stranger in refused[0]
    # As the shell does it, whose user may have policies of his own.
    conn.execute("reset search_path; reset row_security")
    shell = Session.__new__(Session)
    shell.conn = conn
    if trap == "policy":
        with pytest.raises(NotTrusted, match=stranger):
            statements.show_version(shell)
    else:
        assert ["schema londiste", "4.1.0"] in statements.show_version(shell).rows
    assert conn.execute("show row_security").fetchall() == [("on",)]
    # What is the owner's own goes.
    with caplog.at_level(logging.WARNING):
        steps = remove.uninstall(_as(database, owner))
    assert [one.schema for one in steps if isinstance(one, DropSchema)] == ["pgq"]
    assert f"{stranger}: it stays" in caplog.text
    with pytest.raises(NotTrusted, match=stranger):
        remove.uninstall(_as(database, owner))
    assert not database.value("select is_called from evil.calls")


def test_install_runs_no_code_of_a_schema_that_another_role_says_is_installed(
    pgq_db: Database, database: Database
) -> None:
    owner, eve = f"owner_{database.name}", f"eve_{database.name}"
    database.execute(f"create role {owner} login; create role {eve} login")
    database.execute(f"grant create on database {database.name} to {owner}, {eve}")
    conn = _as(database, eve)
    apply.install(conn, ["pgq"])
    conn.execute(b"select pgq.create_queue('q')")
    conn.execute("create sequence pgq.calls; grant usage on sequence pgq.calls to public")
    conn.execute(
        "create function pgq.told() returns boolean language plpgsql as $$ begin"
        f" if current_user <> '{eve}' then perform nextval('pgq.calls'); end if; return true;"
        " end $$"
    )
    conn.execute(b"alter table pgq.queue rename to queue_rows")
    conn.execute(b"create view pgq.queue as select * from pgq.queue_rows where pgq.told()")
    conn.execute(b"grant usage on schema pgq to public; grant select on pgq.queue to public")
    dsn = f"{database.dsn} user={owner}"
    assert run(cli, ["install", "pgq", "--db", dsn]) == 0
    assert not database.value("select is_called from pgq.calls")
    database.execute(f"drop owned by {owner}, {eve} cascade; drop role {owner}, {eve}")
