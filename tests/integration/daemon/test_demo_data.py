"""The demo's tables and writer keep the invariants that the demo verifies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest

from londiste.demo import data
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database, Server, create_database
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def filled(cluster: Server) -> Iterator[Database]:
    """What the tests have copies of."""
    database = create_database(cluster, pgq=False)
    with psycopg.connect(database.dsn) as conn:
        data.create_schema(conn)
        data.fill(conn, orders=2000)
    data.create_pgbench(database.dsn, 1, None)
    yield database
    database.drop()


@pytest.fixture
def shop(filled: Database) -> Iterator[Database]:
    filled.clone(f"{filled.name}_shop")
    database = Database(filled.cluster, f"{filled.name}_shop")
    yield database
    database.drop()


@pytest.fixture
def start_writer() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(dsn: str, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "londiste.demo.writer", dsn, "--rate", "400", *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finish(writer: subprocess.Popen[str]) -> dict[str, object]:
    """Ends a writer as the demo does; its summary."""
    writer.send_signal(signal.SIGTERM)
    out, error = writer.communicate(timeout=60)
    assert writer.returncode == 0, error
    summary = json.loads(out)
    assert isinstance(summary, dict)
    return summary


def kinds(database: Database) -> set[str]:
    return {
        row[0] for row in database.execute("select distinct what from shop.audit where token > 0")
    }


def test_all_tables_are_there_and_have_rows(shop: Database) -> None:
    found = shop.execute(
        "select n.nspname || '.' || c.relname, c.oid::regclass::text from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace"
        " where c.relkind = 'r' and n.nspname !~ '^(pg_|information)'"
    )
    assert {name for name, _ in found} == set(data.TABLES)
    for name, quoted in found:
        rows = shop.value(f"select count(*) from {quoted}")
        assert rows > 0 or name == "public.pgbench_history"
    keyless = shop.execute(
        "select n.nspname || '.' || c.relname from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'r'"
        " and n.nspname in ('shop', 'public', 'Odd Names') and not exists ("
        " select from pg_constraint where conrelid = c.oid and contype = 'p')"
    )
    assert {name for (name,) in keyless} == set(data.APPEND_ONLY)


def test_our_own_pgbench_tables_are_those_of_pgbench(
    shop: Database, new_database: Callable[..., Database]
) -> None:
    theirs = new_database()
    program, environment = theirs.cluster.program("pgbench"), theirs.cluster.environment()
    data.create_pgbench(theirs.dsn, 1, program, environment)
    columns = (
        "select table_name, column_name, data_type, is_nullable, character_maximum_length"
        " from information_schema.columns where table_schema = 'public' order by 1,"
        " ordinal_position"
    )
    constraints = (
        "select conrelid::regclass::text, contype, pg_get_constraintdef(oid) from pg_constraint"
        " where connamespace = 'public'::regnamespace and contype <> 'n' order by 1, 2, 3"
    )
    rows = "select count(*), sum(aid), sum(bid), sum(abalance), min(filler) from pgbench_accounts"
    for question in (columns, constraints, rows):
        assert shop.execute(question) == theirs.execute(question)


def test_the_summary_is_what_was_committed(
    shop: Database, start_writer: Callable[..., subprocess.Popen[str]]
) -> None:
    writer = start_writer(shop.dsn)
    with shop.connect() as conn:
        # Every kind of transaction that commits; give_up never does.
        wait_for(
            lambda: data.torn_tokens(conn) or len(kinds(shop)) == 13,
            what="every kind of transaction",
            timeout=60,
        )
        assert data.torn_tokens(conn) == 0
    summary = finish(writer)
    with shop.connect() as conn:
        assert data.audit_rows(conn) == summary["transactions"]
        assert data.repeated_rows(conn) == 0
        assert data.torn_tokens(conn) == 0
    assert "give_up" not in kinds(shop)


def test_a_torn_transaction_and_a_repeated_row_are_seen(shop: Database) -> None:
    with shop.connect() as conn:
        assert (data.torn_tokens(conn), data.repeated_rows(conn)) == (0, 0)
        conn.execute("update shop.token_b set token = 7 where slot = 3")
        conn.execute("delete from shop.token_c where slot = 4")
        conn.execute("insert into shop.audit select * from shop.audit limit 2")
        assert (data.torn_tokens(conn), data.repeated_rows(conn)) == (2, 2)


def test_the_writer_survives_a_crash_of_the_server_and_still_counts_right(
    new_cluster: Callable[..., Cluster], start_writer: Callable[..., subprocess.Popen[str]]
) -> None:
    server = new_cluster()
    data.create(server, "postgres", orders=1000, scale=1)
    database = Database(server, "postgres")
    writer = start_writer(database.dsn, "--connections", "4")
    for _ in range(2):
        before = database.value("select count(*) from shop.audit")
        server.restart("immediate")
        wait_for(
            lambda before=before: database.value("select count(*) from shop.audit") > before + 50,
            what="transactions after the crash",
        )
    assert finish(writer)["transactions"] == database.value(
        "select count(*) from shop.audit where token > 0"
    )
    assert database.value("select count(*) - count(distinct token) from shop.audit") == 0


def test_the_writer_reports_a_statement_that_fails(
    shop: Database, start_writer: Callable[..., subprocess.Popen[str]]
) -> None:
    shop.execute("drop table shop.audit")
    writer = start_writer(shop.dsn)
    _, error = writer.communicate(timeout=60)
    assert writer.returncode == 1
    assert 'error: relation "shop.audit" does not exist' in error
