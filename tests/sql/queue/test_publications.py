"""Publications of all tables are no obstacle: the server lets rows of each table change.

A table without a key must have a replica identity, or a publication refuses its updates and
deletes.  Debezium creates such a publication by itself.
"""

from __future__ import annotations

from pathlib import Path

from londiste.install import apply
from tests.fixtures.cluster import Database
from tests.support.queue_steps import queue_with_consumer, rotate, tick, value

RELEASE = Path(__file__).parents[2] / "upgrade" / "frozen" / "4.0.0"

#: Permanent tables of which a publication would refuse updates and deletes.
REFUSED = """
    select array(
        select c.oid::regclass::text
        from pg_class c
        where c.relnamespace::regnamespace::text ~ '^(pgq|londiste)'
            and c.relkind in ('r', 'p') and c.relpersistence = 'p'
            and (c.relreplident in ('n', 'd') and not exists (
                select from pg_index i where i.indrelid = c.oid and i.indisprimary))
        order by 1)
"""


def test_a_published_queue_rotates_delivers_delayed_scripts_and_is_dropped(
    pgq_db: Database,
) -> None:
    conn = pgq_db.connect()
    conn.execute("create publication whole for all tables")
    queue_with_consumer(conn)
    conn.execute("select pgq.set_queue_config('q', 'ntables', '4')")
    assert value(conn, REFUSED) == []
    conn.execute("select pgq.unregister_consumer('q', 'c')")
    conn.execute(
        "select pgq.insert_event('q', 'EXECUTE', 'select 1'),"
        " pgq.insert_event_at('q', now(), 'EXECUTE', 'select 1', 'f', null, null, null)"
    )
    conn.execute("select pgq.maint_retry_events()")
    assert value(conn, "select count(*) from pgq.control_event") == 2
    for _ in range(4):
        tick(conn)
        rotate(conn)
    assert value(conn, "select count(*) from pgq.control_event") == 0
    conn.execute("update pgq.event_template set ev_type = 'x'")
    conn.execute("select pgq.drop_queue('q')")


def test_event_tables_of_an_older_release_get_theirs_without_waiting(database: Database) -> None:
    conn = database.connect()
    apply.install(conn, root=RELEASE)
    conn.execute(
        "select pgq.create_queue('q'), pgq.set_queue_config('q', 'rotation_period', '0 s')"
    )
    with database.connect(autocommit=False) as reader:
        reader.execute("select from pgq.event_1_1")
        apply.install(conn)
        assert value(conn, REFUSED) == ["pgq.event_1_1"]
        reader.rollback()
    for _ in range(3):
        tick(conn)
        rotate(conn)
    assert value(conn, REFUSED) == []


def test_a_held_event_table_gets_its_identity_before_its_rows_change(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    for statement in (
        "select pgq_node.register_location('q', n, 'dbname=' || n, false)"
        " from unnest(array['root', 'branch']) as n",
        "select pgq_node.create_node('q', 'branch', 'branch', 'w', 'root', 1, null)",
        "create table public.t (id int primary key)",
        "select londiste.global_add_table('q', 'public.t')",
        "select londiste.local_add_table('q', 'public.t')",
        "alter table pgq.event_1 replica identity default",
        "alter table pgq.event_1_0 replica identity default",
        "insert into pgq.event_1_0 (ev_id, ev_time, ev_type, ev_extra1)"
        " values (1, now(), 'I', 'public.t')",
        "create publication whole for all tables",
    ):
        conn.execute(statement.encode())
    assert value(conn, "select londiste.forget_events('q', 'public.t')") == 1
