"""Many producers and consumers of one queue, while everything is killed that can be killed.

Producers: short, long, aborted, with savepoints, in two phases, in bulk, by trigger, several
events at a time.  Consumers: plain ones, one that asks for events again, one that is slow, and
three that share a position.  Rotation every second.  The order of events is that of a seed;
``LONDISTE_STORM_SECONDS`` makes the long form longer or shorter.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.embedded.postgres import Cluster
from londiste.pgq import batches, queues
from tests.fixtures.cluster import Database, create_database
from tests.support.scenarios import queue_storm
from tests.support.scenarios.processes import Process, Processes
from tests.support.waiting import wait_for

PRODUCERS = (
    "short",
    "several",
    "long",
    "aborted",
    "savepoints",
    "two_phase",
    "bulk",
    "trigger",
)
READERS = {
    "plain": ("first",),
    "retry": ("second",),
    "slow": ("third",),
    "coop": (f"{queue_storm.COOP}/a", f"{queue_storm.COOP}/b", f"{queue_storm.COOP}/c"),
}
CONSUMERS = ("first", "second", "third", queue_storm.COOP)
REPOSITORY = Path(__file__).parents[3]


class Storm:
    """The server, its programs, and what happens to them."""

    def __init__(self, database: Database, processes: Processes, seed: int) -> None:
        self.database = database
        self.processes = processes
        self.random = random.Random(seed)
        self.did: list[str] = []
        self.running: dict[tuple[str, str], Process] = {}
        with contextlib.closing(psycopg.connect(database.dsn, autocommit=True)) as conn:
            queues.create_queue(conn, queue_storm.QUEUE)
            queues.set_queue_config(conn, queue_storm.QUEUE, "rotation_period", "1 second")
            queues.set_queue_config(conn, queue_storm.QUEUE, "ticker_max_lag", "100 milliseconds")
            queues.set_queue_config(conn, queue_storm.QUEUE, "ticker_idle_period", "1 second")
            for consumer in CONSUMERS:
                batches.register_consumer(conn, queue_storm.QUEUE, consumer)
            conn.execute(queue_storm.SCHEMA)
        self.start_ticker()
        for kind in PRODUCERS:
            self.start(kind, kind)
        for kind, names in READERS.items():
            for name in names:
                self.start(kind, name)

    # -- programs ----------------------------------------------------------

    def start(self, kind: str, name: str) -> None:
        argv = [
            sys.executable,
            "-m",
            "tests.support.scenarios.queue_storm",
            kind,
            name,
            self.database.dsn,
        ]
        self.running[kind, name] = self.processes.start(
            name.replace("/", "-"), argv, {"PYTHONPATH": str(REPOSITORY)}
        )

    def start_ticker(self) -> None:
        settings = ("ticker_period=0.05", "maint_period=0.3", "retry_period=0.5")
        self.ticker = self.processes.start(
            "ticker",
            [
                *(sys.executable, "-m", "londiste"),
                *(word for setting in settings for word in ("--set", setting)),
                *("ticker", "--db", self.database.dsn),
            ],
        )

    def of(self, *kinds: str) -> list[tuple[str, str]]:
        return [key for key in self.running if key[0] in kinds]

    # -- what happens ------------------------------------------------------

    def act(self) -> None:
        """One thing happens."""
        action: Callable[[], None] = self.random.choice(
            [
                self.kill_a_producer,
                self.kill_a_reader,
                self.kill_a_reader,
                self.kill_the_ticker,
                self.end_sessions,
                self.stun_a_cooperative_reader,
                self.crash_the_server,
            ]
        )
        self.did.append(action.__name__)
        action()

    def kill_a_producer(self) -> None:
        self.kill(*PRODUCERS)

    def kill_a_reader(self) -> None:
        self.kill(*READERS)

    def kill(self, *kinds: str) -> None:
        key = self.random.choice(self.of(*kinds))
        self.running[key].kill()
        self.start(*key)

    def kill_the_ticker(self) -> None:
        self.ticker.kill()
        self.start_ticker()

    def end_sessions(self) -> None:
        self.ask(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
            " and random() < 0.4"
        )

    def stun_a_cooperative_reader(self) -> None:
        """It holds a batch and is stopped until another has taken that; then it wakes up."""
        key = self.random.choice(self.of("coop"))
        sleeper = self.running[key]
        sleeper.send(signal.SIGSTOP)
        try:
            batch = self.ask(
                "select s.sub_batch from pgq.subscription s"
                " join pgq.consumer c on c.co_id = s.sub_consumer where c.co_name = %s",
                key[1].replace("/", "."),
            )
            if batch and batch[0][0] is not None:
                # Its session may be in the middle of a transaction that holds the batch's row.
                self.ask(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name = %s",
                    f"storm {key[1]}",
                )
                # Or its last word was the end of the batch.
                wait_for(
                    lambda: (
                        not self.ask(
                            "select 1 from pgq.subscription s"
                            " join pgq.consumer c on c.co_id = s.sub_consumer"
                            " where c.co_name = %s and s.sub_batch = %s",
                            key[1].replace("/", "."),
                            batch[0][0],
                        )
                    ),
                    timeout=60,
                    what=f"somebody to take over batch {batch[0][0]} of {key[1]}",
                )
                # The new holder has it under another id.
                if not self.ask("select 1 from storm.finished where batch_id = %s", batch[0][0]):
                    self.did.append("taken over")
        finally:
            sleeper.send(signal.SIGCONT)

    def let_one_take_over(self) -> None:
        """Until a cooperative reader has really got the batch of another."""
        while "taken over" not in self.did:
            self.wait_progress()
            self.stun_a_cooperative_reader()
        self.wait_progress()

    def crash_the_server(self) -> None:
        assert isinstance(self.database.cluster, Cluster)
        self.database.cluster.restart("immediate")

    # -- looking -----------------------------------------------------------

    def ask(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, also when a session ends under it."""
        while True:
            try:
                return self.database.execute(statement, *parameters)
            except psycopg.OperationalError:
                continue

    def wait_progress(self) -> None:
        """Every consumer gets on, and so do the producers."""
        query = "select (select count(*) from storm.sent)," + ",".join(
            f"(select count(*) from storm.seen where consumer = '{name}')" for name in CONSUMERS
        )
        before = self.ask(query)[0]

        def better() -> bool:
            now = self.ask(query)[0]
            return all(new > old for new, old in zip(now, before, strict=True))

        try:
            wait_for(better, timeout=90, what=f"progress after {self.did[-3:]}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.processes.report()}") from None

    def end(self) -> None:
        """Producers stop, consumers take the rest, all stop."""
        for key in self.of(*PRODUCERS):
            self.running[key].stop(60)
        left = "select gid from pg_prepared_xacts where database = current_database()"
        for (name,) in self.ask(left):
            self.database.execute(f"commit prepared '{name}'")
        # The second tick is for what was asked for again up to the first.
        for _ in range(2):
            self.wait_read(self.tick())
        for key in self.of(*READERS):
            self.running[key].stop(60)
        self.ticker.stop(60)

    def tick(self) -> int:
        """A tick that the ticker makes after now."""
        newest = "select max(tick_id) from pgq.tick"
        ((before,),) = self.ask(newest)
        self.ask("select pgq.force_tick(%s)", queue_storm.QUEUE)
        wait_for(lambda: self.ask(newest)[0][0] > before, what="a tick")
        return int(self.ask(newest)[0][0])

    def wait_read(self, tick: int) -> None:
        """All consumers have finished everything up to a tick, and no event waits for a retry."""
        rest = (
            "select (select count(*) from pgq.retry_queue)"
            " + (select count(*) from pgq.subscription"
            "    where sub_batch is not null and sub_next_tick <= %s)"
            " + (select count(*) from pgq.get_consumer_info(%s)"
            "    where last_tick < %s and consumer_name not like '%%.%%')"
        )
        try:
            wait_for(
                lambda: self.ask(rest, tick, queue_storm.QUEUE, tick) == [(0,)],
                timeout=300,
                what="the consumers to read the rest",
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.processes.report()}") from None


@pytest.fixture
def make_storm(
    tmp_path: Path, new_cluster: Callable[..., Cluster]
) -> Iterator[Callable[[int], Storm]]:
    """Starts a storm of a seed on a server of its own that really flushes."""
    processes = Processes(tmp_path)

    def make(seed: int) -> Storm:
        server = new_cluster(
            "storm", settings={"fsync": "on", "full_page_writes": "on", "wal_level": "replica"}
        )
        return Storm(create_database(server, pgq=True), processes, seed)

    yield make
    assert not processes.close()


def check(stormy: Storm) -> None:
    """What must be true at the end, from the tables alone."""
    ask = stormy.database.execute
    what = f"after {stormy.did}"
    for consumer in CONSUMERS:
        wrong = ask(
            "with seen as (select token, count(*) from storm.seen"
            "   where consumer = %s and retry is null group by token),"
            " sent as (select token, count(*) from storm.sent group by token)"
            " select token, sent.count, seen.count from sent full join seen using (token)"
            " where sent.count is distinct from seen.count limit 20",
            consumer,
        )
        assert wrong == [], f"{consumer}: token, times sent, times seen {what}"
        disorder = ask(
            "select batch_id, ev_id from ("
            "   select batch_id, ev_id,"
            "       lag(ev_id) over (partition by batch_id order by nr) as before"
            "   from storm.seen where consumer = %s) s"
            " where before >= ev_id limit 20",
            consumer,
        )
        assert disorder == [], f"{consumer}: event ids fall within a batch {what}"
    again = ask("select token, count(*) from storm.seen where retry = 1 group by token")
    assert again, "nothing was asked for again"
    assert {count for _, count in again} == {1}, what
    assert ask("select 1 from storm.seen where retry > 1") == []
    shared = ask(
        "select batch_id, count(distinct worker) from storm.seen where consumer = %s"
        " group by batch_id having count(distinct worker) > 1",
        queue_storm.COOP,
    )
    assert shared == [], f"batches that two cooperative readers finished {what}"
    workers = ask("select distinct worker from storm.seen where consumer = %s", queue_storm.COOP)
    assert sorted(workers) == [("a",), ("b",), ("c",)]
    assert ask("select min(tick_id) > 1 from pgq.tick") == [(True,)], "nothing was rotated"


@pytest.mark.slow
def test_every_committed_event_is_seen_once_by_every_consumer(
    make_storm: Callable[[int], Storm],
) -> None:
    stormy = make_storm(1)
    stormy.wait_progress()
    stormy.let_one_take_over()
    for action in ("kill_a_reader", "crash_the_server"):
        stormy.did.append(action)
        getattr(stormy, action)()
        stormy.wait_progress()
    stormy.end()
    check(stormy)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_minutes_of_kills_and_restarts(make_storm: Callable[[int], Storm]) -> None:
    stormy = make_storm(2)
    # How long it goes on is no condition of anything: what happens in it is waited for.
    until = time.monotonic() + float(os.environ.get("LONDISTE_STORM_SECONDS", "180"))
    while time.monotonic() < until:
        stormy.wait_progress()
        stormy.act()
    stormy.let_one_take_over()
    stormy.end()
    check(stormy)
