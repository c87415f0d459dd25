"""What is done for one table reads nothing of all others."""

from __future__ import annotations

import psycopg

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf, make_root, ret

#: Catalogs with rows for every table or function; they are large also in a new database.
LARGE = ["pg_attribute", "pg_class", "pg_depend", "pg_proc", "pg_type"]
ADD = "select * from londiste.add_table_with_seqs('q', 't', '{tgflags=C}', null, null, true, null)"


def test_adding_a_table_reads_no_catalog_from_end_to_end(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("create table t (id serial primary key, n numeric(9,2), v varchar(9))")
    with psycopg.connect(pgq_db.dsn) as conn:
        conn.execute(ADD)
        read = conn.execute(
            "select relname, seq_tup_read from pg_stat_xact_sys_tables"
            " where relname = any (%s) and seq_tup_read > 0",
            [LARGE],
        ).fetchall()
    assert read == []


def test_tables_are_held_against_each_other_only_where_several_fill_one(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    for number in range(3):
        pgq_db.execute(f"create table t{number} (id int primary key)")
        ret(pgq_db, "londiste.global_add_table", "q", f"t{number}")
        ret(pgq_db, "londiste.local_add_table", "q", f"t{number}")
    pgq_db.execute("update londiste.table_info set merge_state = 'in-copy'")
    with psycopg.connect(pgq_db.dsn) as conn:
        conn.execute("set local track_functions = 'all'")
        assert conn.execute("select count(*) from londiste.get_table_list('q')").fetchone() == (3,)
        called = conn.execute(
            "select calls from pg_stat_xact_user_functions where funcname = '_coordinate_copy'"
        ).fetchall()
    assert called == []


def test_a_partition_is_created_without_looking_at_those_that_exist(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("create table t (id int primary key, at timestamptz)")
    pgq_db.value("select londiste.create_capture('q', 't', array['deny'])")
    pgq_db.execute("create table c (like t including all)")
    pgq_db.value("select londiste.create_capture('q', 'c')")
    calls = []
    for day in range(1, 7):
        with psycopg.connect(pgq_db.dsn) as conn:
            conn.execute("set local track_functions = 'all'")
            for table in ("t", "c"):
                conn.execute(
                    "select londiste.create_partition(%s, %s, '', 'at', %s, 'day')",
                    [table, f"{table}_{day}", f"2024-01-{day}"],
                )
            calls += conn.execute(
                "select sum(calls) from pg_stat_xact_user_functions"
                " where funcname in ('_trigger_args', '_capture_body')"
            ).fetchall()
    # The first one changes the capture of its parent.
    assert len(set(calls[1:])) == 1


def test_views_are_refused_without_reading_all_settings(pgq_db: Database) -> None:
    setting = "restrict_nonsystem_relation_kind"
    has = pgq_db.value("select exists (select from pg_settings where name = %s)", setting)
    with psycopg.connect(pgq_db.dsn) as conn:
        conn.execute("select londiste._refuse_views()")
        refused, read = conn.execute(
            "select current_setting(%s, true) is not distinct from 'view', exists (select from"
            " pg_locks where pid = pg_backend_pid() and relation = 'pg_settings'::regclass)",
            [setting],
        ).fetchone() or (None, None)
    assert (refused, read) == (has, False)
