"""What strangers do to programs of earlier versions: hostile events, dead daemons, odd methods."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste.cli import _old_form, cli
from londiste.cli.entry.pgqadm import administer
from londiste.cli.entry.table_dispatcher import _run as dispatch
from londiste.cli.errors import run as run_command
from londiste.compat import pgq, skytools
from londiste.errors import StateError
from tests.fixtures.cascade import refused_at_once
from tests.fixtures.cluster import Database, Server
from tests.support.skytools.running import Started, column, ini, run, send
from tests.support.waiting import wait_for

QUEUE = "q"


@pytest.fixture
def db(pgq_db: Database) -> Database:
    pgq_db.execute("select pgq.create_queue('q'); create table seen (data text)")
    return pgq_db


@pytest.fixture
def conf(db: Database, tmp_path: Path) -> Callable[..., list[str]]:
    def make(**keys: object) -> list[str]:
        given = {"src_db": db.dsn, "pgq_queue_name": QUEUE, "loop_delay": 0, **keys}
        return [ini(tmp_path, "job", **given)]

    return make


class Storing(pgq.Consumer):
    def __init__(self, args: list[str]) -> None:
        pgq.Consumer.__init__(self, "job", "src_db", args)

    def process_event(self, db: Any, ev: Any) -> None:
        db.cursor().execute("insert into seen values (%s)", [ev.data])
        ev.tag_done()


TEMPLATE = (
    "create table _DEST_TABLE () inherits (target); alter table _DEST_TABLE add primary key (_PKEY)"
)
HOSTILE = [
    ("I:id); create table taken (x int); --", "id=1&made=2009-05-01", "public.t"),
    ('I:id") ; create table taken (x int); --', "id=1&made=2009-05-01", "public.t"),
    ("I:id", "id=1&made=2009-05-01');create table taken (x int);--", "public.t"),
    ("I:id", 'id=1&made=2009-05-01&x") values (1); create table taken (x int);--=1', "public.t"),
    ("I:id", "id=1); create table taken (x int);--&made=2009-05-01", "public.t"),
]


@pytest.mark.parametrize(
    "event",
    [
        event if number in (0, 3) else pytest.param(event, marks=pytest.mark.slow)
        for number, event in enumerate(HOSTILE)
    ],
)
def test_events_of_a_hostile_producer_run_no_sql_of_theirs(
    db: Database, tmp_path: Path, event: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    db.execute("create table target (id int, made timestamptz, what text)")
    conf = ini(
        tmp_path,
        "table_dispatcher",
        src_db=db.dsn,
        dst_db=db.dsn,
        pgq_queue_name=QUEUE,
        dest_table="target",
        part_field="made",
        part_method="daily",
        part_template=TEMPLATE,
    )
    assert dispatch([conf, "--once"]) == 0
    send(db, QUEUE, ("I:id", "id=7&made=2009-05-02&what=it%27s", "public.t"))
    assert dispatch([conf, "--once"]) == 0
    assert db.execute("select tableoid::regclass::text, what from target") == [
        ("target_2009_05_02", "it's")
    ]
    send(db, QUEUE, event)
    code = dispatch([conf, "--once"])
    assert db.value("select to_regclass('taken')") is None
    assert db.value("select count(*) from target") == 1
    assert code != 0
    assert "error: " in capfd.readouterr().err


def test_a_dispatcher_without_its_table_or_column_does_not_start(
    db: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = {"src_db": db.dsn, "dst_db": db.dsn, "pgq_queue_name": QUEUE}
    keys |= {"dest_table": "target", "part_field": "made"}
    conf = ini(tmp_path, "table_dispatcher", **keys)
    assert dispatch([conf, "--once"]) == 2
    assert "error: dest_table = target: no such table in " in capfd.readouterr().err
    db.execute("create table target (id int)")
    assert dispatch([conf, "--once"]) == 2
    assert "table public.target has no column made" in capfd.readouterr().err


def test_names_of_tables_in_events_run_no_sql_in_a_template(
    db: Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    db.execute("create table made (part text)")
    conf = ini(
        tmp_path,
        "dispatch",
        job_name="job",
        db=db.dsn,
        queue_name=QUEUE,
        pre_part="insert into made values ('%%(schema_table)s of %%(parent)s')",
    )
    assert run_command(cli, ["-c", conf, "dispatch", "--register"]) == 0
    send(db, QUEUE, ("I:id", "id=1", "public.x'); create table taken (y int); --"))
    assert run_command(cli, ["-c", conf, "dispatch", "--once"]) != 0
    assert db.value("select to_regclass('taken')") is None
    assert column(db, "select part from made") == []
    assert "is not filled into SQL of a template" in capfd.readouterr().err


def test_a_second_process_of_a_consumer_is_refused(
    db: Database, conf: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    codes = []

    class Twice(Storing):
        def process_event(self, db: Any, ev: Any) -> None:
            with refused_at_once(), pytest.raises(SystemExit) as ended:
                Storing(conf()).start()
            codes.append(ended.value.code)
            Storing.process_event(self, db, ev)

    Storing(conf()).start()
    send(db, QUEUE, ("t", "a"))
    Twice(conf()).start()
    assert codes == [StateError("").exit_code]
    assert "is already running" in capsys.readouterr().err
    assert column(db, "select data from seen") == ["a"]


@pytest.mark.parametrize("option", ["-s", "-r", "-k"])
def test_a_dead_daemon_gets_no_signal(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pidfile = tmp_path / "job.pid"
    # The file of a process that was killed; its number is that of another process now.
    pidfile.write_text(f"{os.getpid()}\n")
    keys = {"job_name": "job", "pidfile": pidfile, "db": "dbname=x", "src_db": "dbname=x"}
    keys |= {"dst_db": "dbname=x", "dest_table": "t", "pgq_queue_name": QUEUE}
    old = signal.signal(signal.SIGHUP, lambda *_: pytest.fail("the signal was sent"))
    try:
        with pytest.raises(SystemExit) as ended:
            Storing([ini(tmp_path, "job", **keys), option])
        codes = [
            ended.value.code,
            administer([ini(tmp_path, "pgqadm", **keys), option]),
            dispatch([ini(tmp_path, "table_dispatcher", **keys), option]),
        ]
        pair = {"provider_db": "dbname=a", "subscriber_db": "dbname=b", "pgq_queue_name": QUEUE}
        file = ini(tmp_path, "londiste", pidfile=pidfile, **pair)
        codes += [run_command(cli, _old_form([file, option]))]
        codes += [run_command(cli, _old_form([file, "replay", option]))]
    finally:
        signal.signal(signal.SIGHUP, old)
    assert codes == [StateError("").exit_code] * 5
    assert capsys.readouterr().err.count("daemon is not running") == 5


def test_a_method_that_is_a_generator_loses_no_event(
    db: Database, conf: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    class Yielding(Storing):
        def process_event(self, db: Any, ev: Any) -> Any:
            ev.tag_done()
            yield

    class YieldingBatch(Storing):
        def process_batch(self, db: Any, batch_id: int, ev_list: Any) -> Any:
            yield from ev_list

    Storing(conf()).start()
    send(db, QUEUE, ("t", "a"))
    for kind in (Yielding, YieldingBatch):
        with pytest.raises(SystemExit) as ended:
            kind(conf()).start()
        assert ended.value.code == 6
        assert "returned a generator and did nothing" in capsys.readouterr().err
    Storing(conf()).start()
    assert column(db, "select data from seen") == ["a"]


def test_a_time_of_retry_is_what_the_program_sets(
    db: Database, conf: Callable[..., list[str]]
) -> None:
    class Odd(Storing):
        def process_event(self, db: Any, ev: Any) -> None:
            ev.tag_retry(*([] if ev.data == "default" else [float(ev.data)]))
            if ev.data == "7.9":
                ev.retry_time = 20

    Storing(conf()).start()
    send(db, QUEUE, ("t", "default"), ("t", "-5"), ("t", "7.9"), ("t", "30.5"))
    Odd(conf()).start()
    assert db.execute(
        "select ev_data, round(extract(epoch from ev_retry_after - now()) / 10) * 10"
        " from pgq.retry_queue order by ev_id"
    ) == [("default", 60), ("-5", 0), ("7.9", 20), ("30.5", 30)]


def test_connections_take_the_attributes_of_their_driver(
    database: Database, tmp_path: Path
) -> None:
    database.execute("create table t (id int, v text)")

    class Script(skytools.DBScript):
        def work(self) -> None:
            db = self.get_database("db")
            db.autocommit = True
            db.cursor().execute("insert into t values (1, 'at once')")
            assert database.value("select count(*) from t") == 1
            db.autocommit = False
            curs = db.cursor()
            curs.copy_from(io.StringIO("2;x\n3;-\n"), "t", sep=";", null="-", columns=["id", "v"])
            text, data = io.StringIO(), io.BytesIO()
            curs.copy_to(text, "t")
            curs.copy_expert("COPY (select v from t where id = 2) TO STDOUT", data)
            assert (text.getvalue(), data.getvalue()) == ("1\tat once\n2\tx\n3\t\\N\n", b"x\n")
            assert db.get_backend_pid() == curs.connection.info.backend_pid
            # The open transaction is not lost by a change of the mode.
            with pytest.raises(StateError, match="open transaction"):
                self.get_database("db", autocommit=1)
            db.commit()
            self.get_database("db", autocommit=1).cursor().execute("insert into t values (4)")
            assert self.get_database("db").autocommit

    Script("job", [ini(tmp_path, "job", db=database.dsn, loop_delay=0)]).start()
    assert column(database, "select id from t") == [1, 2, 3, 4]


def test_a_queue_that_does_not_exist_is_one_line_before_the_background(
    pgq_db: Database, tmp_path: Path
) -> None:
    conf = ini(
        tmp_path,
        "welcome_app",
        src_db=pgq_db.dsn,
        pgq_queue_name="nowhere",
        pidfile=f"{tmp_path}/x.pid",
        logfile=f"{tmp_path}/x.log",
    )
    for options in ([], ["-d"]):
        text = run("welcome.py", conf, *options, expect=2)
        (error,) = [line for line in text.splitlines() if line.startswith("error: ")]
        assert "nowhere" in error
        assert "Traceback" not in text


def test_a_daemon_waits_for_its_server_and_counts_each_event_once(
    new_cluster: Callable[..., Server],
    new_database: Callable[..., Database],
    tmp_path: Path,
) -> None:
    server = new_cluster("restarted")
    db = new_database(on=server, pgq=True)
    db.execute("select pgq.create_queue('q'); create table counters (name text, value int8)")
    db.execute("insert into counters values ('users', 0)")
    keys = {"src_db": db.dsn, "dst_db": db.dsn, "pgq_queue_name": QUEUE}
    conf = ini(tmp_path, "user_counter", loop_delay=0.1, exception_sleep=0.2, **keys)
    run("user_counter.py", conf, "--register")
    counter = Started("user_counter.py", conf)
    value = "select value from counters"
    send(db, QUEUE, ("WelcomeUser", "anna"))
    wait_for(lambda: db.value(value) == 1, what=f"the first event:\n{counter.text}")
    server.stop()
    wait_for(lambda: "WARNING" in counter.text, what=f"a lost server:\n{counter.text}")
    server.up()
    send(db, QUEUE, ("WelcomeUser", "bert"), ("Other", "x"))
    wait_for(lambda: db.value(value) == 2, what=f"the second event:\n{counter.text}")
    counter.signal(signal.SIGINT)
    counter.end()
    assert db.value(value) == 2
