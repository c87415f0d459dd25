"""The queue and a job table as bench.queue fills, drains and follows them."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg

from bench.support import common, paced
from londiste.db.connection import Connection, session
from londiste.db.notify import Listener
from londiste.embedded.postgres import Cluster
from londiste.install.apply import install
from londiste.pgq import batches, queues

#: Rows that a consumer of the job table takes in one statement.
JOB = 1000

#: Events a second under a held snapshot, in transactions of ten.
LOAD = 1000
LOAD_EVENTS = 10

DDL = """
create sequence plain_seq;
create table plain (like pgq.event_template including defaults);
alter table plain alter ev_id set default nextval('plain_seq');
create index on plain (ev_txid);
create table job (
    id bigserial primary key,
    run_at timestamptz not null default now(),
    type text,
    data text
);
"""
TAKE = """
delete from job where id in (
    select id from job order by id limit {limit} for update skip locked
) returning data
"""


@dataclass
class Followed:
    """What a consumer saw that followed a producer.

    latency -- seconds from commit to consumer, in the order of the events.
    costs -- events, and the seconds that taking them took.
    """

    seconds: float = 0.0
    latency: list[float] = field(default_factory=list)
    costs: list[tuple[int, float]] = field(default_factory=list)


def _followed(
    producer: paced.Producer,
    take: Callable[[Callable[[], bool]], Iterator[tuple[list[int], float]]],
) -> Followed:
    """Takes all that a producer writes."""
    result = Followed()
    seen: dict[int, float] = {}
    started = time.perf_counter()
    for numbers, took in take(lambda: len(seen) >= producer.total):
        now = time.monotonic()
        seen.update((n, now) for n in numbers)
        result.costs.append((len(numbers), took))
    result.seconds = time.perf_counter() - started
    committed = producer.committed()
    result.latency = [seen[n] - committed[n] for n in range(producer.total)]
    return result


class Ways:
    """Both queues in one database."""

    def __init__(self, server: Cluster) -> None:
        self.server = server
        with session(server.dsn(), autocommit=True) as conn:
            install(conn)
            queues.create_queue(conn, "q")
            # A large batch at once would let nobody see what the path of single events costs.
            queues.set_queue_config(conn, "q", "ticker_max_count", "1000000000")
        with common.connect(server) as raw:
            raw.execute(DDL.encode())
        self.queue = OurQueue(server)
        self.job = JobTable(server)

    def clean(self) -> None:
        """Empties all tables, so that no way pays for the pages of another."""
        with session(self.server.dsn(), autocommit=True) as conn:
            batches.unregister_consumer(conn, "q", "c")
            for _ in range(3):
                conn.execute(
                    "update pgq.queue set queue_switch_time = now() - queue_rotation_period * 2"
                )
                conn.execute("select pgq.maint_rotate_tables_step1(%s)", ["q"])
                conn.execute("select pgq.maint_rotate_tables_step2()")
            conn.execute("truncate public.plain, public.job")
            conn.execute("vacuum pgq.tick, pgq.queue")
            conn.execute("checkpoint")


class OurQueue:
    """The queue of this project with one consumer."""

    name = "queue, ticker_max_lag 10 ms, notified"

    def __init__(self, server: Cluster) -> None:
        self.server = server

    def connect(self) -> contextlib.AbstractContextManager[Connection]:
        return session(self.server.dsn(), autocommit=True)

    def drain(self, count: int, how: str) -> float:
        """Fills the queue, makes one tick, and measures how long the consumer takes."""
        with self.connect() as conn:
            batches.register_consumer(conn, "q", "c")
            table = queues.current_event_table(conn, "q")
            conn.execute(
                f"insert into {table} (ev_time, ev_type, ev_data)"
                " select now(), 't', 'id=' || n || '&name=some+name+of+a+row&amount=12.34'"
                f" from generate_series(1, {count}) n"
            )
            conn.execute("checkpoint")
            self.tick(conn)
            seen = 0
            started = time.perf_counter()
            while (batch := batches.next_batch(conn, "q", "c")) is not None:
                if how == "cursor":
                    for chunk in batches.events(conn, batch):
                        seen += len(chunk)
                else:
                    for block in batches.stream(conn, batch):
                        match how:
                            case "count":
                                seen += len(block)
                            case "fields":
                                seen += sum(1 for _ in block.select("type", "data"))
                            case _:
                                seen += sum(1 for _ in block)
                batches.finish_batch(conn, batch.id)
            took = time.perf_counter() - started
        if seen != count:
            raise AssertionError(f"{seen} events instead of {count}")
        return took

    def tick(self, conn: Connection) -> None:
        """Makes a tick whatever the settings are."""
        queues.create_tick(conn, "q")

    def latency(self, rate: float, seconds: float, *, lag: str, poll: float | None) -> list[float]:
        """Seconds from commit to consumer, for every event of a steady producer."""
        with self.ticking(lag):
            statement = (
                "select pgq.insert_event('q', 't', n::text)"
                " from generate_series(%s::int8, %s::int8) n"
            )
            return self.follow(statement, rate, seconds, 1, poll).latency

    def follow_under_load(self, seconds: float) -> Followed:
        """The same with more events, and rotation."""
        with self.connect() as conn:
            queues.set_queue_config(conn, "q", "rotation_period", "5s")
        statement = (
            "select pgq.insert_event('q', 't', n::text) from generate_series(%s::int8, %s::int8) n"
        )
        with self.ticking("10ms"):
            return self.follow(statement, LOAD / LOAD_EVENTS, seconds, LOAD_EVENTS, None)

    def follow(
        self, statement: str, rate: float, seconds: float, events: int, poll: float | None
    ) -> Followed:
        """Starts a producer and takes its events as they come."""
        with self.connect() as conn:
            batches.unregister_consumer(conn, "q", "c")
            batches.register_consumer(conn, "q", "c")
            producer = paced.start(self.server.dsn(), statement, rate, seconds, events)
            return _followed(producer, partial(self.take, conn, poll))

    def take(
        self, conn: Connection, poll: float | None, enough: Callable[[], bool]
    ) -> Iterator[tuple[list[int], float]]:
        """The numbers of each batch, and the seconds from asking for it to its end."""
        listener = Listener(conn, [queues.TICK_CHANNEL]) if poll is None else None
        while not enough():
            if listener is not None:
                # Before the look: what comes while it looks ends the next wait.
                listener.drain()
            started = time.perf_counter()
            batch = batches.next_batch(conn, "q", "c")
            if batch is None:
                if listener is not None:
                    select.select([listener.fileno()], [], [], 0.5)
                else:
                    time.sleep(poll or 0)
                continue
            numbers = [
                int(data or 0)
                for block in batches.stream(conn, batch)
                for (data,) in block.select("data")
            ]
            took = time.perf_counter() - started
            if numbers:
                yield numbers, took
            batches.finish_batch(conn, batch.id)

    @contextlib.contextmanager
    def consuming(self) -> Iterator[None]:
        """A consumer that is woken by ticks and counts."""
        stop = threading.Event()

        def run() -> None:
            with self.connect() as conn:
                listener = Listener(conn, [queues.TICK_CHANNEL])
                batches.register_consumer(conn, "q", "c")
                while not stop.is_set():
                    listener.drain()
                    batch = batches.next_batch(conn, "q", "c")
                    if batch is None:
                        select.select([listener.fileno()], [], [], 0.1)
                        continue
                    for _ in batches.stream(conn, batch):
                        pass
                    batches.finish_batch(conn, batch.id)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    @contextlib.contextmanager
    def ticking(self, lag: str) -> Iterator[None]:
        """The ticker's own process, with a queue that wants its events after ``lag``."""
        with self.connect() as conn:
            queues.set_queue_config(conn, "q", "ticker_max_lag", lag)
        command = [sys.executable, "-m", "londiste", "--set", "maint_period=2"]
        ticker = subprocess.Popen(
            [*command, "ticker", "--db", self.server.dsn()], stderr=subprocess.DEVNULL
        )
        try:
            with common.connect(self.server) as conn:
                common.wait_until(
                    "select exists (select from pg_stat_activity"
                    " where application_name = 'londiste ticker: ticks' and query ~ 'tick')",
                    conn,
                )
            yield
        finally:
            ticker.terminate()
            ticker.wait()


class JobTable:
    """A table of rows that a consumer deletes, FOR UPDATE SKIP LOCKED."""

    name = "job table, notified by every insert"

    def __init__(self, server: Cluster) -> None:
        self.server = server

    def drain(self, count: int) -> float:
        """Fills the table and measures how long the consumer takes."""
        with common.connect(self.server) as conn:
            conn.execute(
                "insert into job (type, data)"
                " select 't', 'id=' || n || '&name=some+name+of+a+row&amount=12.34'"
                " from generate_series(1, %s::int8) n",
                [count],
            )
            conn.execute("vacuum analyze job")
            conn.execute("checkpoint")
            seen = 0
            started = time.perf_counter()
            while rows := conn.execute(TAKE.format(limit=JOB).encode(), prepare=True).fetchall():
                seen += len(rows)
            took = time.perf_counter() - started
        if seen != count:
            raise AssertionError(f"{seen} rows instead of {count}")
        return took

    def latency(self, rate: float, seconds: float, *, poll: float | None) -> list[float]:
        """Seconds from commit to consumer, for every row of a steady producer."""
        return self.follow(rate, seconds, 1, poll).latency

    def follow_under_load(self, seconds: float) -> Followed:
        """The same with more rows."""
        return self.follow(LOAD / LOAD_EVENTS, seconds, LOAD_EVENTS, None)

    def follow(self, rate: float, seconds: float, events: int, poll: float | None) -> Followed:
        """Starts a producer and takes its rows as they come."""
        statement = (
            "insert into job (type, data)"
            " select 't', n::text from generate_series(%s::int8, %s::int8) n"
        )
        if poll is None:
            statement = f"with new as ({statement} returning 1)" + (
                " select pg_notify('job', '') from (select count(*) from new) n"
            )
        with common.connect(self.server) as conn:
            conn.execute("truncate job")
            producer = paced.start(self.server.dsn(), statement, rate, seconds, events)
            return _followed(producer, partial(self.take, conn, poll))

    def take(
        self, conn: psycopg.Connection, poll: float | None, enough: Callable[[], bool]
    ) -> Iterator[tuple[list[int], float]]:
        """The numbers of each statement that found rows, and its seconds."""
        listener = Listener(conn, ["job"]) if poll is None else None
        while not enough():
            if listener is not None:
                listener.drain()
            started = time.perf_counter()
            rows = conn.execute(TAKE.format(limit=JOB).encode(), prepare=True).fetchall()
            took = time.perf_counter() - started
            if rows:
                yield [int(data) if data.isdigit() else 0 for (data,) in rows], took
            elif listener is not None:
                select.select([listener.fileno()], [], [], 0.5)
            else:
                time.sleep(poll or 0)

    def followed(self, measure: Callable[[], float], *, poll: float | None) -> float:
        """What ``measure`` answers while a consumer takes the rows."""
        stop = threading.Event()

        def run() -> None:
            with common.connect(self.server) as conn:
                for _ in self.take(conn, poll, stop.is_set):
                    pass

        thread = threading.Thread(target=run)
        thread.start()
        try:
            return measure()
        finally:
            stop.set()
            thread.join()


def pgbench(server: Cluster, statement: str, *, clients: int, seconds: float) -> float:
    """Transactions a second."""
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "script.sql"
        script.write_text(f"{statement};\n", encoding="utf-8")
        mode = "simple" if ";" in statement else "prepared"
        command = [str(server.program("pgbench")), "-n", "-M", mode, "-j", "1"]
        command += ["-c", str(clients), "-T", str(max(1, round(seconds))), "-f", str(script)]
        done = subprocess.run(
            [*command, server.dsn()],
            env={**os.environ, **server.environment()},
            capture_output=True,
            text=True,
            check=True,
        )
    line = next(x for x in done.stdout.splitlines() if x.startswith("tps"))
    return float(line.split()[2])
