"""The output of ``londiste queue schedule``, run by a substitute for pg_cron."""

from __future__ import annotations

import psycopg
import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.errors import BadOption
from londiste.pgq import batches, producer, queues
from londiste.ticker import cron
from tests.fixtures.cluster import Database
from tests.support.queue_steps import value

STAND_IN = """
create schema cron;
create table cron.job (name text primary key, schedule text, command text, database text);
create function cron.schedule_in_database(n text, s text, c text, d text) returns int8
language sql as $$
    insert into cron.job values (n, s, c, d)
    on conflict (name) do update set schedule = s, command = c, database = d returning 1::int8 $$;
create function cron.schedule(n text, s text, c text) returns int8
language sql as $$ select cron.schedule_in_database(n, s, c, current_database()) $$;
create function cron.unschedule(n text) returns bool
language sql as $$ delete from cron.job where name = n returning true $$;
"""


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    assert run(cli, ["queue", "schedule", *args]) == 0
    return capsys.readouterr().out


def run_jobs(db: Database) -> None:
    """Each command as pg_cron runs it: as it is, in a session of its own, not in a transaction."""
    for (command,) in db.execute("select command from cron.job order by name"):
        with psycopg.connect(db.dsn, autocommit=True) as conn:
            conn.execute(command)


def read(conn: Connection) -> list[str | None]:
    seen: list[str | None] = []
    while (batch := batches.next_batch(conn, "q", "c")) is not None:
        for chunk in batches.events(conn, batch):
            seen += [event.data for event in chunk]
        batches.finish_batch(conn, batch.id)
    return seen


def test_the_printed_jobs_tick_retry_and_rotate(
    pgq_db: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    pgq_db.execute(STAND_IN)
    pgq_db.execute(printed(capsys, "--period", "5"))
    pgq_db.execute(printed(capsys, "--period", "2"))  # replaces
    schedules = pgq_db.execute("select name, schedule from cron.job order by name")
    assert schedules == [
        ("londiste maintenance", "* * * * *"),
        ("londiste retries", "10 seconds"),
        ("londiste ticks", "2 seconds"),
    ]
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    queues.set_queue_config(conn, "q", "ticker_max_count", "1")
    queues.set_queue_config(conn, "q", "rotation_period", "0")
    # One that fails stops no other.
    queues.set_queue_config(conn, "q", "extra_maint", "{no.such_function}")
    batches.register_consumer(conn, "q", "c")
    with conn.transaction():
        for number in range(25):
            producer.insert_event(conn, "q", "t", str(number))
    run_jobs(pgq_db)
    batch = batches.next_batch(conn, "q", "c")
    assert batch is not None
    assert value(conn, "select pgq.batch_retry(%s, 0)", batch.id) == 25
    batches.finish_batch(conn, batch.id)
    run_jobs(pgq_db)
    run_jobs(pgq_db)
    assert sorted(map(str, read(conn)), key=int) == [str(number) for number in range(25)]
    # Tables are rotated as far as the consumer has come, and both steps happen.
    tables = set()
    for _ in range(8):
        run_jobs(pgq_db)
        assert pgq_db.value("select queue_switch_step2 is not null from pgq.queue")
        read(conn)
        (info,) = queues.get_queue_info(conn, "q")
        tables.add(info.queue_cur_table)
        producer.insert_event(conn, "q", "t", "more")
    assert tables == {0, 1, 2}
    assert pgq_db.value("select queue_switch_step2 > queue_switch_step1 from pgq.queue")
    pgq_db.execute(printed(capsys, "--remove"))
    assert pgq_db.value("select count(*) from cron.job") == 0


def test_another_database_is_named_in_the_jobs(
    pgq_db: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    pgq_db.execute(STAND_IN)
    pgq_db.execute(printed(capsys, "--database", "it's"))
    assert pgq_db.execute("select name, database from cron.job order by name limit 1") == [
        ("londiste maintenance of it's", "it's")
    ]
    pgq_db.execute(printed(capsys, "--database", "it's", "--remove"))
    assert pgq_db.value("select count(*) from cron.job") == 0


@pytest.mark.parametrize("period", [0, 60])
def test_a_period_that_pg_cron_does_not_have_is_refused(period: int) -> None:
    with pytest.raises(BadOption, match="period"):
        cron.statements(period)
