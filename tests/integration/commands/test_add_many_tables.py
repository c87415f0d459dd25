"""``add-table`` of many tables: one statement each, whole tables whatever happens in the middle."""

from __future__ import annotations

import os

import psycopg

from londiste.cli import cli
from londiste.cli.errors import run as run_command
from tests.fixtures.cascade import CommandLine, Node
from tests.fixtures.cluster import Database
from tests.support.waiting import COUNTED, wait_for

ADDED = "select count(*) from londiste.table_info where local"
CAPTURED = "select count(distinct tgrelid) from pg_trigger where tgname = '_londiste_q'"
SEQS = "select count(*) from londiste.seq_info where local"


def make(db: Database, prefix: str, count: int) -> None:
    for number in range(count):
        db.execute(f"create table {prefix}{number} (id serial primary key, v text)")


def commits(db: Database) -> int:
    """Transactions of the command's sessions, which have ended; asked from another database."""
    db.execute(COUNTED)
    with psycopg.connect(db.cluster.dsn("postgres"), autocommit=True) as conn:

        def value(statement: str) -> int:
            row = conn.execute(statement.encode(), [db.name]).fetchone()
            assert row is not None
            return int(row[0])

        busy = "select count(*) from pg_stat_activity where datname = %s and application_name"
        wait_for(
            lambda: value(f"{busy} = 'londiste admin'") == 0,
            what="the end of the command's session",
        )
        return value("select xact_commit from pg_stat_database where datname = %s")


def test_a_table_is_one_transaction_and_needs_no_other(root: Node, londiste: CommandLine) -> None:
    def spent(prefix: str, count: int) -> int:
        make(root.db, prefix, count)
        before = commits(root.db)
        assert londiste(root.db, "add-table", f"{prefix}*").code == 0
        return commits(root.db) - before

    few, more = spent("few", 5), spent("more", 45)
    assert root.db.value(CAPTURED) == root.db.value(SEQS) == 50
    # The server's own maintenance counts, too, in either of them.
    assert more >= 45, (few, more)
    assert more - few < 80, (few, more)


def test_a_locked_table_is_told_and_the_others_stay_whole(
    root: Node, londiste: CommandLine
) -> None:
    make(root.db, "many", 5)
    with psycopg.connect(root.dsn) as writer:
        writer.execute("insert into many3 values (1)")
        answer = londiste(root.db, "--set", "lock_timeout=0.2", "add-table", "many*")
        assert answer.code != 0
        assert "table public.many3 stays locked" in answer.err
        assert root.db.value(ADDED) == root.db.value(CAPTURED) == root.db.value(SEQS) == 3
    assert londiste(root.db, "add-table", "many*").code == 0
    assert root.db.value(ADDED) == root.db.value(CAPTURED) == root.db.value(SEQS) == 5


def test_a_command_that_was_killed_is_finished_by_the_same_command(
    root: Node, londiste: CommandLine
) -> None:
    make(root.db, "many", 5)
    # Writes the settings.
    assert londiste(root.db, "missing").code == 0
    settings = str(londiste._home / f"{root.db.name}.toml")
    pid = os.fork()
    if pid == 0:
        os.environ["LONDISTE_CRASH"] = "plan.after-step:3"
        run_command(cli, ["-c", settings, "add-table", "many*"])
        os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    assert root.db.value(ADDED) == root.db.value(CAPTURED) == root.db.value(SEQS) == 3
    answer = londiste(root.db, "add-table", "many*")
    assert answer.code == 0
    assert answer.err.count("add table public.many") == 2
    assert root.db.value(ADDED) == root.db.value(CAPTURED) == root.db.value(SEQS) == 5
