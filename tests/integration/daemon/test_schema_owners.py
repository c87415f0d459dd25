"""Schemas of Londiste that another role owns, or may fill: nothing is installed or run there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from psycopg import conninfo

from londiste.cascade import sqlapi as nodes
from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db import connection
from londiste.db.connection import Connection
from londiste.db.sessions import schema_guard
from londiste.db.sessions.schema_guard import named
from londiste.errors import InstallError, NotTrusted
from londiste.install import apply, compat, owners, script
from londiste.monitor.doctor.examine import examine
from londiste.replication.worker import connections
from londiste.settings import WorkerSettings
from londiste.ticker import maintenance
from tests.fixtures.cascade import CommandLine, Nodes
from tests.fixtures.cluster import Database
from tests.fixtures.sources import psql
from tests.support.suite.slow import only

SCHEMAS = ["pgq", "pgq_node", "pgq_ext", "pgq_coop", "londiste", "londiste_capture"]


class Roles(NamedTuple):
    """Roles without rights: a stranger, a group, two members of the group."""

    stranger: str
    group: str
    first: str
    second: str


@pytest.fixture
def roles(pgq_db: Database, database: Database) -> Iterator[Roles]:
    """Roles for ``database``, which has no SQL; that of pgq_db has made the group roles."""
    made = Roles(*(f"{name}_{database.name}" for name in Roles._fields))
    for role in made:
        database.execute(f"create role {role} login")
    database.execute(f"grant {made.group} to {made.first}, {made.second}")
    database.execute(f"grant create on database {database.name} to {made.stranger}, {made.group}")
    yield made
    for role in made:
        database.execute(f"drop owned by {role} cascade; drop role {role}")


def act(database: Database, role: str, statements: str) -> None:
    with database.connect() as conn:
        conn.execute(f"set session authorization {role}".encode())
        conn.execute(statements.encode())


def _as(database: Database, role: str) -> Connection:
    conn = database.connect()
    conn.execute(f"set session authorization {role}".encode())
    return conn


def refusal(conn: Connection) -> NotTrusted:
    with pytest.raises(NotTrusted) as caught:
        apply.install(conn)
    return caught.value


@pytest.mark.parametrize("schema", only(SCHEMAS, "londiste"))
def test_an_empty_schema_of_a_stranger_is_not_filled(
    schema: str,
    database: Database,
    pgq_db: Database,
    roles: Roles,
    capsys: pytest.CaptureFixture[str],
) -> None:
    act(database, roles.stranger, f"create schema {schema}")
    for option in ([], ["--dry-run"]):
        assert run(cli, ["install", "--db", database.dsn, *option]) == 4
        error = capsys.readouterr().err
        assert f"schema {schema} belongs to role {roles.stranger}" in error
        assert f"hint: it is empty: drop schema {schema}" in error
    done = psql(database, script.script())
    assert done.returncode == 3
    assert f"schema {schema} belongs to role {roles.stranger}" in done.stderr
    (finding,) = [one for one in examine(database.dsn, pgq_db.dsn) if one.kind == "sql-refused"]
    assert (finding.side, finding.do) == ("source", f"it is empty: drop schema {schema}")
    # The hint is followed as printed.
    database.execute(f"drop schema {schema}")
    assert psql(database, script.script()).returncode == 0
    assert apply.install(database.connect()) == []


@pytest.mark.parametrize("schema", only(SCHEMAS, "pgq", "londiste"))
def test_a_schema_that_has_changed_its_owner_is_reported_everywhere(
    schema: str, nodes_of: Nodes, londiste: CommandLine, database: Database, roles: Roles
) -> None:
    db = nodes_of.root().db
    db.execute(f"alter schema {schema} owner to {roles.stranger}")
    try:
        answer = londiste(db, "install")
        assert answer.code == 4
        assert f"schema {schema} belongs to role {roles.stranger}" in answer.err
        assert psql(db, script.script()).returncode == 3
        found = londiste(db, "check", "--json").json["findings"]
        (finding,) = [one for one in found if one["kind"] == "schema-owner"]
        assert schema in finding["what"]
        with pytest.raises(NotTrusted, match=roles.stranger):
            compat.check(db.connect(), "londiste")
            compat.check(db.connect(), "pgq_coop")
            compat.check(db.connect(), "pgq_ext")
        with pytest.raises(NotTrusted, match=roles.stranger):
            connections.own_node(WorkerSettings(db=db.dsn, queue_name="q", job_name="j"))
        with pytest.raises(NotTrusted, match=roles.stranger):
            connections.provider(db.dsn, "", name="w", queue="q", node="root")
        if schema == "pgq":
            with pytest.raises(NotTrusted, match=roles.stranger):
                maintenance.check(db.connect())
        assert f"alter schema {schema} owner to postgres" in finding["do"]
    finally:
        db.execute(f"alter schema {schema} owner to postgres")
    assert londiste(db, "install").code == 0
    assert londiste(db, "check").code == 0


def test_a_right_to_write_proofs_is_reported_everywhere(
    nodes_of: Nodes, londiste: CommandLine, database: Database, roles: Roles
) -> None:
    db = nodes_of.root().db
    db.execute(f"grant insert on pgq.control_event to {roles.stranger}")
    found = [
        *londiste(db, "check", "--json").json["findings"],
        *londiste(db, "queue", "status", "--json").json["findings"],
    ]
    told = [one for one in found if one["kind"] == "internal-rights"]
    assert len(told) == 2
    assert {one["severity"] for one in told} == {"critical"}
    (finding,) = [one for one in examine(db.dsn, database.dsn) if one.kind == "internal-rights"]
    assert finding.object == roles.stranger
    assert finding.sql and finding.admin
    for statement in finding.sql:
        db.execute(statement)
    assert londiste(db, "check").code == 0


@pytest.mark.parametrize("schema", only(SCHEMAS, "pgq", "londiste_capture"))
@pytest.mark.parametrize("to", ["public", "stranger", "londiste_writer"])
def test_a_right_to_create_is_reported(
    schema: str, to: str, pgq_db: Database, database: Database, roles: Roles
) -> None:
    grantee = roles.stranger if to == "stranger" else to
    conn = pgq_db.connect()
    pgq_db.execute(f"grant create on schema {schema} to {grantee}")
    try:
        if to == "londiste_writer" and schema == "londiste_capture":
            assert apply.install(conn) == []
            return
        error = refusal(conn)
        assert f"create objects in schema {schema}" in error.message
        assert f"revoke create on schema {schema} from {grantee}" in error.hint
    finally:
        if (to, schema) != ("londiste_writer", "londiste_capture"):
            pgq_db.execute(f"revoke create on schema {schema} from {grantee}")
    assert apply.install(conn) == []


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (
            "create function pgq.ticker(int4) returns int8 language sql return 1",
            "routine pgq.ticker(integer)",
        ),
        ("create table pgq.more (id int)", "table pgq.more"),
        ("create domain pgq.odd as int", "type pgq.odd"),
    ],
)
def test_an_object_of_a_stranger_is_named(
    made: str, name: str, pgq_db: Database, database: Database, roles: Roles
) -> None:
    pgq_db.execute(f"grant usage, create on schema pgq to {roles.stranger}")
    act(pgq_db, roles.stranger, made)
    pgq_db.execute(f"revoke create on schema pgq from {roles.stranger}")
    try:
        error = refusal(pgq_db.connect())
        assert f"{name} belongs to role {roles.stranger}" in error.message
        assert f"drop {name}" in error.hint
    finally:
        pgq_db.execute(f"drop {name}")
        pgq_db.execute(f"drop owned by {roles.stranger} cascade")
    assert apply.install(pgq_db.connect()) == []


def test_another_member_of_the_owning_group_upgrades(database: Database, roles: Roles) -> None:
    for schema in SCHEMAS:
        act(database, roles.first, f"set role {roles.group}; create schema {schema}")
    # Empty, it might be of any member.
    assert f"belongs to role {roles.group}" in refusal(_as(database, roles.first)).message
    with _as(database, roles.first) as conn:
        conn.execute(f"set role {roles.group}".encode())
        assert apply.install(conn, ["pgq"])
    assert apply.install(_as(database, roles.second), ["pgq"]) == []
    compat.check(_as(database, roles.second), "pgq")


def test_a_membership_that_the_owner_has_granted_is_no_consent(
    database: Database, roles: Roles
) -> None:
    installer, between, eve, team = roles.first, roles.second, roles.stranger, f"team_{roles.group}"
    forged = f"""
        create schema pgq authorization {team};
        set role {team}; grant usage on schema pgq to public;
        create table pgq.installed_file (path text, sha256 text, version text);
        grant select, insert on pgq.installed_file to public;
        insert into pgq.installed_file values ('x.sql', 'x', '4.1.0')
    """
    manager, own = f"manager_{roles.group}", f"own_{roles.group}"
    database.execute(f"create role {team}; grant {team} to {eve} with admin option")
    database.execute(f"create role {manager} createrole")
    try:
        act(database, eve, f"grant {team} to {installer}; {forged}")
        error = refusal(_as(database, installer))
        assert f"schema pgq belongs to role {team}" in error.message
        consent = f"revoke {team} from {installer}; grant {team} to {installer}"
        assert f"as a superuser: {consent}" in error.hint
        act(database, eve, f"revoke {team} from {installer}; grant {team} to {between}")
        database.execute(f"grant {between} to {installer}")
        refusal(_as(database, installer))
        # The hint is followed as printed.
        act(database, eve, f"grant {team} to {installer}")
        database.execute(consent)
        assert owners.find(_as(database, installer), ["pgq"], installing=True) == []
        # An administrator without superuser's rights has made both roles.
        act(
            database,
            manager,
            f"create role {own}; create role {installer}_2 login; grant {own} to {installer}_2",
        )
        database.execute(
            f"alter schema pgq owner to {own}; alter table pgq.installed_file owner to {own}"
        )
        assert owners.find(_as(database, f"{installer}_2"), ["pgq"], installing=True) == []
    finally:
        for role in (team, own, f"{installer}_2", manager):
            if database.value("select to_regrole(%s) is not null", role):
                database.execute(f"drop owned by {role} cascade; drop role {role}")


def test_a_superuser_does_not_run_the_code_of_another_installer(
    database: Database, roles: Roles
) -> None:
    with _as(database, roles.group) as conn:
        assert apply.install(conn, ["pgq"])
    assert compat.check(_as(database, roles.stranger), "pgq")
    with pytest.raises(NotTrusted) as caught:
        compat.check(database.connect(), "pgq")
    assert caught.value.hint.startswith(f"connect as role {roles.group}")
    assert refusal(database.connect()).message.endswith(caught.value.message.partition(": ")[2])
    with _as(database, roles.group) as conn:
        assert apply.install(conn, ["pgq"]) == []


def test_a_schema_made_meanwhile_is_not_filled(
    database: Database, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Callable[..., None] = apply.run

    def late(conn: Connection, *rest: object, **options: object) -> None:
        if database.value("select to_regnamespace('pgq') is null"):
            act(database, roles.stranger, "create schema pgq")
        original(conn, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(apply, "run", late)
        error = refusal(database.connect())
    assert f"schema pgq belongs to role {roles.stranger}" in error.message
    assert (
        database.value("select count(*) from pg_class where relnamespace = 'pgq'::regnamespace")
        == 0
    )


def test_a_schema_made_after_the_first_look_is_not_used(database: Database, roles: Roles) -> None:
    conn = database.connect(guarded=True)
    with pytest.raises(InstallError, match='schema "pgq_node" does not exist'):
        nodes.find_node_info(conn, "q")
    made = """
        create sequence pgq_node.runs;
        create function pgq_node.get_node_info(i_queue_name text) returns int8
        language sql return nextval('pgq_node.runs')
    """
    act(database, roles.stranger, f"create schema pgq_node; {made}")
    with pytest.raises(NotTrusted, match=roles.stranger):
        nodes.find_node_info(conn, "q")
    assert not database.value("select is_called from pgq_node.runs")
    database.execute("drop schema pgq_node cascade")
    assert apply.install(conn)
    assert nodes.find_node_info(conn, "q") is None


def test_what_one_session_found_serves_the_next_only_where_no_other_role_can_change_it(
    pgq_db: Database, roles: Roles
) -> None:
    pgq_db.execute("grant create on schema londiste to londiste_writer")
    pgq_db.execute(f"grant londiste_writer to {roles.stranger}")
    pgq_db.connect(guarded=True)
    act(pgq_db, roles.stranger, "create function londiste.f() returns int language sql return 1")
    with pytest.raises(NotTrusted, match=roles.stranger):
        pgq_db.connect(guarded=True)
    pgq_db.execute(
        "drop function londiste.f(); revoke create on schema londiste from londiste_writer"
    )
    state = schema_guard.query("schema_state"), {"schemas": SCHEMAS}
    with pgq_db.connect(guarded=True) as conn:
        seen = schema_guard._peer(conn), frozenset(conn.execute(*state).fetchall())
        assert seen in schema_guard._closed
        # A moment of an earlier look is over; the owner of a function has changed.
        pgq_db.execute(f"alter function pgq.ticker() owner to {roles.stranger}")
        schema_guard._closed[seen] = 0.0
        try:
            with pytest.raises(NotTrusted, match=r"pgq\.ticker"):
                pgq_db.connect(guarded=True)
        finally:
            pgq_db.execute("alter function pgq.ticker() owner to postgres")


def test_a_server_answers_for_no_other_address(
    pgq_db: Database, roles: Roles, tmp_path: Path
) -> None:
    with pgq_db.connect() as conn:
        if not conn.info.host.startswith("/"):
            pytest.skip("the server has no socket here")
        other = tmp_path / "other"
        other.symlink_to(conn.info.host)
    schema_guard._closed.clear()
    connection.connect(conninfo.make_conninfo(pgq_db.dsn, host=str(other))).close()
    pgq_db.execute(f"alter function pgq.ticker() owner to {roles.stranger}")
    try:
        with pytest.raises(NotTrusted, match=r"pgq\.ticker"):
            pgq_db.connect(guarded=True)
    finally:
        pgq_db.execute("alter function pgq.ticker() owner to postgres")


def test_a_copy_of_a_database_is_another_one_whatever_its_number(
    database: Database, new_database: Callable[..., Database]
) -> None:
    if database.value("select current_setting('server_version_num')::int") < 150000:
        pytest.skip("numbers of databases are chosen since PostgreSQL 15")
    database.execute("create schema pgq")
    state = schema_guard.query("schema_state"), {"schemas": SCHEMAS}
    with database.connect() as conn:
        before = conn.execute(*state).fetchall()
    number = database.value("select oid from pg_database where datname = current_database()")
    database.close()
    other = new_database()
    other.execute(f"create database {database.name}_kept template {database.name}")
    other.execute(f"drop database {database.name}")
    other.execute(f"create database {database.name} template {database.name}_kept oid = {number}")
    other.execute(f"drop database {database.name}_kept")
    with database.connect() as conn:
        after = conn.execute(*state).fetchall()
    assert after != before
    assert [row[1:] for row in after] == [row[1:] for row in before]


def test_the_session_of_a_narrower_role_answers_for_no_superuser(
    database: Database, roles: Roles
) -> None:
    act(database, roles.stranger, "create schema pgq")
    dsn = conninfo.make_conninfo(database.dsn, user=roles.first, options=f"-c role={roles.group}")
    connection.connect(dsn).close()
    with pytest.raises(NotTrusted, match=roles.stranger):
        database.connect(guarded=True)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("select * from pgq_node.node_info", {"pgq_node"}),
        ('select * from "pgq_node"."get_node_info"(%s)', {"pgq_node"}),
        ("copy (select pgq.ticker(), londiste.x()) to stdout", {"pgq", "londiste"}),
        ("-- as pgq.ticker()\nselect to_regclass('pgq.queue'), my_pgq.x()", set()),
        ("/* Nothing of Londiste. */ select 1", set()),
        ("comment on table t is 'it''s of pgq.ticker'; select 1", set()),
        ("create function f() returns int as $a$ select pgq.x() $a$ language sql", set()),
        ("select set_config('londiste.run_as_owner', 'on', false)", set()),
    ],
)
def test_the_schemas_of_a_statement_are_known_by_its_text(statement: str, found: set[str]) -> None:
    assert named(SCHEMAS, statement) == found
