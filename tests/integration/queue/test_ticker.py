"""The ticker daemon with real databases, restarts and kills."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.install import apply
from londiste.monitor.queues.collect import collect
from londiste.monitor.queues.rules import findings
from londiste.pgq import batches, producer, queues
from londiste.ticker import tick
from londiste.ticker.database import DatabaseTicker
from londiste.ticker.rounds import Periods
from tests.fixtures.cluster import Database
from tests.fixtures.process import Program
from tests.support.waiting import wait_for

Start = Callable[..., Program]
FAST = ["--set", "ticker_period=0.05", "--set", "retry_period=0.05", "--set", "maint_period=0.05"]


def queue_in(database: Database, name: str = "q") -> Connection:
    """A queue that ticks with every event, with a consumer ``c``."""
    conn = database.connect()
    queues.create_queue(conn, name)
    queues.set_queue_config(conn, name, "ticker_max_count", "1")
    queues.set_queue_config(conn, name, "ticker_max_lag", "0")
    batches.register_consumer(conn, name, "c")
    return conn


def last_tick(conn: Connection, name: str = "q") -> int:
    (info,) = queues.get_queue_info(conn, name)
    return info.last_tick_id or 0


def wait_for_tick(conn: Connection, name: str = "q", *, timeout: float = 30.0) -> None:
    before = last_tick(conn, name)
    producer.insert_event(conn, name, "t", "x")
    wait_for(lambda: last_tick(conn, name) > before, timeout=timeout, what=f"a tick in {name}")


def read_all(conn: Connection, name: str = "q") -> list[str | None]:
    """The data of all events up to the newest tick, in order."""
    seen: list[str | None] = []
    while (batch := batches.next_batch(conn, name, "c")) is not None:
        for chunk in batches.events(conn, batch):
            seen += [event.data for event in chunk]
        batches.finish_batch(conn, batch.id)
    return seen


def test_one_daemon_ticks_several_databases_and_one_that_is_missing_stops_none(
    new_database: Callable[..., Database], program: Start
) -> None:
    one, two = new_database(pgq=True), new_database(pgq=True)
    empty = new_database()
    missing = one.dsn.replace(one.name, "no_such_database")
    conns = [queue_in(one), queue_in(two)]
    databases = ["--db", missing, "--db", empty.dsn, "--db", one.dsn, "--db", two.dsn]
    daemon = program(*FAST, "ticker", *databases)
    for conn in conns:
        wait_for_tick(conn)
    daemon.says("no_such_database")
    daemon.says("hint: londiste install --db")
    assert re.search(rf"hint: londiste install --db '.*dbname={empty.name} .*' pgq", daemon.text)
    assert "Traceback" not in daemon.text


def test_discover_finds_the_databases_of_a_server(
    new_database: Callable[..., Database], program: Start
) -> None:
    one, two = new_database(pgq=True), new_database(pgq=True)
    conns = [queue_in(one), queue_in(two)]
    program(*FAST, "ticker", "--discover", "--db", one.dsn)
    for conn in conns:
        wait_for_tick(conn)


def test_force_tick_wakes_the_ticker(pgq_db: Database, program: Start) -> None:
    conn = queue_in(pgq_db)
    daemon = program("--set", "ticker_period=3600", "-v", "ticker", "--db", pgq_db.dsn)
    daemon.says("ticks: connected")
    idle = (
        "select count(*) from pg_stat_activity where state = 'idle' and query ~ 'ticker'"
        " and application_name = 'londiste ticker: ticks' and datname = current_database()"
    )
    wait_for(lambda: pgq_db.value(idle), what="the first round to be over")
    before = last_tick(conn)
    queues.force_tick(conn, "q")
    # The next round without it would be in an hour.
    wait_for(lambda: last_tick(conn) > before, what="the tick that was asked for")


def test_ticker_survives_a_server_crash(new_cluster: Callable[..., Any], program: Start) -> None:
    server = new_cluster("crashing")
    server.create_database("one")
    database = Database(server, "one")
    apply.install(database.connect())
    conn = queue_in(database)
    daemon = program(*FAST, "ticker", "--db", database.dsn)
    wait_for_tick(conn)
    server.stop("immediate")
    daemon.says("one@")
    server.up()
    conn = database.connect()
    wait_for_tick(conn)
    assert daemon.process.poll() is None
    assert "Traceback" not in daemon.text
    daemon.signal(signal.SIGTERM)
    assert daemon.end() == 0


def test_an_event_that_is_due_does_not_wait_for_the_next_round_of_retries(
    pgq_db: Database, program: Start
) -> None:
    conn = queue_in(pgq_db)
    rare = ["--set", "retry_period=3600", "--set", "maint_period=3600"]
    daemon = program(*rare, "--set", "ticker_period=0.05", "-v", "ticker", "--db", pgq_db.dsn)
    daemon.says("housekeeping: connected")
    for seconds in ("0", "0.5"):
        conn.execute(
            "select pgq.insert_event_at('q', now() + make_interval(secs => %s), 't', %s)",
            [seconds, seconds],
        )
    seen: list[str | None] = []

    def both() -> bool:
        seen.extend(read_all(conn))
        return len(seen) == 2

    wait_for(both, what="the delayed events")
    assert seen == ["0", "0.5"]


def test_ticker_runs_retries_and_rotation(pgq_db: Database, program: Start) -> None:
    conn = queue_in(pgq_db)
    queues.set_queue_config(conn, "q", "rotation_period", "0")
    program(*FAST, "ticker", "--db", pgq_db.dsn)
    wait_for_tick(conn)
    batch = wait_for(lambda: batches.next_batch(conn, "q", "c"), what="a batch")
    (event,) = [e for chunk in batches.events(conn, batch) for e in chunk]
    batches.event_retry(conn, batch.id, event.id, 0)
    batches.finish_batch(conn, batch.id)
    wait_for(lambda: read_all(conn) == ["x"], what="the event to come back")
    tables = set()

    def rotated() -> bool:
        read_all(conn)
        (info,) = queues.get_queue_info(conn, "q")
        tables.add(info.queue_cur_table)
        wait_for_tick(conn)
        return len(tables) == info.queue_ntables

    wait_for(rotated, what="every table to have its turn")


@pytest.mark.parametrize(
    "point", ["ticker.before-tick", "ticker.after-tick:3", "ticker.mid-rotation"]
)
def test_ticker_killed_at_any_point_resumes_without_lost_events(
    pgq_db: Database, program: Start, point: str
) -> None:
    conn = queue_in(pgq_db)
    queues.set_queue_config(conn, "q", "rotation_period", "0")
    crashing = program(*FAST, "ticker", "--db", pgq_db.dsn, crash=point)
    sent, seen = 0, list[str | None]()

    def write_and_read() -> None:
        nonlocal sent
        producer.insert_event(conn, "q", "t", str(sent))
        sent += 1
        seen.extend(read_all(conn))

    def crashed() -> bool:
        write_and_read()
        return crashing.process.poll() is not None

    wait_for(crashed, what=f"the kill at {point}")
    assert crashing.end() == -signal.SIGKILL
    program(*FAST, "ticker", "--db", pgq_db.dsn)
    for _ in range(10):
        write_and_read()

    def complete() -> bool:
        seen.extend(read_all(conn))
        return len(seen) >= sent

    wait_for(complete, what="all events")
    assert seen == [str(number) for number in range(sent)]
    state = "select queue_switch_step2 is not null from pgq.queue"
    wait_for(lambda: pgq_db.value(state), what="the rotation to be completed")


def test_a_queue_in_trouble_stops_no_other(pgq_db: Database, program: Start) -> None:
    conn = queue_in(pgq_db, "good")
    queue_in(pgq_db, "aaa_bad")
    # A tick from the future: what a database looks like that was restored into a young server.
    conn.execute(
        "update pgq.tick set tick_snapshot = '900000000000:900000000000:'"
        " where tick_queue = (select queue_id from pgq.queue where queue_name = 'aaa_bad')"
    )
    daemon = program(*FAST, "ticker", "--db", pgq_db.dsn)
    wait_for_tick(conn, "good")
    daemon.says("Invalid PgQ state: old xmin=")


def test_sigterm_ends_the_ticker_and_its_sessions(pgq_db: Database, program: Start) -> None:
    conn = queue_in(pgq_db)
    daemon = program("ticker", "--db", pgq_db.dsn)
    wait_for_tick(conn)
    daemon.signal(signal.SIGTERM)
    assert daemon.end() == 0
    sessions = (
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name like 'londiste ticker%'"
    )
    wait_for(lambda: pgq_db.value(sessions) == 0, what="its sessions to be gone")


def test_sighup_reads_the_settings_again(
    new_database: Callable[..., Database], program: Start, tmp_path: Path
) -> None:
    one, two = new_database(pgq=True), new_database(pgq=True)
    conns = [queue_in(one), queue_in(two)]
    file = tmp_path / "ticker.toml"

    def write(*databases: str, period: float = 0.05, more: str = "") -> None:
        file.write_text(
            f"[ticker]\nticker_period = {period}\ndatabases = {json.dumps(databases)}\n{more}"
        )

    write(one.dsn)
    daemon = program("-c", str(file), "ticker")
    wait_for_tick(conns[0])
    write(one.dsn, two.dsn, period=0.04, more=f'logfile = "{tmp_path}/log"\n')
    daemon.signal(signal.SIGHUP)
    daemon.says("changed settings that need a restart: logfile")
    for conn in conns:
        wait_for_tick(conn)
    file.write_text("[ticker]\nticker_perod = 1\n")
    daemon.signal(signal.SIGHUP)
    daemon.says("the old ones stay")
    assert "ticker.toml:2: unknown setting ticker_perod" in daemon.text
    for conn in conns:
        wait_for_tick(conn)


def test_once_runs_one_round_and_reports_it(
    pgq_db: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    conn = queue_in(pgq_db)
    producer.insert_event(conn, "q", "t", "1")
    producer.insert_event(conn, "q", "t", "2")
    assert run(cli, ["ticker", "--once", "--json", "--db", pgq_db.dsn]) == 0
    assert json.loads(capsys.readouterr().out)["ticks"] == 1
    assert read_all(conn) == ["1", "2"]


def test_an_operation_that_fails_is_named_and_fails_the_round(
    pgq_db: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    conn = queue_in(pgq_db)
    conn.execute(
        "create function public.broken(text) returns int language plpgsql"
        " as $$ begin raise exception 'boom'; end $$"
    )
    queues.set_queue_config(conn, "q", "extra_maint", "{public.broken}")
    for command in (["queue", "maint"], ["ticker", "--once"]):
        assert run(cli, [*command, "--db", pgq_db.dsn]) == 1
        told = capsys.readouterr().err
        assert "maintenance operations failed in" in told
        assert "maintenance operation public.broken of queue q: " in told and "boom" in told
    ticker = DatabaseTicker(pgq_db.dsn, Periods(tick=0.05, maintenance=0.05))
    ticker.start()
    try:
        wait_for(lambda: collect(conn).ticker_errors, what="its report")
        (found,) = findings(collect(conn))
        assert found.kind == "ticker-fails" and "public.broken of queue q" in found.what
        # Retries that fail stop no rotation.
        conn.execute("alter function pgq.maint_retry_events() rename to gone")
        batches.unregister_consumer(conn, "q", "c")
        before = pgq_db.value("select queue_switch_time from pgq.queue")
        queues.set_queue_config(conn, "q", "rotation_period", "0")
        queues.force_tick(conn, "q")
        rotated = "select queue_switch_time > %s from pgq.queue"
        wait_for(lambda: pgq_db.value(rotated, before), what="a rotation")
    finally:
        ticker.stop()
        assert ticker.join(time.monotonic() + 30.0)


def test_tick_now_ticks_now(pgq_db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    conn = queue_in(pgq_db)
    before = last_tick(conn)
    assert run(cli, ["tick", "--json", "--db", pgq_db.dsn]) == 0
    assert json.loads(capsys.readouterr().out)["ticks"] == [{"queue": "q", "tick": last_tick(conn)}]
    assert last_tick(conn) > before
    assert run(cli, ["tick", "wrong", "--db", pgq_db.dsn]) == 2
    assert "hint:" in capsys.readouterr().err


def test_missing_database_setting_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cli, ["ticker", "--once"]) == 2
    assert "--db DSN" in capsys.readouterr().err


def test_ticker_commits_are_durable_with_any_database_setting(
    pgq_db: Database, program: Start
) -> None:
    conn = queue_in(pgq_db)
    pgq_db.execute(f'alter database "{pgq_db.name}" set synchronous_commit = off')
    # The trigger runs in the ticker's transaction and notes what it commits with.
    pgq_db.execute(
        "create table public.noted (setting text);"
        "create function public.note() returns trigger language plpgsql as $$ begin"
        " insert into public.noted values (current_setting('synchronous_commit')); return new;"
        " end $$;"
        "create trigger note before insert on pgq.tick for each row execute function public.note()"
    )
    program(*FAST, "ticker", "--db", pgq_db.dsn)
    wait_for_tick(conn)
    assert pgq_db.execute("select distinct setting from public.noted") == [("on",)]


@pytest.mark.parametrize("ending", [SystemExit("boom"), MemoryError("boom")])
def test_failed_thread_is_reported_and_restarted(
    pgq_db: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    ending: BaseException,
) -> None:
    conn = queue_in(pgq_db)
    real = tick.run_once
    calls: list[int] = []

    def dying(*args: Any) -> int:
        calls.append(1)
        if len(calls) == 2:
            raise ending
        return real(*args)

    monkeypatch.setattr(tick, "run_once", dying)
    ticker = DatabaseTicker(pgq_db.dsn, Periods(tick=0.05, longest_pause=0.1))
    ticker.start()
    try:
        wait_for(lambda: len(calls) > 2, what="the round after the end")
        wait_for_tick(conn)
        assert "boom" in caplog.text
        assert ticker.revive() == 0
    finally:
        ticker.stop()
        assert ticker.join(time.monotonic() + 30)


def test_a_dead_thread_is_started_again(
    pgq_db: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    conn = queue_in(pgq_db)
    with monkeypatch.context() as broken:
        broken.setattr("londiste.ticker.database._Ticks.run", lambda self: None, raising=False)
        ticker = DatabaseTicker(pgq_db.dsn, Periods(tick=0.05))
        ticker.start()
        wait_for(lambda: not ticker._threads[0].is_alive(), what="its end")
    try:
        assert ticker.revive() == 1
        wait_for_tick(conn)
        assert "the thread for ticks has died" in caplog.text
    finally:
        ticker.stop()
        assert ticker.join(time.monotonic() + 30)


def test_connection_is_replaced_after_its_lifetime(pgq_db: Database) -> None:
    conn = queue_in(pgq_db)
    ticker = DatabaseTicker(pgq_db.dsn, Periods(tick=0.02, lifetime=0.05))
    pids: set[int] = set()
    own = (
        "select pid from pg_stat_activity where application_name = 'londiste ticker: ticks'"
        " and datname = current_database()"
    )

    def several() -> bool:
        pids.update(pid for (pid,) in pgq_db.execute(own))
        return len(pids) > 2

    ticker.start()
    try:
        wait_for(several, what="connections to be replaced")
        wait_for_tick(conn)
    finally:
        ticker.stop()
        assert ticker.join(time.monotonic() + 30)


@pytest.mark.slow
def test_lagging_consumer_slows_the_ticks_of_its_queue(
    pgq_db: Database,
) -> None:
    conn = queue_in(pgq_db)
    queues.set_queue_config(conn, "q", "ticker_max_lag", "5 ms")
    queues.set_queue_config(conn, "q", "ticker_max_count", "1000000")
    ticker = DatabaseTicker(pgq_db.dsn, Periods())
    pace = ticker._rounds[0].pace  # type: ignore[attr-defined]
    taken = 0

    def take() -> bool:
        batch = batches.next_batch(conn, "q", "c")
        if batch is not None:
            batches.finish_batch(conn, batch.id)
        return batch is not None

    def falls_back() -> bool:
        """Every third tick is taken."""
        nonlocal taken
        producer.insert_event(conn, "q", "t", "x")
        if last_tick(conn) > 3 * taken:
            taken += take()
        return "q" in ticker._rounds[0].pace.slowed  # type: ignore[attr-defined]

    def comes_up() -> bool:
        producer.insert_event(conn, "q", "t", "x")
        while take():
            pass
        return "q" not in ticker._rounds[0].pace.slowed  # type: ignore[attr-defined]

    ticker.start()
    try:
        wait_for(falls_back, timeout=120, what="fewer ticks")
        assert pace.slowed["q"] > pace.lags["q"] / 2 > 0
        wait_for(comes_up, timeout=120, what="as many ticks as before")
    finally:
        ticker.stop()
        ticker.join(time.monotonic() + 30)
