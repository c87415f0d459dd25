"""Sessions with ``pgqadm``, ``table_dispatcher``, ``queue_mover`` and ``queue_splitter``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cli.entry.pgqadm import administer
from londiste.daemon.pidfile import running
from londiste.errors import UsageError
from tests.fixtures.cluster import Database
from tests.support.skytools.running import Started, column, held, ini, run, send
from tests.support.waiting import wait_for


def test_the_queue_administration_of_the_talk(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pidfile = tmp_path / "pgqadm_userdb.pid"
    conf = ini(
        tmp_path,
        "pgqadm",
        job_name="pgqadm_userdb",
        db=database.dsn,
        maint_delay_min=5,
        loop_delay=0.1,
        logfile=f"{tmp_path}/%(job_name)s.log",
        pidfile=f"{tmp_path}/%(job_name)s.pid",
    )

    def admin(words: str) -> str:
        assert administer([conf, *words.split()]) == 0
        return capsys.readouterr().out

    def ticks() -> None:
        # It was asked for a tick, which only the ticker makes.
        before = database.value("select max(tick_id) from pgq.tick")
        database.execute("select pgq.force_tick('notifications')")
        newest = "select max(tick_id) from pgq.tick"
        wait_for(lambda: database.value(newest) > before, what="a tick")

    admin("install")
    admin("create notifications")
    admin("register notifications welcome_app")
    assert admin("config notifications").splitlines() == [
        "notifications",
        "    ticker_max_lag       = 00:00:03",
        "    ticker_idle_period   = 00:01:00",
        "    rotation_period      = 02:00:00",
        "    ticker_max_count     = 500",
    ]
    admin("config notifications ticker_max_count=1000")
    assert "ticker_max_count     = 1000" in admin("config")
    run("pgqadm", "-d", conf, "ticker")
    ticks()
    # Killed, and started again by the other form of the command.
    os.kill(int(pidfile.read_text()), signal.SIGKILL)
    wait_for(lambda: running(pidfile) is None, what="the end of the ticker")
    run("pgqadm", conf, "ticker", "-d")
    ticks()
    lines = [line.split() for line in admin("status").splitlines()]
    assert lines[2][:3] == ["notifications", "3/7200s", "1000/3s/60s"]
    assert lines[3][0] == "welcome_app"
    # Lag and time since it was seen.
    assert len(lines[3]) == 3
    assert "-" not in lines[3]
    run("pgqadm", conf, "-s")
    wait_for(lambda: not pidfile.exists(), what="the end of the ticker")
    admin("unregister notifications welcome_app")
    admin("drop notifications")
    assert database.value("select count(*) from pgq.queue") == 0
    with pytest.raises(UsageError, match="unknown command nonsense"):
        administer([conf, "nonsense"])


def test_the_dispatcher_makes_missing_partitions_and_inserts_once(
    pgq_db: Database, new_database: Callable[..., Database], tmp_path: Path
) -> None:
    target = new_database(pgq=True)
    table = (
        "create table user_history (id int primary key, what text, made timestamptz, secret text)"
    )
    pgq_db.execute(
        f"select pgq.create_queue('history'); {table};"
        "create trigger history_trg after insert or update or delete on user_history"
        " for each row execute procedure pgq.logutriga('history')"
    )
    target.execute(table)
    target.execute("do $$ begin create role reporting; exception when others then end $$")
    target.execute("create table user_history_2009_05_02 () inherits (user_history)")
    template = (
        "create table _DEST_TABLE () inherits (user_history);\n"
        "    grant select on _DEST_TABLE to reporting;"
    )
    conf = ini(
        tmp_path,
        "table_dispatcher",
        job_name="history_dispatcher",
        src_db=pgq_db.dsn,
        dst_db=target.dsn,
        pgq_queue_name="history",
        logfile=f"{tmp_path}/%(job_name)s.log",
        pidfile=f"{tmp_path}/%(job_name)s.pid",
        dest_table="user_history",
        fields="id, what, made",
        part_field="made",
        part_method="daily",
        part_template=f"\n    {template}",
    )
    program = "table_dispatcher"
    run(program, conf, "--once")
    pgq_db.execute(
        "insert into user_history select n, 'w', '2009-05-01'::timestamptz + n * '8h'::interval,"
        " 's' from generate_series(1, 6) n;"
        "update user_history set what = 'u'; delete from user_history where id = 1"
    )
    send(pgq_db, "history")
    # Killed when the partition of the first day is made, and that of the second is written to.
    with held(target, "lock table user_history_2009_05_02 in access exclusive mode"):
        Started("table_dispatcher", conf, "--once").kill_while_waiting(target)
    run("table_dispatcher", "--once", conf, crash="consumer.before-commit")
    assert target.value("select count(*) from user_history") == 0
    assert target.value("select to_regclass('user_history_2009_05_01')") is None
    run("table_dispatcher", conf, "--once", crash="consumer.after-commit")
    run("table_dispatcher", conf, "--once")
    rows = target.execute("select tableoid::regclass::text, id, what, secret from user_history")
    assert sorted(rows) == [
        (f"user_history_2009_05_{day:02}", id, "w", None)
        for day, id in ((1, 1), (1, 2), (2, 3), (2, 4), (2, 5), (3, 6))
    ]
    assert target.value(
        "select has_table_privilege('reporting', 'user_history_2009_05_03', 'select')"
    )
    # The present command goes on where the old program ended, and the other way round.
    present = ini(
        tmp_path,
        "dispatch",
        db=pgq_db.dsn,
        target_db=target.dsn,
        queue_name="history",
        consumer_name="history_dispatcher",
        event_types="I",
        fields="id, what, made",
        part_mode="date_field",
        part_field="made",
    )
    for number, words in enumerate((["londiste", "-c", present, "dispatch"], [program, conf]) * 2):
        pgq_db.execute("insert into user_history values (%s, 'w', '2009-05-04')", 10 + number)
        send(pgq_db, "history")
        run(*words, "--once")
    assert target.execute("select id from user_history_2009_05_04 order by 1") == [
        (10 + number,) for number in range(4)
    ]


@pytest.mark.parametrize("program", ["queue_mover", "queue_splitter"])
def test_the_mover_and_the_splitter_register_and_move_once(
    pgq_db: Database, new_database: Callable[..., Database], tmp_path: Path, program: str
) -> None:
    target = new_database(pgq=True)
    pgq_db.execute("select pgq.create_queue('src')")
    target.execute("select pgq.create_queue('dst')")
    table = target.value("select pgq.current_event_table('dst')")
    conf = ini(
        tmp_path,
        program,
        src_db=pgq_db.dsn,
        dst_db=target.dsn,
        pgq_queue_name="src",
        **({"dst_queue_name": "dst"} if program == "queue_mover" else {}),
    )
    run(program, conf, "--once")
    send(pgq_db, "src", ("t", "a", "dst"), ("t", "b", "dst"))
    with held(target, f"lock table {table} in exclusive mode"):
        Started(program, conf, "--once").kill_while_waiting(target)
    run(program, conf, "--once", crash="consumer.after-commit")
    run(program, conf, "--once")
    # The present command goes on where the old program ended, and the other way round.
    for number, words in enumerate(
        ([program, conf], ["londiste", "queue", program.removeprefix("queue_"), conf]) * 2
    ):
        send(pgq_db, "src", ("t", f"turn {number}", "dst"))
        run(*words, "--once")
    assert column(target, f"select ev_data from {table} order by ev_id") == [
        "a",
        "b",
        *(f"turn {number}" for number in range(4)),
    ]
