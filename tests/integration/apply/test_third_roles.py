"""A worker that is no superuser, and tables of a role of which it is no member."""

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

_INSERT = "insert into shop.t values (1, 'a')"


@pytest.fixture
def worker(pgq_db: Database) -> Iterator[Connection]:
    """The session of such a worker; the vault is open to it."""
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
        conn.execute(f"set session authorization {name}".encode())
        yield conn
    pgq_db.execute(f"drop owned by {name}, {third} cascade; drop role {name}; drop role {third}")


def write(conn: Connection) -> None:
    with conn.transaction():
        oid = shapes(conn, [T])[T].oid
        psycopg.RawCursor(conn).execute(*guarded(conn, oid, _INSERT))


def test_a_deferred_trigger_of_a_third_role_is_refused(
    pgq_db: Database, worker: Connection
) -> None:
    as_owner(pgq_db, _FIRES)
    with pytest.raises(psycopg.Error, match=r"trigger c of table other\.c is deferrable"):
        write(worker)
    assert proof(pgq_db) == []


def test_a_table_of_a_third_role_that_is_not_written_stops_nothing(
    pgq_db: Database, worker: Connection
) -> None:
    write(worker)
    assert pgq_db.value("select count(*) from shop.t") == 1


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
