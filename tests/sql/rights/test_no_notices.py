"""SQL functions that programs call raise no NOTICE."""

from __future__ import annotations

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
