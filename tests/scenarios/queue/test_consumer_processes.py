"""Consumers as processes: stopped, paused, run twice, several at a time, with many producers."""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import londiste
from londiste import Consumer, Context, Delivery, Event
from londiste.daemon.signals import Signals
from londiste.db.connection import session
from londiste.errors import LondisteError, StateError, Superseded
from londiste.pgq import dead_letters, queues
from tests.fixtures.cluster import Database
from tests.support.scenarios.processes import Process, Processes
from tests.support.suite.slow import first, only
from tests.support.ticking import Ticker
from tests.support.waiting import wait_for

QUEUE = "q"


@pytest.fixture
def db(pgq_db: Database) -> Database:
    conn = pgq_db.connect()
    queues.create_queue(conn, QUEUE)
    queues.set_queue_config(conn, QUEUE, "ticker_max_lag", "0")
    queues.set_queue_config(conn, QUEUE, "ticker_idle_period", "0")
    pgq_db.execute("create table effects (data text, attempt int)")
    return pgq_db


def start(
    processes: Processes, db: Database, delivery: Delivery, tmp_path: Path, **keys: object
) -> Process:
    argv = [sys.executable, "-m", "tests.support.programs.consumer_program", "--db", db.dsn]
    for key, value in {"poll_interval": 0.05, **keys}.items():
        argv += ["--set", f"{key}={value}"]
    name = str(keys.get("subconsumer_name", "consumer"))
    environment = {"DELIVERY": delivery.name, "SIDE_EFFECTS": str(tmp_path / f"{name}.effects")}
    return processes.start(name, argv, environment)


def register(db: Database, name: str = "killed") -> None:
    db.execute("select pgq.register_consumer('q', %s)", name)


def effects(db: Database) -> list[str]:
    return [data for (data,) in db.execute("select data from effects")]


#: How the six ways look: waiting for notifications or only looking, and what is promised.
WAYS = [
    (notify, delivery)
    for notify in (True, False)
    for delivery in (
        Delivery.AT_MOST_ONCE,
        Delivery.AT_LEAST_ONCE,
        Delivery.EXACTLY_ONCE_HERE,
    )
]


@pytest.mark.parametrize("many", first([100, 1]), ids=["many", "one"])
@pytest.mark.parametrize(
    ("notify", "delivery"), only(WAYS, *WAYS[:3], (False, Delivery.AT_LEAST_ONCE))
)
def test_several_producers_and_consumers_lose_and_repeat_nothing(
    db: Database, notify: bool, delivery: Delivery, many: int
) -> None:
    """``many`` events in a transaction; failures are listed and deleted at the end."""
    register(db)
    got: Counter[str] = Counter()
    lock = threading.Lock()
    errors: list[BaseException] = []

    class Working(Consumer):
        queue, name = QUEUE, "killed"

        def process_event(self, event: Event, ctx: Context) -> None:
            assert event.data is not None
            if event.data.endswith("7") and self.delivery.may_bury:
                raise londiste.Dead("sevens are not liked")
            if self.delivery is Delivery.EXACTLY_ONCE_HERE:
                ctx.db.execute("insert into effects values (%s, 1)", [event.data])
            with lock:
                got[event.data] += 1

    kind = type("Working", (Working,), {"delivery": delivery})
    stops = [Signals() for _ in range(3)]

    def consume(number: int) -> None:
        try:
            kind(db.dsn, subconsumer_name=f"s{number}", notify=notify, poll_interval=0.05).run(
                stops[number]
            )
        except BaseException as error:
            errors.append(error)

    def produce(number: int) -> None:
        with londiste.Producer(db.dsn, QUEUE) as producer:
            for first in range(0, 200, many):
                producer.send_many([("t", f"{number}-{n}") for n in range(first, first + many)])

    expected = {f"{p}-{n}" for p in range(3) for n in range(200)}
    sevens = {text for text in expected if text.endswith("7")} if delivery.may_bury else set()
    consumers = [threading.Thread(target=consume, args=(n,)) for n in range(3)]
    producers = [threading.Thread(target=produce, args=(n,)) for n in range(3)]
    with Ticker(db, QUEUE), session(db.dsn, autocommit=True) as conn:
        for thread in (*consumers, *producers):
            thread.start()
        for thread in producers:
            thread.join(60)
        try:
            wait_for(
                lambda: (
                    errors
                    or len(got) + dead_letters.failed_event_count(conn, QUEUE, "killed")
                    >= len(expected)
                ),
                what="all events",
            )
        finally:
            for signals in stops:
                signals.stop()
            for thread in consumers:
                thread.join(60)
        assert not errors
        assert set(got) == expected - sevens
        if delivery is Delivery.EXACTLY_ONCE_HERE:
            assert Counter(effects(db)) == Counter(expected - sevens)
        else:
            assert set(got.values()) == {1}
        letters = dead_letters.failed_event_list(conn, QUEUE, "killed")
        assert {letter.data for letter in letters} == sevens
        assert {letter.failed_reason for letter in letters} <= {"sevens are not liked"}
        assert dead_letters.failed_event_delete_all(conn, QUEUE, "killed") == len(sevens)
        assert dead_letters.failed_event_count(conn, QUEUE, "killed") == 0


@pytest.mark.parametrize(
    "delivery",
    first(
        [
            Delivery.EXACTLY_ONCE_HERE,
            Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH,
            Delivery.EXACTLY_ONCE_ELSEWHERE,
        ],
        2,
    ),
)
def test_of_two_processes_of_one_name_only_one_commits(
    db: Database, new_database: Callable[..., Database], delivery: Delivery
) -> None:
    """One stands still in its batch while another does that batch and the next ones."""
    target = new_database(pgq=True) if delivery.elsewhere else db
    if target is not db:
        target.execute("create table effects (data text, attempt int)")
    given: dict[str, Any] = {"target_db": target.dsn} if delivery.elsewhere else {}

    class Twice(Consumer):
        queue, name, alone = QUEUE, "killed", False
        meanwhile: Callable[[], object] | None = None

        def process_event(self, event: Event, ctx: Context) -> None:
            if self.meanwhile is not None:
                self.meanwhile()
            ctx.db.execute("insert into effects values (%s, 1)", [event.data])

    kind = type("Twice", (Twice,), {"delivery": delivery})
    slow, quick = kind(db.dsn, **given), kind(db.dsn, lock_timeout=0.2, **given)
    assert slow.register()
    with londiste.Producer(db.dsn, QUEUE) as producer, session(db.dsn, autocommit=True) as conn:
        for text in ("a", "b", "c"):
            producer.send("t", text)
            queues.force_tick(conn, QUEUE)
            queues.ticker(conn, QUEUE)

    def overtake() -> None:
        slow.meanwhile = None
        if delivery.elsewhere:
            # The slow one holds the position: the quick one is kept out, and says so.
            with pytest.raises(LondisteError, match="lock not granted"):
                quick.run_once()
        else:
            assert quick.run_once() == 3

    slow.meanwhile = overtake
    if delivery.elsewhere:
        assert slow.run_once() == 3
    else:
        with pytest.raises((Superseded, StateError)):
            slow.run_once()
    assert sorted(effects(target)) == ["a", "b", "c"]


def test_a_process_that_comes_back_with_an_old_batch_does_nothing(
    db: Database, new_database: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = new_database(pgq=True)
    target.execute("create table effects (data text, attempt int)")
    for delivery in (
        Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH,
        Delivery.EXACTLY_ONCE_ELSEWHERE,
    ):
        contract = delivery

        class Storing(Consumer):
            queue, name, alone, delivery = QUEUE, f"c_{contract.name}", False, contract

            def process_event(self, event: Event, ctx: Context) -> None:
                ctx.db.execute("insert into effects values (%s, 1)", [event.data])

        old, new = (Storing(db.dsn, target_db=target.dsn) for _ in range(2))
        old.register()
        with londiste.Producer(db.dsn, QUEUE) as producer, session(db.dsn, autocommit=True) as conn:
            for text in ("a", "b"):
                producer.send("t", text)
                queues.force_tick(conn, QUEUE)
                queues.ticker(conn, QUEUE)
        runner = old._running()
        # Between opening the batch and the transaction of its effects the process stood still.
        stale = runner.source.next_batch()
        assert stale is not None
        assert new.run_once() == 2
        monkeypatch.setattr(runner.source, "next_batch", lambda batch=stale: batch)
        with pytest.raises(LondisteError):
            old.work()
        old.close()
        assert sorted(effects(target)) == ["a", "b"]
        target.execute("truncate effects")


def test_a_stop_lets_the_batch_be_finished(
    db: Database, processes: Processes, tmp_path: Path
) -> None:
    register(db)
    process = start(processes, db, Delivery.EXACTLY_ONCE_HERE, tmp_path)
    with Ticker(db, QUEUE), londiste.Producer(db.dsn, QUEUE) as producer:
        producer.send("t", "a")
        wait_for(lambda: effects(db) == ["a"], what="the effect")
        # A lock keeps the next batch from going on until the stop has come.
        with session(db.dsn) as conn:
            conn.execute("lock table public.effects in access exclusive mode")
            producer.send("t", "b")
            wait_for(lambda: "b 0" in (tmp_path / "consumer.effects").read_text(), what="the event")
            process.send(signal.SIGTERM)
    assert process.wait() == 0
    assert sorted(effects(db)) == ["a", "b"]


def test_a_second_signal_breaks_the_batch_off(
    db: Database, processes: Processes, tmp_path: Path
) -> None:
    register(db)
    process = start(processes, db, Delivery.EXACTLY_ONCE_HERE, tmp_path)
    with Ticker(db, QUEUE), londiste.Producer(db.dsn, QUEUE) as producer:
        with session(db.dsn) as conn:
            conn.execute("lock table public.effects in access exclusive mode")
            producer.send("t", "b")
            path = tmp_path / "consumer.effects"
            wait_for(lambda: path.exists() and "b 0" in path.read_text(), what="the event")
            # Two of one kind may arrive as one.
            process.send(signal.SIGINT)
            process.send(signal.SIGTERM)
            process.wait()
    assert effects(db) == []
    assert "stopped during a unit of work" in process.said()


def test_a_lost_connection_is_made_anew(db: Database, processes: Processes, tmp_path: Path) -> None:
    register(db)
    process = start(processes, db, Delivery.EXACTLY_ONCE_HERE, tmp_path, max_retry_delay=0.2)
    with Ticker(db, QUEUE), londiste.Producer(db.dsn, QUEUE) as producer:
        for text in "abc":
            producer.send("t", text)
            wait_for(lambda t=text: t in effects(db), what=f"event {text}")
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like 'londiste %%er killed%%'"
                " and datname = current_database() and %s",
                True,
            )
    assert process.running()
    assert effects(db) == ["a", "b", "c"]

    assert process.stop() == 0


def test_a_reload_takes_new_settings_without_losing_a_batch(
    db: Database, processes: Processes, tmp_path: Path
) -> None:
    register(db)
    file = tmp_path / "consumer.toml"
    file.write_text(f'[consumer]\ndb = "{db.dsn}"\nloop_delay = 0.05\n')
    argv = [sys.executable, "-m", "tests.support.programs.consumer_program", "-c", str(file)]
    environment = {
        "DELIVERY": Delivery.EXACTLY_ONCE_HERE.name,
        "SIDE_EFFECTS": str(tmp_path / "consumer.effects"),
    }
    process = processes.start("consumer", argv, environment)
    with Ticker(db, QUEUE), londiste.Producer(db.dsn, QUEUE) as producer:
        producer.send("t", "a")
        wait_for(lambda: effects(db) == ["a"], what="the first event")
        file.write_text(f'[consumer]\ndb = "{db.dsn}"\nloop_delay = 0.05\nevent_types = ["u"]\n')
        process.send(signal.SIGHUP)
        wait_for(lambda: "reloaded the settings" in process.said(), what="the reload")
        producer.send("t", "left out")
        producer.send("u", "b")
        wait_for(lambda: "b" in effects(db), what="the second event")
    assert effects(db) == ["a", "b"]

    assert process.stop() == 0


def test_the_command_line_of_a_consumer(db: Database, processes: Processes, tmp_path: Path) -> None:
    def run(*argv: str) -> Any:
        return processes.run(
            [
                sys.executable,
                "-m",
                "tests.support.programs.consumer_program",
                "--db",
                db.dsn,
                *argv,
            ],
            {"DELIVERY": "EXACTLY_ONCE_ELSEWHERE", "SIDE_EFFECTS": str(tmp_path / "effects")},
        )

    done = run("--once")
    assert done.code == 2
    assert "\nerror: consumer killed is not registered on queue q\n" in done.err
    assert "hint: register it" in done.err and "Traceback" not in done.err
    assert "registered" in run("--register").err
    assert "is already registered" in run("--register").err
    assert run("--once").code == 0
    assert "paused" in run("--pause").err
    assert "resumed" in run("--resume").err
    assert "tick 1" in run("--rewind").err
    assert "tick 1" in run("--reset").err
    assert "unregistered" in run("--unregister").err
    assert run("--nonsense").code == 2
    assert "queue_name" in run("--config-template").out
    assert run("--help").out.startswith("Usage: consumer_program.py [OPTIONS] [FILE]")
