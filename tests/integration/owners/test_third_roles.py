"""Deferred triggers on tables of third roles, for a superuser and for a worker that is none."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.connection import Connection
from londiste.db.owner import guarded
from londiste.db.relation import shapes
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf
from tests.fixtures.owners import OWNER, T, as_owner, make_scene, proof

_THIRD = """
    create schema other authorization {third};
    set role {third};
    create table other.c (id int8);
    create function other.later() returns trigger language plpgsql as $t$
    begin
        insert into vault.proof values (current_user);
        return null;
    exception when insufficient_privilege then
        return null;
    end $t$;
    create constraint trigger c after insert on other.c deferrable initially deferred
        for each row execute function other.later();
    alter table other.c enable always trigger c;
    grant usage on schema other to {owner};
    grant insert on other.c to {owner};
"""

_FIRES = """
    create function shop.fires() returns trigger language plpgsql as
        'begin insert into other.c values (1); return new; end';
    create trigger x before insert on shop.t for each row execute function shop.fires();
    alter table shop.t enable always trigger x
"""

_TEMPORARY = """
    create temp table x (id int8);
    create function pg_temp.later() returns trigger language plpgsql as 'begin return null; end';
    create constraint trigger x after insert on x deferrable for each row
        execute function pg_temp.later();
    alter table x enable always trigger x
"""

_INSERT = "insert into shop.t values (1, 'a')"

ROLES = pytest.mark.parametrize("worker", ["superuser", "member"], indirect=True)


@pytest.fixture
def worker(pgq_db: Database, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """The session of a worker: a superuser, or a member of the owner's role.  The vault is open."""
    name, third = f"worker_{pgq_db.name}", f"third_{pgq_db.name}"
    make_scene(pgq_db)
    pgq_db.execute(
        f"create role {name}; grant londiste_writer, {OWNER} to {name}; create role {third};"
        f" grant create on database {pgq_db.name} to {name};"
        f" grant usage on schema vault, shop to {name}; grant insert on vault.proof to {name};"
        f" grant usage on schema vault to {third}"
    )
    pgq_db.execute(_THIRD.format(third=third, owner=OWNER))
    with pgq_db.connect(autocommit=True) as conn:
        if getattr(request, "param", "member") == "member":
            conn.execute(f"set session authorization {name}".encode())
        yield conn
    pgq_db.execute(f"drop owned by {name}, {third} cascade; drop role {name}; drop role {third}")


def write(conn: Connection, statement: str = _INSERT) -> None:
    with conn.transaction():
        oid = shapes(conn, [T])[T].oid
        psycopg.RawCursor(conn).execute(*guarded(conn, oid, statement))


@ROLES
def test_a_deferred_trigger_of_a_third_role_is_refused(
    pgq_db: Database, worker: Connection
) -> None:
    as_owner(pgq_db, _FIRES)
    with pytest.raises(psycopg.Error, match=r"trigger c of table other\.c is deferrable") as caught:
        write(worker)
    assert proof(pgq_db) == []
    hint = caught.value.diag.message_hint or ""
    assert "alter table other.c enable trigger c" in hint


@ROLES
def test_it_is_refused_too_when_a_subtransaction_has_written(
    pgq_db: Database, worker: Connection
) -> None:
    as_owner(
        pgq_db,
        _FIRES.replace(
            "insert into other.c values (1);",
            "begin lock table other.c in share row exclusive mode; insert into other.c values (1);"
            " exception when division_by_zero then null; end;",
        ),
    )
    pgq_db.execute(f"grant all on other.c to {OWNER}")
    with pytest.raises(psycopg.Error, match=r"trigger c of table other\.c is deferrable"):
        write(worker)
    assert proof(pgq_db) == []


@ROLES
def test_a_table_of_a_third_role_that_is_not_written_stops_nothing(
    pgq_db: Database, worker: Connection
) -> None:
    write(worker)
    assert pgq_db.value("select count(*) from shop.t") == 1


@ROLES
def test_a_table_whose_write_was_undone_stops_nothing(pgq_db: Database, worker: Connection) -> None:
    as_owner(
        pgq_db,
        _FIRES.replace(
            "insert into other.c values (1);",
            "begin insert into other.c values (1); raise division_by_zero;"
            " exception when division_by_zero then null; end;",
        ),
    )
    write(worker)
    assert pgq_db.value("select count(*) from shop.t") == 1
    assert proof(pgq_db) == []


@ROLES
def test_a_temporary_table_of_another_session_stops_nothing(
    pgq_db: Database, worker: Connection
) -> None:
    with pgq_db.connect(autocommit=True) as stranger:
        stranger.execute(f"set session authorization third_{pgq_db.name}".encode())
        stranger.execute(_TEMPORARY.encode())
        write(worker)
    assert pgq_db.value("select count(*) from shop.t") == 1


def test_a_replicated_table_with_such_a_trigger_stops_only_what_writes_it(
    pgq_db: Database,
) -> None:
    """A superuser writes it as its owner: that it is replicated makes the trigger no safer."""
    make_scene(pgq_db)
    make_leaf(pgq_db)
    third = f"third_{pgq_db.name}"
    pgq_db.execute(f"create role {third}")
    pgq_db.execute(_THIRD.format(third=third, owner=OWNER))
    pgq_db.execute(
        "insert into londiste.table_info (queue_name, table_name, local) values ('q',"
        " 'other.c', true)"
    )
    try:
        with pgq_db.connect(autocommit=True) as conn:
            write(conn)
            as_owner(pgq_db, _FIRES)
            with pytest.raises(psycopg.Error, match=r"trigger c of table other\.c is deferrable"):
                write(conn, "insert into shop.t values (2, 'a')")
    finally:
        pgq_db.execute(f"drop owned by {third} cascade; drop role {third}")
    assert pgq_db.value("select count(*) from shop.t") == 1
    assert proof(pgq_db) == []


def test_a_table_that_the_worker_replicates_as_itself_stops_nothing(
    pgq_db: Database, worker: Connection
) -> None:
    make_leaf(pgq_db)
    pgq_db.execute(
        "insert into londiste.table_info (queue_name, table_name, local)"
        " values ('q', 'other.c', true);"
        f" grant usage on schema other to worker_{pgq_db.name};"
        f" grant insert on other.c to worker_{pgq_db.name}"
    )
    with worker.transaction():
        worker.execute("insert into other.c values (2)")
        oid = shapes(worker, [T])[T].oid
        psycopg.RawCursor(worker).execute(*guarded(worker, oid, _INSERT))
    assert pgq_db.value("select count(*) from shop.t") == 1
