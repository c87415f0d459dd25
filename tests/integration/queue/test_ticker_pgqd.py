"""The ticker daemon with configuration files and schemas of pgqd and Londiste 3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from londiste.install import apply
from londiste.pgq import batches, producer, queues
from tests.fixtures.cluster import Database
from tests.integration.queue.test_ticker import (
    FAST,
    Start,
    last_tick,
    queue_in,
    read_all,
    wait_for_tick,
)
from tests.support.queue_steps import value
from tests.support.waiting import wait_for


def test_a_schema_that_the_original_made_is_looked_after_as_well(
    pgq_db: Database, program: Start
) -> None:
    conn = queue_in(pgq_db)
    # Without our ledger it is like any other schema with these functions.
    conn.execute("drop table pgq.installed_file")
    daemon = program(*FAST, "-v", "ticker", "--db", pgq_db.dsn)
    wait_for_tick(conn)
    daemon.says("schema pgq was not installed by Londiste, but is compatible")


def pgqd_file(home: Path, text: str) -> str:
    file = home / "pgqd.ini"
    file.write_text(
        f"[pgqd]\nticker_period = 0.05\nretry_period = 0.05\nmaint_period = 0.05\n{text}"
    )
    return str(file)


def without_database(dsn: str) -> str:
    parts = {k: v for k, v in conninfo_to_dict(dsn).items() if k != "dbname"}
    return make_conninfo("", **parts)


def test_a_file_of_pgqd_looks_after_all_databases_of_a_server_also_new_ones(
    new_database: Callable[..., Database], program: Start, tmp_path: Path
) -> None:
    one, two, bad, none = new_database(pgq=True), new_database(), new_database(), new_database()
    bad.execute("create schema pgq")
    bad.execute("create function pgq.version() returns text language sql as 'select null::text'")
    conn = queue_in(one)
    base = without_database(one.dsn)
    daemon = program(
        pgqd_file(tmp_path, f"base_connstr = {base}\ncheck_period = 0.2\nlogfile =\n"), "ticker"
    )
    wait_for_tick(conn)
    daemon.says("version of schema pgq is unknown")
    apply.install(two.connect())
    wait_for_tick(queue_in(two))
    assert none.name not in daemon.text
    assert daemon.text.count("version of schema pgq is unknown") == 1
    assert "Traceback" not in daemon.text
    # It does not work in what databases of tests are cloned from, where its row would stay.
    daemon.kill()
    assert new_database(pgq=True).execute("table pgq.daemon") == []


def test_database_list_restricts_to_the_databases_it_names(
    new_database: Callable[..., Database], program: Start, tmp_path: Path
) -> None:
    one, other = new_database(pgq=True), new_database(pgq=True)
    conn, untouched = queue_in(one), queue_in(other)
    base = without_database(one.dsn)
    before = last_tick(untouched)
    daemon = program(
        pgqd_file(tmp_path, f"base_connstr = {base}\ndatabase_list = {one.name}\n"), "ticker"
    )
    wait_for_tick(conn)
    assert last_tick(untouched) == before
    assert other.name not in daemon.text


def test_a_schema_of_the_original_is_served_also_an_old_one(
    pgq_db: Database, program: Start
) -> None:
    conn = queue_in(pgq_db)
    # What the original of version 3.0 lacks; and it has no ledger of ours.
    conn.execute("drop table pgq.installed_file")
    conn.execute("drop function pgq.maint_operations()")
    conn.execute("drop function pgq.next_due()")
    conn.execute("create or replace function pgq.version() returns text language sql return '3.0'")
    queues.set_queue_config(conn, "q", "rotation_period", "0")
    program(*FAST, "ticker", "--db", pgq_db.dsn)
    wait_for_tick(conn)
    tables = set()

    def rotated() -> bool:
        read_all(conn)
        tables.add(queues.get_queue_info(conn, "q")[0].queue_cur_table)
        producer.insert_event(conn, "q", "t", "x")
        return len(tables) == 3

    wait_for(rotated, what="all tables to have been current")
    batch = wait_for(lambda: batches.next_batch(conn, "q", "c"), what="a batch")
    value(conn, "select pgq.batch_retry(%s, 0)", batch.id)
    batches.finish_batch(conn, batch.id)
    waiting = "select count(*) from pgq.retry_queue"
    wait_for(lambda: pgq_db.value(waiting) == 0, what="the retries to be put back")
