"""SQL functions that programs call raise no NOTICE, nor a warning of strings with backslashes."""

from __future__ import annotations

from pathlib import Path

import psycopg

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_root

CALLS = [
    "select pgq.create_queue('other')",
    "select pgq.register_consumer('other', 'c')",
    "select pgq.maint_rotate_tables_step1('other')",
    "select pgq.maint_rotate_tables_step2()",
    "select pgq.unregister_consumer('other', 'c')",
    "select pgq.drop_queue('other')",
    "select * from londiste.local_add_table('q', 't', '{tgflags=C}')",
    "select * from londiste.local_change_handler('q', 't', '{tgflags=L}', null)",
    "select londiste.create_capture('q', 'u')",
    "select londiste.drop_capture('q', 'u')",
    "select londiste.drop_capture('q', 'u')",
    "select * from londiste.local_remove_table('q', 't')",
    "select * from pgq_node.demote_root('q', 1, 'n2')",
    "select * from pgq_node.demote_root('q', 2, 'n2')",
    "select * from pgq_node.demote_root('q', 3, 'n2')",
    "select * from pgq_node.promote_branch('q')",
    "select * from pgq_node.drop_node('q', 'n1')",
    "select * from londiste.create_partition('u', 'u_1', 'id', 'at', now(), 'day')",
]


def test_functions_print_nothing(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("create table t (id int primary key)")
    pgq_db.execute("create table u (id int primary key, at timestamptz)")
    pgq_db.execute("select pgq_node.register_location('q', 'n2', 'dbname=n2', false)")
    printed: list[str | None] = []
    with psycopg.connect(pgq_db.dsn, autocommit=True) as conn:
        conn.add_notice_handler(lambda notice: printed.append(notice.message_primary))
        for call in CALLS:
            conn.execute(call.encode())
            assert printed == [], call


#: Every function of consuming and producing, in an order that works.
APPLICATION_CALLS = [
    "select pgq.register_consumer('q', 'c')",
    "select pgq.register_consumer('q', 'd')",
    "select pgq.note_consumer_kind('q', 'c', 'batch')",
    "select pgq.current_event_table('q')",
    "select pgq.insert_event('q', 't', 'a')",
    "select pgq.insert_event('q', 't', 'b', 'x', null, null, null)",
    "select pgq.insert_event_at('q', now() + interval '1 hour', 't', 'c')",
    "select * from pgq.insert_event_once('q', 'key', 't', 'd')",
    "select pgq.insert_event_raw('q', null, now(), null, null, 't', 'e', null, null, null, null)",
    "select pgq.insert_events('q', '{t,t,t}', '{f,g,h}')",
    "select pgq.count_bulk_events('q', 1)",
    "select pgq.first_refused_event('q', '{t}', '{x}')",
    "select pgq.force_tick('q')",
    "select pgq.ticker('q')",
    "select pgq.next_batch('q', 'c')",
    "select * from pgq.next_batch_info('q', 'c')",
    "select * from pgq.next_batch_custom('q', 'c', null, null, null)",
    "select * from pgq.finish_and_next('q', 'd')",
    "select * from pgq.read_ahead('q', 'd', 1)",
    "select * from pgq.get_batch_events(1)",
    "begin",
    "select * from pgq.get_batch_cursor(1, 'all', 10)",
    "select * from pgq.get_batch_cursor(1, 'some', 1, 'ev_id > 0')",
    "select * from pgq.fetch_batch_events('some', 10, 1000)",
    "commit",
    "select * from pgq.batch_event_spread(1)",
    "select pgq.batch_page_sql(1, array[event_table], array[first_page], array[last_page])"
    " from pgq.batch_event_spread(1)",
    "select pgq.event_retry(1, 1, 0)",
    "select pgq.event_retry(1, 2, now())",
    "select pgq.event_failed(1, 4, 'bad')",
    "select pgq.event_retry_or_fail(1, 7, 0, 1, 'bad')",
    "select pgq.events_retry_or_fail(1, '{8}', '{0}', '{2}', '{bad}')",
    "select pgq.event_retry_raw('q', 'c', now(), 99, now(), 1, 't', 'z', null, null, null, null)",
    "select pgq.batch_retry(2, 0)",
    "select pgq.finish_batch(1)",
    "select pgq.pause_consumer('q', 'c', 'why')",
    "select pgq.resume_consumer('q', 'c')",
    "select pgq.register_consumer_at('q', 'c', 1)",
    "select pgq_coop.register_subconsumer('q', 'e', 'e1')",
    "select pgq_coop.next_batch('q', 'e', 'e1')",
    "select * from pgq_coop.receive('q', 'e', 'e1', 10)",
    "select pgq_coop.unregister_subconsumer('q', 'e', 'e1', 1)",
    "select pgq.unregister_consumer('q', 'd')",
]


def test_consumers_and_producers_may_read_backslashes_as_escapes(pgq_db: Database) -> None:
    """As programs do that were written for ``standard_conforming_strings = off``."""
    functions = Path(__file__).parents[3] / "sql/pgq/functions"
    for path in [*functions.glob("consuming/*.sql"), *functions.glob("producing/*.sql")]:
        assert any(f"pgq.{path.stem}(" in call for call in APPLICATION_CALLS), path.stem
    pgq_db.execute("select pgq.create_queue('q')")
    printed: list[str | None] = []
    with psycopg.connect(pgq_db.dsn, autocommit=True) as conn:
        conn.add_notice_handler(lambda notice: printed.append(notice.message_primary))
        conn.execute("set standard_conforming_strings = off")
        conn.execute("set escape_string_warning = on")
        for call in APPLICATION_CALLS:
            conn.execute(call.encode())
            assert printed == [], call
