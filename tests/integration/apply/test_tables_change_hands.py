"""A table that gets another owner, or another table in its place, is not written as before."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from londiste.applier.applier import Applier, StaleShapes
from londiste.changes.types import Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.owner import OwnerStatement, guarded, run, truncate
from londiste.db.relation import Relation, shapes, versions
from londiste.errors import LondisteError, TransientError
from londiste.replication.apply.routing import plan
from tests.fixtures.cluster import Database
from tests.fixtures.owners import OWNER, T, as_owner, insert, make_scene, proof

#: How a table of the worker becomes one of the owner of its schema, after it was read.
_TRAPPED = f"""
    create sequence shop.ran;
    create function shop.trap() returns trigger language plpgsql as $t$
    begin
        if current_user <> '{OWNER}' then perform nextval('shop.ran'); end if;
        return new;
    end $t$;
    create trigger x before insert on shop.t for each row execute function shop.trap();
    alter table shop.t enable always trigger x
"""
SWAPS = {
    "dropped": "drop table shop.t; create table shop.t (id int8 primary key, v text)",
    "renamed schema": (
        "alter schema shop rename to old; create schema shop authorization"
        f" {OWNER}; create table shop.t (id int8 primary key, v text)"
    ),
    "given away": f"reset role; alter table shop.t owner to {OWNER}; set role {OWNER}",
}


@pytest.fixture
def pgq_db(cleared_pgq_db: Database) -> Database:
    """One database for all, cleared for each."""
    return cleared_pgq_db


@pytest.fixture
def swapped(pgq_db: Database) -> Database:
    """Table t of the worker, in the schema of another role."""
    make_scene(pgq_db)
    pgq_db.execute(
        "reset role; alter table shop.t owner to current_user;"
        f" grant create on database {pgq_db.name} to {OWNER}"
    )
    return pgq_db


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("rows", [2, 900])
@pytest.mark.parametrize("swap", SWAPS)
def test_a_table_that_changed_hands_is_not_written_unguarded(
    swapped: Database, swap: str, rows: int, verify: bool
) -> None:
    def write(known: dict[TableName, Relation], verify: bool) -> None:
        changes = list(map(insert, range(1, rows + 1)))
        with conn.transaction():
            conn.execute("select 1")
            applier.apply(plan({T: changes}, known, node="leaf"), verify=verify)

    with swapped.connect(replica=True, autocommit=True) as conn:
        applier = Applier(conn, node="leaf", queue="q")
        known = shapes(conn, [T])
        assert not known[T].of_other
        as_owner(swapped, f"{SWAPS[swap]}; {_TRAPPED}")
        with pytest.raises(StaleShapes if verify else TransientError):
            write(known, verify)
        assert swapped.value("select not is_called from shop.ran")
        assert swapped.value("select count(*) from shop.t") == 0
        write(shapes(conn, [T]), verify=False)
    assert swapped.value("select not is_called from shop.ran")
    assert swapped.value("select count(*) from shop.t") == rows


BETWEEN = {
    "column": [
        "add w int",
        "alter v type varchar(9)",
        "drop v",
        "rename v to w",
        "alter v set not null",
    ],
    "owner": [f"owner to {OWNER}"],
    "name": ["rename to u"],
    "rows": ["enable row level security", "add check (id > 0)"],
}


@pytest.mark.parametrize("kind", BETWEEN)
def test_a_truncate_between_portions_is_no_change_and_another_is(
    swapped: Database, kind: str
) -> None:
    with swapped.connect(replica=True, autocommit=True) as conn:
        applier = Applier(conn, node="leaf", queue="q")
        for number, change in enumerate(BETWEEN[kind]):
            known = shapes(conn, [T])
            with conn.transaction(force_rollback=True):
                conn.execute("select 1")
                first, second = number * 10, number * 10 + 1
                empty = Truncate(first, 1, T)
                applier.apply(plan({T: [insert(first)]}, known, node="leaf"), more=True)
                applier.apply(plan({T: [empty, insert(second)]}, known, node="leaf"), more=True)
                truncate(conn, T, tree=False)
                applier.apply(plan({T: [insert(first)]}, known, node="leaf"), more=True)
                assert versions(conn, [known[T].oid]) == {known[T].oid: known[T].version}
                conn.execute(f"alter table shop.t {change}".encode())
                with pytest.raises(TransientError):
                    applier.apply(plan({T: [insert(second)]}, known, node="leaf"))


def test_a_table_written_one_by_one_does_not_change_hands(swapped: Database) -> None:
    with swapped.connect(replica=True, autocommit=True) as conn, conn.transaction():
        conn.execute("select 1")
        applier = Applier(conn, node="leaf", queue="q")
        applier.apply(plan({T: [insert(1)]}, shapes(conn, [T]), node="leaf"))
        with pytest.raises(LondisteError):
            # A set that fails releases its locks.
            applier.apply(plan({T: [insert(2), insert(1)]}, shapes(conn, [T]), node="leaf"))
        with swapped.connect(autocommit=True) as other:
            other.execute(f"set role {OWNER}; set lock_timeout = '300ms'")
            for statement in ("drop table shop.t", "alter schema shop rename to old"):
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    other.execute(statement.encode())
        raise psycopg.Rollback


def test_a_statement_of_a_dropped_table_does_not_run(swapped: Database) -> None:
    swapped.execute(f"alter table shop.t owner to {OWNER}")
    with swapped.connect(replica=True, autocommit=True) as conn:
        oid = shapes(conn, [T])[T].oid
        swapped.execute("drop table shop.t")
        with pytest.raises(psycopg.errors.SerializationFailure, match="was dropped"):
            psycopg.RawCursor(conn).execute(
                *guarded(conn, oid, "insert into vault.proof values ('as the worker')")
            )
    assert proof(swapped) == []


def _run(conn: Connection) -> None:
    run(conn, T, "insert into shop.t values (1, 'a')")


def _truncated(conn: Connection) -> None:
    truncate(conn, T, tree=False)


def _copied(conn: Connection) -> None:
    with conn.transaction():
        staged = OwnerStatement(conn, T, ["id", "v"])
        with conn.cursor().copy(f"copy {staged.into.quoted} (id, v) from stdin".encode()) as copy:
            copy.write(b"1\ta\n")
        staged.finish(1)


@pytest.mark.parametrize("way", [_run, _truncated, _copied])
def test_a_table_that_is_replaced_while_its_lock_is_waited_for_is_not_written(
    swapped: Database, way: Callable[[Connection], None]
) -> None:
    trap = _TRAPPED.replace("insert on", "insert or truncate on").replace(
        "each row", "each statement"
    )
    with (
        ThreadPoolExecutor(1) as threads,
        swapped.connect(replica=True, autocommit=True) as conn,
        swapped.connect(autocommit=True) as other,
    ):
        pid = conn.info.backend_pid
        other.execute(f"set role {OWNER}; begin; {SWAPS['dropped']}; {trap}".encode())
        written = threads.submit(way, conn)
        look = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
        while not swapped.value(look, pid):
            assert not written.done()
        other.execute("commit")
        with pytest.raises((TransientError, psycopg.Error)):
            written.result()
    assert swapped.value("select not is_called from shop.ran")


def test_tables_of_the_worker_are_written_by_every_way(swapped: Database) -> None:
    with swapped.connect(replica=True, autocommit=True) as conn:
        for way in (_run, _truncated, _copied):
            way(conn)
    assert swapped.value("select count(*) from shop.t") == 1
