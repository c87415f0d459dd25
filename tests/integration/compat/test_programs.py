"""The programs of the talks as they were shown, killed once in the middle of their work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixtures.cluster import Database
from tests.support.skytools.running import column, ini, run, send

QUEUE = "notifications"
WELCOME = [("WelcomeUser", "anna"), ("Other", "x"), ("WelcomeUser", "bert")]


@pytest.fixture
def db(pgq_db: Database) -> Database:
    pgq_db.execute("select pgq.create_queue(%s)", QUEUE)
    return pgq_db


@pytest.mark.parametrize("crash", ["consumer.processed", "consumer.before-commit"])
def test_the_welcome_consumer_greets_each_user_once(
    db: Database, tmp_path: Path, crash: str
) -> None:
    db.execute("create table welcomed (name text)")
    conf = ini(
        tmp_path,
        "welcome_app",
        job_name="welcome_app",
        src_db=db.dsn,
        pgq_queue_name=QUEUE,
        loop_delay=0,
        logfile=f"{tmp_path}/%(job_name)s.log",
    )
    # The first start registers the consumer, and finds nothing.
    run("welcome.py", conf)
    send(db, QUEUE, *WELCOME)
    run("welcome.py", conf, crash=crash)
    assert column(db, "select name from welcomed") == []
    done = run("welcome.py", "-v", conf)
    assert column(db, "select name from welcomed order by 1") == ["anna", "bert"]
    assert "Welcome anna!" in done.stderr
    assert re.search(r"\{count: 3, duration: \d\.\d{4}\}", done.stderr)
    assert "Welcome bert!" in (tmp_path / "welcome_app.log").read_text()


def test_the_row_counter_counts_rows_of_its_table(db: Database, tmp_path: Path) -> None:
    db.execute(
        "create table users (id int primary key);"
        "create table row_count (tbl text, cnt int8);"
        "insert into row_count values ('public.users', 0);"
        "create trigger users_trg after insert or update or delete on users for each row"
        f" execute procedure pgq.logutriga('{QUEUE}')"
    )
    conf = ini(
        tmp_path,
        "row_counter",
        job_name="row_counter",
        db=db.dsn,
        pgq_queue_name=QUEUE,
        table_name="public.users",
        loop_delay=0,
    )
    run("row_counter.py", conf)
    db.execute("insert into users select generate_series(1, 10); delete from users where id > 7")
    send(db, QUEUE)
    run("row_counter.py", conf, crash="consumer.before-commit")
    done = run("row_counter.py", conf)
    assert db.value("select cnt from row_count") == 7
    assert "delta: 7" in done.stderr


@pytest.mark.parametrize("crash", ["consumer.before-commit", "consumer.after-commit"])
def test_the_user_counter_counts_once_in_another_database(
    db: Database, new_database: object, tmp_path: Path, crash: str
) -> None:
    other: Database = new_database(pgq=True)  # type: ignore[operator]
    other.execute(
        "create table counters (name text, value int8); insert into counters values ('users', 0)"
    )
    conf = ini(
        tmp_path,
        "user_counter",
        src_db=db.dsn,
        dst_db=other.dsn,
        pgq_queue_name=QUEUE,
        pgq_consumer_id="counts_users",
        loop_delay=0,
    )
    run("user_counter.py", conf, "-q")
    send(db, QUEUE, *WELCOME)
    run("user_counter.py", conf, crash=crash)
    run("user_counter.py", conf)
    assert other.value("select value from counters") == 2
    assert column(db, "select consumer_name from pgq.get_consumer_info()") == ["counts_users"]


def test_the_queue_mover_moves_each_event_once_with_its_time(
    db: Database, new_database: object, tmp_path: Path
) -> None:
    other: Database = new_database(pgq=True)  # type: ignore[operator]
    other.execute("select pgq.create_queue('dst')")
    conf = ini(
        tmp_path,
        "queue_mover",
        src_db=db.dsn,
        dst_db=other.dsn,
        pgq_queue_name=QUEUE,
        dst_queue_name="dst",
        loop_delay=0,
    )
    run("queue_mover.py", conf)
    send(db, QUEUE, *WELCOME)
    run("queue_mover.py", conf, crash="consumer.after-commit")
    run("queue_mover.py", conf)
    table = other.value("select pgq.current_event_table('dst')")
    moved = other.execute(f"select ev_type, ev_data, ev_time from {table} order by ev_id")
    table = db.value("select pgq.current_event_table(%s)", QUEUE)
    assert moved == db.execute(f"select ev_type, ev_data, ev_time from {table} order by ev_id")


def test_the_mail_sender_repeats_no_mail_that_it_has_marked(db: Database, tmp_path: Path) -> None:
    conf = ini(
        tmp_path,
        "email_sender",
        src_db=db.dsn,
        pgq_queue_name=QUEUE,
        mailbox=f"{tmp_path}/mails",
        loop_delay=0,
    )
    run("email_sender.py", conf)
    send(db, QUEUE, ("mail", "one"), ("mail", "two"), ("mail", "three"))
    # All mails are sent and marked, the batch is not finished.
    run("email_sender.py", conf, crash="consumer.processed")
    run("email_sender.py", conf)
    assert (tmp_path / "mails").read_text().split() == ["one", "two", "three"]
    assert db.value("select count(*) from pgq.retry_queue") == 0
