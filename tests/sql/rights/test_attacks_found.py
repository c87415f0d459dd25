"""Attacks that once succeeded, and legitimate uses that the rights once prevented."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database

#: A function that would show whose rights it has, hidden in one that the planner evaluates.
SPY = """
create table {0}.seen (who name);
create function {0}.look() returns bool language plpgsql volatile as $$
begin insert into {0}.seen values (current_user); return true; end $$;
create function {0}.fixed(int4) returns bool language plpgsql immutable as
$$ begin return {0}.look(); end $$;
grant all on {0}.seen to public;
"""


@pytest.fixture
def admin(pgq_db: Database) -> Iterator[Connection]:
    """The administrator's session, with a root node, and roles: owner (of schema mine), reader,
    other (a reader), writer."""
    with pgq_db.connect() as conn:
        conn.execute("set search_path = public")
        conn.execute(
            "select pgq_node.register_location('q', 'root', 'dbname=root', false);"
            " select pgq_node.create_node('q', 'root', 'root', 'root.w', null, null, null);"
            " select pgq_node.register_location('q', 'branch', 'dbname=branch', false);"
            " select pgq.create_queue('app')"
        )
        roles = {"owner": "", "reader": "pgq_reader", "other": "pgq_reader", "writer": "pgq_writer"}
        for role, of in roles.items():
            conn.execute(f"create role {role}_{pgq_db.name} {'in role ' + of if of else ''}")
        conn.execute(f"create schema mine authorization owner_{pgq_db.name}")
        yield conn
        for role in roles:
            conn.execute(f"drop owned by {role}_{pgq_db.name} cascade")
            conn.execute(f"drop role {role}_{pgq_db.name}")


def session(database: Database, role: str) -> Connection:
    conn = database.connect()
    conn.execute(f"set session authorization {role}_{database.name}")
    return conn


def owned(database: Database, statements: str) -> None:
    with session(database, "owner") as conn:
        conn.execute(statements.encode())


def test_a_capture_plans_nothing_of_the_tables_owner(pgq_db: Database, admin: Connection) -> None:
    owned(pgq_db, "create table mine.t (id int4 primary key, v text)")
    admin.execute("select londiste.create_capture('q', 'mine.t')")
    owned(pgq_db, SPY.format("mine") + "create index on mine.t (v) where mine.fixed(1)")
    number = pgq_db.value("select 'mine.t'::regclass::oid::text")
    pgq_db.execute("truncate mine.seen")
    with session(pgq_db, "owner") as conn:
        conn.execute("select set_config(%s, '1', false)", [f"londiste.resolve_{number}"])
        for change in (
            "insert into mine.t values (1, 'a')",
            "update mine.t set id = 2",
            "with gone as (delete from mine.t returning id) insert into mine.t select id from gone",
            "delete from mine.t",
        ):
            conn.execute(change.encode())
    who = {name for (name,) in pgq_db.execute("select who from mine.seen")}
    assert who == {f"owner_{pgq_db.name}"}


def test_maintenance_reads_nothing_of_a_partitions_owner(
    pgq_db: Database, admin: Connection
) -> None:
    owned(
        pgq_db,
        "create table mine.t (id int4 primary key, v text) partition by range (id);"
        " create table mine.p partition of mine.t for values from (0) to (100)",
    )
    admin.execute("select londiste.local_add_table('q', 'mine.t', '{tgflags=C}', null, null)")
    admin.execute("select londiste.periodic_maintenance()")
    owned(
        pgq_db,
        SPY.format("mine")
        + "insert into mine.t values (1, 'a'); alter table mine.t detach partition mine.p;"
        " create index on mine.p (id) where mine.fixed(1)",
    )
    pgq_db.execute("truncate mine.seen")
    admin.execute("select londiste.periodic_maintenance()")
    owned(pgq_db, "alter table mine.t attach partition mine.p for values from (0) to (100)")
    pgq_db.execute("truncate mine.seen")
    admin.execute("select londiste.periodic_maintenance()")
    assert pgq_db.execute("select who from mine.seen") == []


def test_our_functions_are_no_maintenance_of_a_queue_with_a_chosen_name(admin: Connection) -> None:
    for function in ("pgq.seq_getval", "pg_catalog.lo_import", "pgq.force_tick"):
        found = admin.execute("select pgq._may_maintain(%s)", [function]).fetchone()
        assert found == (False,), function
    for function in ("pgq_node.maint_watermark", "londiste.root_check_seqs"):
        assert admin.execute("select pgq._may_maintain(%s)", [function]).fetchone() == (True,)


def test_a_name_that_was_taken_before_does_not_make_the_owner_of_a_nodes_consumer(
    pgq_db: Database, admin: Connection
) -> None:
    with session(pgq_db, "reader") as reader:
        reader.execute("select pgq.register_consumer('q', 'branch.w')")
        reader.execute("select pgq.register_consumer('q', '.branch.watermark')")
        admin.execute("select pgq_node.register_subscriber('q', 'branch', 'branch.w', null)")
        for tried in (
            "select pgq.register_consumer_at('q', 'branch.w', 1)",
            "select pgq.unregister_consumer('q', 'branch.w')",
            "select pgq.unregister_consumer('q', '.branch.watermark')",
            "select pgq.next_batch('q', 'branch.w')",
            "select pgq_coop.register_subconsumer('q', 'branch.w', 'x')",
        ):
            if "next_batch" in tried:
                admin.execute("insert into pgq.delayed_event select where false")
                admin.execute("select pgq.force_tick('q'); select pgq.ticker('q')")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(tried.encode())


def test_a_worker_of_another_role_is_not_taken_away(pgq_db: Database, admin: Connection) -> None:
    admin.execute("select pgq.register_consumer('app', 'c')")
    with session(pgq_db, "reader") as reader, session(pgq_db, "other") as other:
        reader.execute("select pgq_coop.register_subconsumer('app', 'c', 's')")
        admin.execute("select pgq.insert_event('app', 't', 'd'), pgq.force_tick('app')")
        admin.execute("select pgq.ticker('app')")
        (batch,) = reader.execute("select pgq_coop.next_batch('app', 'c', 's')").fetchone() or (0,)
        assert batch
        for tried in (
            "select pgq_coop.unregister_subconsumer('app', 'c', 's', 1)",
            f"select pgq_coop.finish_batch({batch})",
            f"select pgq.finish_batch({batch})",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute(tried.encode())
        assert reader.execute(f"select pgq_coop.finish_batch({batch})").fetchone() == (1,)
        reader.execute("select pgq_coop.unregister_subconsumer('app', 'c', 's', 1)")


def test_a_lock_by_a_reference_is_no_truncate(pgq_db: Database, admin: Connection) -> None:
    writer = f"writer_{pgq_db.name}"
    admin.execute(
        "create table refd (id int4 primary key); insert into refd values (1);"
        " select londiste.local_add_table('q', 'public.refd', '{tgflags=L}', null, null);"
        f" grant references on refd to {writer}; create schema wr authorization {writer}"
    )
    with session(pgq_db, "writer") as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        with conn.transaction():
            conn.execute("create table wr.mine (id int4 references public.refd)")
            conn.execute("drop table wr.mine")
            conn.execute("select pgq.insert_event('q', 'R', '', 'public.refd', null, null, null)")


@pytest.mark.parametrize(
    ("create", "trigger"),
    [
        ("create table t (id int4 primary key, v text)", "before insert"),
        ("create table t (id int4 primary key, v text)", "after insert"),
    ],
)
def test_writers_of_a_table_with_a_compatible_trigger_write(
    pgq_db: Database, admin: Connection, create: str, trigger: str
) -> None:
    admin.execute(create.encode())
    admin.execute(
        f"create trigger l {trigger} or update or delete on t for each row"
        " execute function pgq.logutriga('q')".encode()
    )
    admin.execute(f"grant all on t to writer_{pgq_db.name}")
    with session(pgq_db, "writer") as conn:
        conn.execute("insert into public.t values (1, 'a')")
        conn.execute("update public.t set v = 'b'")
        conn.execute("delete from public.t")
    assert pgq_db.value("select count(*) from pgq.event_template where ev_extra1 = 'public.t'") == 3


def test_writers_of_a_table_with_another_name_in_the_queue_write(
    pgq_db: Database, admin: Connection
) -> None:
    admin.execute(
        "create schema arch; create table arch.o9 (id int4 primary key);"
        " select londiste.local_add_table('q', 'public.o9', '{}', null, 'arch.o9')"
    )
    writer = f"writer_{pgq_db.name}"
    admin.execute(f"grant usage on schema arch to {writer}; grant all on arch.o9 to {writer}")
    with session(pgq_db, "writer") as conn:
        conn.execute("insert into arch.o9 values (1)")
    # The name in the queue is free here, and nobody else's.
    admin.execute(f"grant create on schema public to {writer}")
    with session(pgq_db, "writer") as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("create table public.o9 (id int4 primary key)")
        conn.execute(
            "create trigger l after insert on public.o9 for each row"
            " execute function pgq.logutriga('q')"
        )
        conn.execute("insert into public.o9 values (2)")


def test_the_owner_of_a_captured_table_adds_partitions_and_empties_them(
    pgq_db: Database, admin: Connection
) -> None:
    owned(
        pgq_db,
        "create table mine.t (id int4 primary key, v text) partition by range (id);"
        " create table mine.p partition of mine.t for values from (0) to (100)",
    )
    admin.execute("select londiste.create_capture('q', 'mine.t')")
    owned(
        pgq_db,
        "create table mine.p2 partition of mine.t for values from (100) to (200);"
        " insert into mine.t values (1, 'a'), (150, 'b'); truncate mine.p",
    )
    types = "select count(*) from pgq.event_template where ev_extra1 = 'mine.t'"
    assert pgq_db.value(types) == 3


@pytest.mark.parametrize("mended_by", ["maintenance", "refresh"])
def test_a_captured_table_that_changes_hands_is_for_its_new_owner(
    pgq_db: Database, admin: Connection, mended_by: str
) -> None:
    owned(
        pgq_db,
        "create table mine.t (id int4 primary key) partition by range (id);"
        " create table mine.p partition of mine.t for values from (0) to (100);"
        " create table mine.o (id int4)",
    )
    other = f"other_{pgq_db.name}"
    add = "create table mine.p2 partition of mine.t for values from (100) to (200)"
    admin.execute("select londiste.create_capture('q', 'mine.t')")
    admin.execute(f"grant all on schema mine to {other}".encode())
    admin.execute(f"alter table mine.t owner to {other}".encode())
    with session(pgq_db, "other") as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(add.encode())
    (told,) = admin.execute("select reason, kind from londiste.stale_captures('q')").fetchall()
    assert told[1] == "owner"
    what, _, remedy = str(told[0]).partition(": ")
    assert what == "its function is not for the present owner of the table"
    renew = "select londiste._renew_captures()"
    admin.execute((renew if mended_by == "maintenance" else remedy).encode())
    assert admin.execute("select * from londiste.stale_captures('q')").fetchall() == []
    with session(pgq_db, "other") as conn:
        conn.execute(add.encode())
    # The former owner cannot write events of the table any more.
    name = pgq_db.value(
        "select tgfoid::regproc::text from pg_trigger where tgname ~ '^_lon' limit 1"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        owned(pgq_db, f"create trigger a after insert on mine.o execute function {name}('q')")


def test_a_role_that_may_truncate_a_partition_hides_none_of_its_rows(
    pgq_db: Database, admin: Connection
) -> None:
    owned(
        pgq_db,
        "create table mine.t (id int4 primary key, v text) partition by range (id);"
        " create table mine.p partition of mine.t for values from (0) to (100);"
        f" grant usage on schema mine to other_{pgq_db.name};"
        f" grant truncate on mine.p to other_{pgq_db.name}",
    )
    admin.execute("select londiste.create_capture('q', 'mine.t')")
    owned(pgq_db, "insert into mine.t values (1, 'a'), (2, 'b')")
    number = pgq_db.value("select 'mine.t'::regclass::oid::text")
    with session(pgq_db, "other") as conn, conn.transaction():
        conn.execute("select set_config(%s, '1', true)", [f"londiste.emptied_{number}"])
        conn.execute("truncate mine.p")
    deleted = ["INSERT", "INSERT", "DELETE", "DELETE"]
    kinds = (
        "select array_agg(ev_type::json ->> 'op' order by ev_id) from pgq.event_template"
        " where ev_extra1 = 'mine.t'"
    )
    assert pgq_db.value(kinds) == deleted
    owned(pgq_db, "insert into mine.t values (3, 'c'); truncate mine.t")
    assert pgq_db.value(kinds) == [*deleted, "INSERT", "TRUNCATE"]


def test_a_node_is_no_subscriber_of_itself(pgq_db: Database, admin: Connection) -> None:
    refused = admin.execute(
        "select ret_code, ret_note from pgq_node.register_subscriber('q', 'root', 'w', null)"
    ).fetchone()
    assert refused == (400, "A node is no subscriber of itself: root")
    assert pgq_db.value("select count(*) from pgq_node.subscriber_info") == 0
    assert not pgq_db.value("select count(*) from pgq.consumer where co_name = 'w'")


def test_a_reader_or_writer_subscribes_no_node_and_holds_no_watermark(
    pgq_db: Database, admin: Connection
) -> None:
    for role in ("reader", "writer"):
        with session(pgq_db, role) as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select pgq_node.register_subscriber('q', 'branch', 'w', null)")
    assert pgq_db.value("select count(*) from pgq_node.subscriber_info") == 0
    assert not pgq_db.value("select count(*) from pgq.consumer where co_name = 'w'")
