"""A batch that is open does not lead a worker past the place where it is asked to wait."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
import pytest

from londiste.cascade import original
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.cascade.switching.steps.waits import wait_tick
from londiste.daemon.loop import as_londiste
from londiste.daemon.signals import Signals
from londiste.errors import LockTimeout, NodeDropped, NodeUnreachable, TransientError
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import Question, ask, still_running, worker_runs
from londiste.pgq import batches
from londiste.replication.apply.prefetch import JOIN_EVENTS
from londiste.replication.worker.provider import Source
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings, load
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support import lines
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.waiting import wait_for

SCHEMA = "create table t (id int primary key, v text)"


@dataclass
class Bench:
    """A root, a leaf that is in step, and the leaf's worker to be driven unit by unit."""

    line: Line
    root: LineNode
    leaf: LineNode
    worker: Worker

    @property
    def source(self) -> Source:
        source = self.worker._sessions.source
        assert source is not None
        return source

    def tick(self, row: int) -> int:
        """A row and a tick behind it; the ticks are near enough to be joined."""
        self.root.database.execute("insert into t values (%s, 'x')", row)
        return int(self.root.database.value("select pgq.ticker(%s)", QUEUE))

    def rows(self) -> int:
        return int(self.leaf.database.value("select count(*) from t"))

    def settle(self) -> None:
        while self.worker.unit() or self.source.done is not None:
            pass


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "public.t")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.t")
    root.database.execute("select pgq.set_queue_config(%s, 'ticker_max_count', '1')", QUEUE)
    return root, leaf


@pytest.fixture
def bench(line: Line) -> Iterator[Bench]:
    root, leaf = _pair(line)
    with closing(Signals()) as signals:
        worker = Worker(
            lambda: load(WorkerSettings, leaf.config), signals, copy_argv=[sys.executable, "-c", ""]
        )
        made = Bench(line, root, leaf, worker)
        try:
            worker._start()
            made.settle()
            made.tick(1)
            made.settle()
            assert made.rows() == 1
            yield made
        finally:
            worker.close()


def test_a_prepared_transaction_that_holds_a_lock_is_named(bench: Bench) -> None:
    """Also by a switch that waits for the worker."""
    leaf, target = bench.leaf.database, bench.worker._sessions.node()
    leaf.execute("begin; lock table t in share mode; prepare transaction 'it''s'")
    target.execute("set lock_timeout = '50ms'")
    bench.root.database.execute("update t set v = 'y'")
    tick = int(bench.root.database.value("select pgq.ticker(%s)", QUEUE))
    with pytest.raises((LockTimeout, psycopg.Error)) as late:
        bench.worker.unit()
    bench.worker._recover(as_londiste(late.value))
    error = leaf.value("select cur_error from pgq_node.get_consumer_info(%s) limit 1", QUEUE)
    remedy = "commit prepared 'it''s', or rollback prepared 'it''s'"
    assert "prepared transaction it's of " in error
    assert error.endswith(f"; hint: if it holds the lock: {remedy}")
    with pytest.raises(TransientError) as waits:
        wait_tick(leaf.connect(), QUEUE, tick, 0, "all ticks")
    assert waits.value.hint == f"on node leaf: if it holds the lock: {remedy}"
    leaf.execute("rollback prepared 'it''s'")
    bench.settle()
    assert leaf.value("select v from t") == "y"


def test_a_leaf_takes_ticks_that_piled_up_in_one_batch(bench: Bench) -> None:
    last = [bench.tick(row) for row in range(2, 7)][-1]
    bench.worker.unit()
    assert (bench.rows(), bench.line.position(bench.leaf)) == (6, last)


def test_a_batch_of_joined_ticks_that_is_open_does_not_lead_past_a_hold(bench: Bench) -> None:
    ticks = [bench.tick(row) for row in range(2, 7)]
    at = bench.line.position(bench.leaf)
    opened = batches.finish_and_next(
        bench.source.conn, QUEUE, "leaf_worker", from_tick=at, max_count=JOIN_EVENTS
    )
    assert opened is not None
    assert opened.batch.tick_id == ticks[-1]
    with bench.leaf.database.connect() as conn:
        nodes.set_consumer_hold(conn, QUEUE, "leaf_worker", ticks[1], 60, "test")
        bench.settle()
        assert bench.line.position(bench.leaf) == ticks[1]
        assert bench.rows() == 3
        nodes.clear_consumer_hold(conn, QUEUE, "leaf_worker")
    bench.settle()
    assert (bench.rows(), bench.line.position(bench.leaf)) == (6, ticks[-1])


def test_a_worker_comes_to_the_tick_where_a_copy_waits_in_one_batch_and_stops_there(
    bench: Bench,
) -> None:
    """With a tick every few milliseconds one by one would be slower than the ticks are."""
    for node in (bench.root, bench.leaf):
        node.database.execute("create table u (id int primary key)")
        bench.line.add(node, "public.u")
    bench.settle()
    at = bench.line.position(bench.leaf)
    state = "select merge_state from londiste.table_info where table_name = 'public.u'"
    bench.leaf.database.execute(
        "update londiste.table_info set merge_state = %s where table_name = 'public.u'",
        f"wanna-sync:{at + 7}",
    )
    bench.settle()
    ticks = [bench.tick(row) for row in range(2, 12)]
    assert ticks[6] == at + 7
    bench.worker.unit()
    assert (bench.rows(), bench.line.position(bench.leaf)) == (8, ticks[6])
    bench.settle()
    assert (bench.leaf.database.value(state), bench.rows()) == (f"do-sync:{ticks[6]}", 8)


def test_a_worker_that_is_paused_with_an_open_batch_stands_still_and_goes_on(
    bench: Bench,
) -> None:
    at = bench.line.position(bench.leaf)
    last = bench.tick(2)
    batches.finish_and_next(bench.source.conn, QUEUE, "leaf_worker")
    with bench.leaf.database.connect() as conn:
        nodes.set_consumer_paused(conn, QUEUE, "leaf_worker", True)
        assert bench.worker.unit() is False
        assert bench.worker.unit() is False
        assert bench.line.position(bench.leaf) == at
        nodes.set_consumer_paused(conn, QUEUE, "leaf_worker", False)
    bench.settle()
    assert (bench.rows(), bench.line.position(bench.leaf)) == (2, last)


def test_a_tick_that_comes_while_the_last_batch_is_finished_is_not_slept_through(
    bench: Bench,
) -> None:
    bench.tick(2)
    bench.worker.unit()
    assert bench.rows() == 2
    bench.tick(3)
    bench.source.listener.drain()
    bench.worker.unit()
    assert bench.rows() == 3, "asked for, whatever was heard"


def test_a_worker_whose_node_was_dropped_holds_nothing(
    bench: Bench,
) -> None:
    leaf, worker = bench.leaf, bench.worker

    def sessions() -> int:
        ask = "select count(*) from pg_stat_activity where application_name ~ '^londiste worker '"
        return int(leaf.database.value(f"{ask} and datname = current_database()"))

    with Connections(name="tests") as sites:
        here = sites.at(leaf.database.dsn)
        runs = partial(worker_runs, queue=QUEUE)
        wait_for(lambda: runs(here), what="the worker")
        nodes.drop_node(here, QUEUE, "leaf")
        for _ in range(2):
            with pytest.raises(NodeDropped) as dropped:
                worker.unit()
            worker._recover(dropped.value)
            wait_for(lambda: sessions() == 0, what="the end of its sessions")
            assert not runs(here)
            # Whoever waits for it is told at once.
            assert still_running(lambda: ask([Question("w", "", runs)], lambda _: here)) == set()


def test_a_worker_of_ours_is_known_for_ours_in_its_node(bench: Bench) -> None:
    assert nodes.get_node_info(bench.leaf.database.connect(), QUEUE).uptodate
    with Connections(name="tests") as sites:
        conn = sites.at(bench.root.database.dsn)
        assert original.originals(sites, conn, QUEUE, adopted=True) == []
        bench.leaf.database.execute("delete from pgq.known_source")
        assert original.originals(sites, conn, QUEUE, adopted=True) == ["leaf"]


def test_a_batch_of_one_row_takes_nine_statements_and_three_answers(
    bench: Bench, tmp_path: Path
) -> None:
    for row in range(2, 10):
        bench.tick(row)
        bench.settle()
    bench.tick(10)
    target = bench.worker._sessions.node().pgconn
    # What it looks for now and then is no part of a batch.
    bench.worker._keys._next = math.inf
    trace = tmp_path / "trace"
    with trace.open("wb") as file:
        target.trace(file.fileno())
        bench.worker.unit()
        target.untrace()
    assert bench.rows() == 10
    sent = Counter(line.split("\t")[3] for line in trace.read_text().splitlines())
    # The look; begin, role, savepoint, versions, rows, names, position; commit.
    assert (sent["Execute"] + sent["Query"], sent["ReadyForQuery"]) == (9, 3), trace.read_text()


def test_a_worker_whose_own_database_falls_silent_continues_in_a_new_session(
    bench: Bench,
) -> None:
    """Also where the connection seems sound: something on the way has forgotten it."""
    settings, here = bench.worker.settings, bench.leaf.database
    bench.worker.close()
    with lines.Line(settings.db) as line, closing(Signals()) as signals:
        impatient = {"db": line.dsn, "lock_timeout": 0.5, "response_timeout": 0.5}
        worker = Worker(lambda: settings.model_copy(update=impatient), signals)
        with closing(worker):
            worker._start()
            target = worker._sessions.target
            assert target is not None
            pid = target.info.backend_pid
            line.stall()
            bench.tick(2)
            with pytest.raises((NodeUnreachable, psycopg.Error), match="for 1 s") as silent:
                worker.unit()
            worker._recover(as_londiste(silent.value))
            ended = "select count(*) = 0 from pg_stat_activity where pid = %s"
            wait_for(lambda: here.value(ended, pid), what="the end of the silent session")
            while bench.rows() < 2:
                worker.unit()
