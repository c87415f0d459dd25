"""Workers at the same time, some of which die: no batch is shared, and no event is lost."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from londiste.db.connection import Connection
from londiste.pgq import batches as pgq_batches
from londiste.pgq import coop, queues
from londiste.pgq.types import Batch
from tests.fixtures.cluster import Database
from tests.support import coop_steps
from tests.support.coop_steps import Warnings, batches, must_take, silent_since, take, workers
from tests.support.programs import forked
from tests.support.queue_steps import column, data_of, insert, queue_with_consumer, tick, value
from tests.support.suite.slow import first
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[3]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    conn = pgq_db.connect()
    queue_with_consumer(conn)
    conn.execute("create table public.done (worker text, batch int8, data text)")
    conn.execute("create table public.stop ()")
    for name, setting in (("max_count", "10"), ("max_lag", "0"), ("idle_period", "0.05")):
        conn.execute("select pgq.set_queue_config('q', %s, %s)", [f"ticker_{name}", setting])
    return pgq_db


@pytest.fixture
def maintained(queue: Database) -> Iterator[Database]:
    """The queue with somebody who ticks, rotates and moves retries all the time."""
    stop = threading.Event()

    def run() -> None:
        conn = queue.connect()
        while not stop.wait(0.005):
            conn.execute("select pgq.ticker()")
            conn.execute("select pgq.maint_retry_events()")
            conn.execute("select pgq.maint_rotate_tables_step1('q')")
            conn.execute("select pgq.maint_rotate_tables_step2()")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        yield queue
        stop.set()
        running.result()


def produce(queue: Database, name: str, enough: Callable[[int], bool]) -> list[str]:
    """Inserts events in transactions of all sizes, some of which roll back; those committed.

    enough -- told how many are committed, says whether to end.
    """
    random = Random(name)
    conn = queue.connect(autocommit=False)
    committed: list[str] = []
    while not enough(len(committed)):
        datas = [f"{name} {len(committed) + i}" for i in range(random.choice([1, 1, 3, 20]))]
        for data in datas:
            insert(conn, data)
        if random.random() < 0.1:
            conn.rollback()
        else:
            conn.commit()
            committed += datas
    return committed


def is_waiting(queue: Database, conn: Connection) -> None:
    """Returns when the session waits for a lock."""
    pid = conn.info.backend_pid
    look = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
    wait_for(lambda: queue.value(look, pid), what=f"session {pid} waiting for a lock")


def test_nobody_dies_and_every_event_is_processed_exactly_once(maintained: Database) -> None:
    ended = threading.Event()

    def work(name: str) -> tuple[list[Batch], list[str | None]]:
        conn = maintained.connect()
        taken: list[Batch] = []
        read: list[str | None] = []
        while True:
            all_inserted = ended.is_set()
            batch = coop.next_batch(conn, "q", "c", name, dead_interval=MINUTE)
            if batch is None:
                if all_inserted:
                    return taken, read
                ended.wait(0.005)
                continue
            taken.append(batch)
            for chunk in pgq_batches.events(conn, batch):
                read += [event.data for event in chunk]
            assert coop.finish_batch(conn, batch.id) == 1

    with ThreadPoolExecutor(7) as pool:
        working = [pool.submit(work, str(number)) for number in range(4)]
        producing = [pool.submit(produce, maintained, f"p{n}", lambda c: c > 400) for n in range(3)]
        try:
            inserted = [data for one in producing for data in one.result()]
            # It sees all of them; one with the last id may have come before the last commit.
            last = queues.create_tick(maintained.connect(), "q")
        finally:
            ended.set()
        results = [one.result() for one in working]

    read = [data for _, datas in results for data in datas]
    assert sorted(read, key=str) == sorted(inserted)
    ranges = sorted((b.prev_tick_id, b.tick_id) for taken, _ in results for b in taken)
    assert [begin for begin, _ in ranges[1:]] == [end for _, end in ranges[:-1]], "no gap, no twice"
    assert ranges[0][0] == 1
    assert ranges[-1][1] >= last
    assert sum(bool(taken) for taken, _ in results) > 1, "nobody shared the work"


@pytest.mark.parametrize("rounds", [2, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", first(["events", "batches"]))
def test_killed_workers_cost_time_and_no_event(
    maintained: Database, how: str, rounds: int, tmp_path: Path
) -> None:
    """Effect and finish are one transaction, so each event has its effect exactly once."""
    conn = maintained.connect()
    processes: list[forked.Started] = []
    random = Random(how)

    def start(name: str) -> forked.Started:
        with (tmp_path / "log").open("ab") as log:
            process = forked.start(
                [sys.executable, "-m", "tests.support.coop_worker", maintained.dsn, name, how],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                output=log,
            )
        processes.append(process)
        return process

    def terminate(name: str) -> bool:
        look = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
        return bool(value(conn, look, f"coop {name} {maintained.name}"))

    def stored() -> int:
        return int(value(conn, "select count(*) from public.done"))

    try:
        killed_enough = threading.Event()

        def enough(_: int) -> bool:
            return killed_enough.wait(0.01)

        with ThreadPoolExecutor(2) as pool:
            producing = [pool.submit(produce, maintained, f"p{n}", enough) for n in range(2)]
            try:
                living = {name: start(name) for name in ("a", "b", "c")}
                for round_ in range(rounds):
                    progress = stored() + 20 + random.randrange(30)
                    wait_for(lambda p=progress: stored() > p, what="progress")
                    victim = random.choice(sorted(living))
                    if round_ % 2:
                        living[victim].kill()
                    else:
                        # Only the session: the process notices, and ends with an error.
                        wait_for(lambda v=victim: terminate(v), what=f"session of {victim}")
                        assert living[victim].wait(30) == 1
                    del living[victim]
                    living[f"{victim}{round_}"] = start(f"{victim}{round_}")
            finally:
                killed_enough.set()
            inserted = [data for one in producing for data in one.result()]
        conn.execute("insert into public.stop default values")
        survivor = start("survivor")
        survivor.wait(60)
        for name, process in living.items():
            assert process.wait(60) == 0, name
    finally:
        for process in processes:
            process.kill()
            process.wait()
    log = (tmp_path / "log").read_text()
    assert survivor.returncode == 0, log
    done = column(conn, "select data from public.done")
    assert sorted(done) == sorted(inserted)
    used = value(conn, "select count(distinct worker) from public.done")
    assert used >= 3
    assert value(conn, "select count(*) from pgq_coop.delivery_event") == 0


class TestRaces:
    def test_a_takeover_has_one_winner(self, queue: Database) -> None:
        conn = queue.connect()
        for round_ in range(5):
            batches(conn, f"{round_}")
            old = must_take(conn, f"dead {round_}")
            silent_since(conn, f"dead {round_}", "1 hour")
            together = threading.Barrier(4)

            def race(name: str, barrier: threading.Barrier = together) -> Batch | None:
                with queue.connect() as own:
                    barrier.wait()
                    return coop.next_batch(own, "q", "c", name, dead_interval=MINUTE)

            with ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(race, "abcd"))
            won = [batch for batch in answers if batch is not None]
            assert len(won) == 1
            assert won[0].id != old
            assert data_of(conn, won[0].id) == [f"{round_}"]
            assert coop.finish_batch(conn, won[0].id) == 1

    def test_new_workers_that_begin_at_once_share_nothing(self, pgq_db: Database) -> None:
        conn = pgq_db.connect()
        conn.execute("select pgq.create_queue('q')")
        coop.register_subconsumer(conn, "q", "c", "first")
        coop.unregister_subconsumer(conn, "q", "c", "first")
        batches(conn, *"abcdefgh")
        together = threading.Barrier(8)

        def race(number: int) -> Batch | None:
            with pgq_db.connect() as own:
                together.wait()
                return coop.next_batch(own, "q", "c", str(number))

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(race, range(8)))
        assert sorted(batch.tick_id for batch in answers if batch) == list(range(2, 10))

    def test_the_first_workers_of_a_consumer_register_it_together(self, pgq_db: Database) -> None:
        pgq_db.execute("select pgq.create_queue('q')")
        together = threading.Barrier(6)

        def race(number: int) -> int:
            with pgq_db.connect() as own:
                together.wait()
                return coop.register_subconsumer(own, "q", "c", str(number % 3))

        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(race, range(6)))
        assert sorted(answers) == [0, 0, 0, 1, 1, 1]
        assert pgq_db.value("select count(distinct sub_id) from pgq.subscription") == 1

    @pytest.mark.parametrize("step", ["finish", "ack", "receive"])
    def test_a_worker_in_the_middle_of_a_step_is_not_taken_over(
        self, queue: Database, step: str
    ) -> None:
        conn, slow = queue.connect(), queue.connect()
        insert(conn, "a")
        insert(conn, "b")
        tick(conn)
        event, _ = coop_steps.receive(slow, "q", "c", "slow", 2)
        steps: dict[str, Callable[[], object]] = {
            "finish": lambda: coop.finish_batch(slow, event.batch_id),
            "ack": lambda: coop_steps.ack(slow, event.batch_id, event.id),
            "receive": lambda: coop_steps.receive(slow, "q", "c", "slow", 1),
        }
        silent_since(conn, "slow", "1 hour")
        with slow.transaction():
            assert steps[step]() is not None
            assert take(conn, "other", "1 minute") is None
        assert take(conn, "other", "1 minute") is None
        gone = "select pgq_coop.finish_batch(%s)"
        assert value(slow, gone, event.batch_id) == (0 if step == "finish" else 1)

    @pytest.mark.parametrize("step", ["finish", "ack", "nack"])
    def test_a_worker_that_is_taken_over_meanwhile_finds_nothing(
        self, queue: Database, step: str
    ) -> None:
        conn, slow = queue.connect(), queue.connect()
        warned = Warnings(slow)
        insert(conn, "a")
        tick(conn)
        (event,) = coop_steps.receive(slow, "q", "c", "slow", 1)
        silent_since(conn, "slow", "1 hour")
        steps: dict[str, Callable[[], object]] = {
            "finish": lambda: coop.finish_batch(slow, event.batch_id),
            "ack": lambda: coop_steps.ack(slow, event.batch_id, event.id),
            "nack": lambda: coop_steps.nack(slow, event.batch_id, event.id, 0),
        }
        with ThreadPoolExecutor(1) as pool:
            with conn.transaction():
                (again,) = coop_steps.receive(conn, "q", "c", "other", 1, dead_interval=MINUTE)
                late = pool.submit(steps[step])
                is_waiting(queue, slow)
            assert late.result() in {0, None}
        assert len(warned) == 1
        assert warned[0].endswith(f"batch {event.batch_id} not found")
        assert coop_steps.ack(conn, again.batch_id, again.id) == 1
        assert value(conn, "select count(*) from pgq.retry_queue") == 0

    def test_the_last_two_events_settled_at_once_finish_the_batch(self, queue: Database) -> None:
        conn, other = queue.connect(), queue.connect()
        insert(conn, "a")
        insert(conn, "b")
        tick(conn)
        first, second = coop_steps.receive(conn, "q", "c", "1", 2)
        with ThreadPoolExecutor(1) as pool:
            with conn.transaction():
                assert coop_steps.ack(conn, first.batch_id, first.id) == 1
                late = pool.submit(coop_steps.ack, other, second.batch_id, second.id)
                is_waiting(queue, other)
            assert late.result() == 1
        assert column(conn, "select sub_batch from pgq.subscription where sub_batch > 0") == []

    def test_a_worker_waits_for_one_that_takes_a_batch_and_gets_the_next(
        self, queue: Database
    ) -> None:
        conn, other = queue.connect(), queue.connect()
        workers(conn, "1", "2")
        batches(conn, "a", "b")
        with ThreadPoolExecutor(1) as pool:
            with conn.transaction():
                first = must_take(conn, "1")
                late = pool.submit(must_take, other, "2")
                is_waiting(queue, other)
            second = late.result()
        assert [data_of(conn, batch) for batch in (first, second)] == [["a"], ["b"]]

    def test_a_rolled_back_step_leaves_the_batch_to_the_next(self, queue: Database) -> None:
        conn = queue.connect(autocommit=False)
        batches(queue.connect(), "a")
        must_take(conn, "1")
        conn.rollback()
        assert data_of(conn, must_take(conn, "2")) == ["a"]

    def test_the_name_of_a_consumer_that_leaves_one_queue_and_joins_another_stays(
        self, queue: Database
    ) -> None:
        conn, other = queue.connect(), queue.connect()
        conn.execute("select pgq.create_queue('p')")
        with conn.transaction():
            assert value(conn, "select pgq.register_consumer('p', 'c')") == 1
            # It waits for nobody.
            assert value(other, "select pgq.unregister_consumer('q', 'c')") == 1
        assert column(conn, "select co_name from pgq.consumer") == ["c"]
