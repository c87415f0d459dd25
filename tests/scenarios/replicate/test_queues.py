"""``londiste replicate --queues``: several queues of a pair, with their daemons."""

from __future__ import annotations

import signal

import psycopg
import pytest

from tests.support.replicating import Replicate, catalog, wait_rows
from tests.support.scenarios import oracles
from tests.support.scenarios.harness import Cascade

#: Two groups of tables; a type and a function that tables of both need.
SCHEMA = """
create type mood as enum ('good', 'bad');
create table customer (id int primary key, m mood default 'good');
create table address (id int primary key, customer int references customer);
create table page (id int primary key, m mood default 'bad');
create table visit (id int primary key, page int references page);
insert into customer select generate_series(1, 100);
insert into page select generate_series(1, 100);
"""
TABLES = ("public.customer", "public.address", "public.page", "public.visit")


@pytest.mark.slow
def test_two_queues_are_one_replication_until_they_are_removed_without_a_trace(
    cascade: Cascade,
) -> None:
    source, target = cascade.make_database(), cascade.make_database()
    source.execute(SCHEMA)
    before = [catalog(source), catalog(target)]
    command = Replicate(cascade, source, target)
    shown = command.run("--queues", "2", "--dry-run")
    assert f"create root of queue {source.name}_2" in shown.out
    assert "queue " in shown.err and "public.address, public.customer" in shown.err
    # Killed in the middle: the same command continues.
    for step in (1, 4, 3):
        words = ("--queues", "2", "--once")
        done = command.run(*words, accept=None, LONDISTE_CRASH=f"plan.after-step:{step}")
        assert done.code == -signal.SIGKILL, str(done)
    process = command.start("--queues", "2")
    wait_rows(target, "select count(*) from customer", 100)
    wait_rows(target, "select count(*) from page", 100)
    # One ticker, and two workers of each of the two queues.
    cascade.wait(lambda: "not running" not in command.run("--status").err, "the daemons")
    with psycopg.connect(source.dsn, autocommit=True) as conn:
        conn.execute(
            "insert into address select g, g from generate_series(1, 50) g;"
            " insert into visit select g, g from generate_series(1, 50) g"
        )
        wait_rows(target, "select count(*) from address", 50)
        wait_rows(target, "select count(*) from visit", 50)
        # CASCADE truncates the tables of one queue only: keys do not lead into another one.
        conn.execute("truncate page cascade")
        wait_rows(target, "select count(*) from visit", 0)
        wait_rows(target, "select count(*) from page", 0)
    assert target.value("select count(*) from address") == 50
    said = f"{target.name}, queue {source.name}_2: in sync, 2 tables"
    cascade.wait(lambda: said in process.said(), "the line of the second queue")
    status = command.run("--status").out.splitlines()
    assert status[0] == f"{source.name}: root, 4 tables"
    assert status[1].startswith(f"{target.name}: ") and len(status) == 6
    process.send(signal.SIGINT)
    assert process.wait() == 0
    assert "--queues 2" in process.said()
    # A new table gets to its relative, without the number.
    source.execute("create table more (id int primary key, page int references page)")
    done = command.run("--once")
    assert "in sync, all tables are equal" in done.err
    assert sum(" yes " in line for line in done.out.splitlines()) == 5
    oracles.assert_same_rows(source, target, (*TABLES, "public.more"))
    places = dict(target.execute("select table_name, queue_name from londiste.table_info"))
    assert places["public.more"] == places["public.page"] != places["public.customer"]
    assert "removed; the databases" in command.run("--remove", "--drop-tables").err
    source.execute("drop table more")
    assert [catalog(source), catalog(target)] == before
    assert "nothing to remove" in command.run("--remove").err


@pytest.mark.slow
def test_saved_files_run_both_queues(cascade: Cascade) -> None:
    source, target = cascade.make_database(), cascade.make_database()
    source.execute(SCHEMA)
    command = Replicate(cascade, source, target)
    first = cascade.directory / "shop.toml"
    second = cascade.directory / "shop_2.toml"
    done = command.run("--queues", "2", "--once", "--save", str(first))
    assert f"saved {first}" in done.err and f"saved {second}" in done.err
    for number, file in enumerate((first, second)):
        cascade.londiste(file, "plan")
        cascade.processes.start(f"run{number}", cascade.command(file, "run"))
    source.execute("insert into customer values (101); insert into page values (101)")
    wait_rows(target, "select count(*) from customer", 101)
    wait_rows(target, "select count(*) from page", 101)
