"""The programs of the talks as they were shown, killed with -9 in the middle of their work."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.cluster import Database
from tests.support.skytools.running import (
    Started,
    column,
    held,
    ini,
    run,
    send,
    wait_in_the_middle,
)
from tests.support.waiting import wait_for

QUEUE = "notifications"
WELCOME = [("WelcomeUser", "anna"), ("Other", "x"), ("WelcomeUser", "bert")]


@pytest.fixture
def db(pgq_db: Database) -> Database:
    pgq_db.execute("select pgq.create_queue(%s)", QUEUE)
    return pgq_db


@pytest.fixture
def other(new_database: Callable[..., Database]) -> Database:
    return new_database(pgq=True)


def test_the_welcome_consumer_greets_each_user_once(db: Database, tmp_path: Path) -> None:
    db.execute("create table welcomed (name text)")
    wait_in_the_middle(db, "welcomed", "new.name = 'bert'")
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
    with held(db):
        assert "Welcome anna!" in Started("welcome.py", conf).kill_while_waiting(db)
    run("welcome.py", conf, crash="consumer.before-commit")
    assert column(db, "select name from welcomed") == []
    text = run("welcome.py", "-v", conf)
    assert column(db, "select name from welcomed order by 1") == ["anna", "bert"]
    assert "Welcome anna!" in text
    assert re.search(r"\{count: 3, duration: \d\.\d{4}\}", text)
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
    with held(db, "select * from row_count for update"):
        Started("row_counter.py", conf).kill_while_waiting(db)
    run("row_counter.py", conf, crash="consumer.before-commit")
    assert "delta: 7" in run("row_counter.py", conf)
    assert db.value("select cnt from row_count") == 7


def test_the_user_counter_counts_once_in_another_database(
    db: Database, other: Database, tmp_path: Path
) -> None:
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
    with held(other, "select * from counters for update"):
        Started("user_counter.py", conf).kill_while_waiting(other)
    run("user_counter.py", conf, crash="consumer.before-commit")
    run("user_counter.py", conf, crash="consumer.after-commit")
    run("user_counter.py", conf)
    assert other.value("select value from counters") == 2
    assert column(db, "select consumer_name from pgq.get_consumer_info()") == ["counts_users"]


def test_the_queue_mover_moves_each_event_once_with_its_time(
    db: Database, other: Database, tmp_path: Path
) -> None:
    other.execute("select pgq.create_queue('dst')")
    target = other.value("select pgq.current_event_table('dst')")
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
    with held(other, f"lock table {target} in exclusive mode"):
        Started("queue_mover.py", conf).kill_while_waiting(other)
    run("queue_mover.py", conf, crash="consumer.after-commit")
    run("queue_mover.py", conf)
    moved = other.execute(f"select ev_type, ev_data, ev_time from {target} order by ev_id")
    source = db.value("select pgq.current_event_table(%s)", QUEUE)
    assert moved == db.execute(f"select ev_type, ev_data, ev_time from {source} order by ev_id")
    assert len(moved) == 3


def test_the_mail_sender_sends_each_mail_once(db: Database, tmp_path: Path) -> None:
    mailbox = tmp_path / "mails"
    os.mkfifo(mailbox)
    conf = ini(
        tmp_path,
        "email_sender",
        src_db=db.dsn,
        pgq_queue_name=QUEUE,
        mailbox=mailbox,
        loop_delay=0,
    )
    run("email_sender.py", conf)
    send(db, QUEUE, ("mail", "one"), ("mail", "two"), ("mail", "three"))
    reader = os.open(mailbox, os.O_RDONLY | os.O_NONBLOCK)
    with held(db, "lock table pgq_ext.completed_event in exclusive mode"):
        sender = Started("email_sender.py", conf)
        waiting = "select count(*) from pg_locks where not granted"
        wait_for(lambda: db.value(waiting), what=f"a mail, to be marked:\n{sender.text}")
        assert os.read(reader, 100) == b"one\n"
        os.close(reader)
    # Now it marks the mail and stops at the next one, since the mailbox has no reader.
    marks = "select count(*) from pgq_ext.completed_event"
    wait_for(lambda: db.value(marks) == 1, what=f"the mark of the mail:\n{sender.text}")
    sender.signal(signal.SIGKILL)
    sender.end(-9)
    mailbox.unlink()
    # All mails are sent and marked, the batch is not finished.
    run("email_sender.py", conf, crash="consumer.processed")
    run("email_sender.py", conf)
    assert mailbox.read_text().split() == ["two", "three"]
    assert db.value("select count(*) from pgq.retry_queue") == 0
