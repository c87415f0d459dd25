"""A user who is no administrator of queues: create-root and a refused event name the grant."""

from __future__ import annotations

import os
from collections.abc import Callable

import psycopg
import pytest
from psycopg import conninfo

from londiste.db.queries import translated
from londiste.db.session_role import replica_grants
from londiste.errors import AccessDenied, from_database
from londiste.monitor.doctor.examine import examine
from londiste.monitor.queues.model import Severity
from tests.fixtures.cascade import CommandLine
from tests.fixtures.cluster import Database

ROLE = f"owner_{os.getpid()}"


def test_the_missing_membership_is_found_before_a_table_is_added(
    new_database: Callable[..., Database], pgq_db: Database, londiste: CommandLine
) -> None:
    database = new_database(pgq=False)
    database.execute(f"create role {ROLE} login")
    database.execute(f'alter database "{database.name}" owner to {ROLE}')
    database.execute(f"create table t (id int primary key); alter table t owner to {ROLE}")
    dsn = conninfo.make_conninfo(database.dsn, user=ROLE)
    as_role = ["--set", f"db={dsn}"]
    grant = f'grant londiste_writer to "{ROLE}"'
    try:
        (found,) = [one for one in examine(dsn) if one.kind == "administration"]
        assert tuple(found.sql) == (grant,) and found.do == f"as an administrator: {grant}"
        assert londiste(database, *as_role, "install").code == 0
        made = londiste(database, *as_role, "create-root", "root", dsn)
        assert made.code == 0 and "is no member of pgq_admin on the root server" in made.err
        assert grant in made.err
        refused = londiste(database, *as_role, "add-table", "t")
        assert "takes events of this type from administrators only" in refused.err
        assert f"as an administrator: {grant.replace(chr(34), '')}" in refused.err
        database.execute(grant)
        assert londiste(database, *as_role, "add-table", "t").code == 0
        assert not [one for one in examine(dsn) if one.kind == "administration"]
    finally:
        database.execute(f"reassign owned by {ROLE} to postgres; drop owned by {ROLE}")
        database.execute(f"drop role {ROLE}")


@pytest.mark.parametrize("member", [False, True])
def test_a_target_with_sql_of_another_role_needs_the_membership(
    pgq_db: Database, new_database: Callable[..., Database], member: bool
) -> None:
    version = pgq_db.connect().info.server_version
    source = new_database(pgq=False)
    pgq_db.execute(f"create role {ROLE} login")
    pgq_db.execute(f'grant create on database "{pgq_db.name}" to {ROLE}')
    if member and version < 160000:
        pgq_db.execute(f"alter role {ROLE} noinherit; grant londiste_writer to {ROLE}")
        statement = f'alter role "{ROLE}" inherit'
    elif member:
        pgq_db.execute(f"grant londiste_writer to {ROLE} with inherit false")
        statement = f'grant londiste_writer to "{ROLE}" with inherit true'
    else:
        statement = f'grant londiste_writer to "{ROLE}"'
    target = conninfo.make_conninfo(pgq_db.dsn, user=ROLE)
    told = ("administration", "unreadable")
    try:
        found = [one for one in examine(source.dsn, target) if one.kind in told]
        assert [(one.kind, one.side, one.sql) for one in found] == [
            (kind, "target", (statement,)) for kind in told
        ]
        assert found[0].severity is Severity.CRITICAL
        pgq_db.execute(statement)
        assert not [one for one in examine(source.dsn, target) if one.kind in told]
    finally:
        pgq_db.execute(f"drop owned by {ROLE}")
        pgq_db.execute(f"drop role {ROLE}")


@pytest.mark.parametrize("where", ["role", "database", "options"])
def test_who_works_as_a_group_role_is_told_to_leave_it(pgq_db: Database, where: str) -> None:
    pgq_db.execute(f"create role {ROLE} login in role pgq_reader")
    dsn = conninfo.make_conninfo(pgq_db.dsn, user=ROLE)
    only_here = f' in database "{pgq_db.name}"' if where == "database" else ""
    if where == "options":
        dsn = conninfo.make_conninfo(dsn, options="-c role=pgq_reader")
        statements: tuple[str, ...] = ()
    else:
        pgq_db.execute(f"alter role {ROLE}{only_here} set role = pgq_reader")
        statements = (f"alter role {ROLE}{only_here.replace(chr(34), '')} reset role",)
    try:
        found = [one for one in examine(dsn) if one.severity is Severity.CRITICAL]
        assert [(one.kind, one.sql) for one in found] == [("administration", statements)]
        assert f"{ROLE} works as pgq_reader" in found[0].what
        assert (statements or ("options",))[0] in found[0].do and "grant" not in found[0].do
    finally:
        pgq_db.execute(f"drop role {ROLE}")


def test_the_missing_right_of_a_parameter_is_named_with_the_user(database: Database) -> None:
    database.execute(f"create role {ROLE} login")
    try:
        with database.connect(autocommit=True) as conn:
            conn.execute(f"set session authorization {ROLE}")
            statement = "set session_replication_role = replica"
            with pytest.raises(AccessDenied) as caught, translated(conn):
                conn.execute(statement)
            user, version = conn.info.user, conn.info.server_version
            grants = "; ".join(replica_grants(user, version))
            assert caught.value.hint == f"as an administrator: {grants}"
            with pytest.raises(psycopg.Error) as plain:
                conn.execute(statement)
        hint = from_database(plain.value).hint
        assert "grant set on parameter session_replication_role" in hint and "pgq" not in hint
    finally:
        database.execute(f"drop role {ROLE}")
