"""kill -9 at every named point, under writes: it converges, and nothing is applied twice."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

import londiste
from londiste.daemon import crash
from tests.fixtures.cluster import Server
from tests.fixtures.sinks import SINK_POINTS
from tests.integration.compare import test_compare_audit, test_repair
from tests.integration.consumer import test_dispatch_first_copy
from tests.integration.tablesync import test_copy_into_partitions
from tests.scenarios.cascade import test_interrupted, test_one_file, test_resurrect, test_scripts
from tests.scenarios.copy import test_compare_spark
from tests.scenarios.queue import test_consumer_contracts, test_lake_killed
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import QUEUE, Cascade, Node
from tests.unit.lake import test_store

#: The others are in the slow run.  By default tickers are killed in
#: tests/integration/queue/test_ticker.py, workers in
#: tests/scenarios/apply/test_handlers_killed.py and tests/integration/copy/test_copy_node.py,
#: large batches in tests/engine/test_large_killed.py, tasks of Spark that copy in
#: tests/engine/test_run.py, as a JVM is.
CHEAP = ("copy.mid-states",)
TICKER = (
    "ticker.before-tick",
    "ticker.after-tick",
    "ticker.mid-rotation",
)
WORKER = (
    "worker.before-batch",
    "worker.after-next-batch",
    "worker.mid-apply",
    "worker.before-commit",
    "worker.after-commit",
    "worker.reading-ahead",
    "worker.read-ahead",
    "worker.before-finish",
    "worker.after-finish",
    "worker.before-state",
    "worker.after-state",
)
COPY = (
    "copy.registered",
    "copy.prepared",
    "copy.mid-chunk",
    "copy.after-chunk",
    "copy.all-chunks",
    "copy.mid-index",
    "copy.after-index",
    "copy.restored",
    "copy.catching-up",
    "copy.mid-catch-up",
    "copy.wanna-sync",
    "copy.before-ok",
    "copy.after-ok",
)
#: Those of a copy that can be resumed which the other one has not, and those where it goes on.
RESUMABLE = (
    "copy.key-built",
    "copy.mid-states",
    "copy.consistent",
)
LARGE = (
    "large.begun",
    "large.mid-slice",
    "large.after-slice",
    "large.mid-merge",
)
#: Killed by tests of their own, one for each contract.
CONSUMER = tuple(test_consumer_contracts.POINTS)
#: Killed in the middle of scripts, by a test of their own.
SCRIPT = tuple(test_scripts.POINTS)
#: Killed by a test of its own, which also kills what Spark runs.
LAKE = test_lake_killed.POINTS
#: Killed by a test of their own, while a dispatcher copies the rows that exist.
DISPATCH = test_dispatch_first_copy.POINTS
#: Killed where the commands are tested: point -> the file.
COMMANDS = {
    "copy.placed": test_copy_into_partitions,
    "compare.mid-range": test_compare_spark,
    "compare.mid-wave": test_compare_audit,
    "repair.mid-plan": test_repair,
    "resurrect.before-commit": test_resurrect,
    "run.started": test_one_file,
    "lake.converting": test_store,
    "lake.converted": test_store,
}
#: Killed in queries of Spark, by tests/engine/test_sink_queue.py and test_sink_table.py.
SINK = SINK_POINTS
#: Killed in the middle of commands, by a test of their own.
STEP = test_interrupted.POINTS
TABLES = (*writers.KEYED, *writers.KEYLESS, "scenario.bulk")


def _chosen(points: tuple[str, ...]) -> list[object]:
    return [p if p in CHEAP else pytest.param(p, marks=pytest.mark.slow) for p in points]


def test_every_crash_point_of_the_program_is_tested_here(cascade: Cascade) -> None:
    daemons = (TICKER, WORKER, COPY, RESUMABLE, LARGE, CONSUMER, SCRIPT, SINK, LAKE, DISPATCH)
    tested = (*daemons, tuple(COMMANDS), STEP)
    for point, module in COMMANDS.items():
        text = Path(module.__file__).read_text("utf-8")
        named = f'(LONDISTE_CRASH(": |=)|standing[(]|crash=)"{re.escape(point)}[:"]'
        assert re.search(named, text), point
    assert set().union(*tested) == set(crash.POINTS)
    answer = json.loads(cascade.londiste(None, "debug", "crash-points", "--json").out)["points"]
    assert [item["point"] for item in answer] == list(crash.POINTS)


def test_every_crash_point_is_somewhere_in_the_program() -> None:
    package = Path(londiste.__file__).parent
    used: set[str] = set()
    for file in package.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        used.update(re.findall(r'\b_?point\(\s*"([^"]+)"', text))
    assert used == set(crash.POINTS)


@pytest.mark.parametrize("point", _chosen(TICKER))
def test_a_ticker_killed_at(point: str, cascade: Cascade, cluster16: Server) -> None:
    root, leaf = _nodes(cascade, cluster16)
    ticker = cascade.start_ticker(crash=point)
    cascade.start_worker(leaf)
    with writers.quick_and_slow(root.database) as (writer, slow):
        cascade.wait_crash(ticker, point)
        assert ticker.wait() == -signal.SIGKILL
        writer.wait(20)
        cascade.start_ticker()
        cascade.add_tables("--all", "--insert-only")
        cascade.wait_sync(leaf)
        writer.wait(50)
        writer.stop()
        slow.stop()
    _is_in_step(cascade, root, leaf)


@pytest.mark.parametrize("point", _chosen(WORKER))
def test_a_worker_killed_at(point: str, cascade: Cascade, cluster16: Server) -> None:
    root, leaf = _nodes(cascade, cluster16)
    cascade.start_ticker()
    with writers.quick_and_slow(root.database) as (writer, slow):
        if point in {"worker.before-state", "worker.after-state"}:
            worker = cascade.start_worker(leaf, crash=point)
            cascade.add_tables("--all", "--insert-only")
        else:
            # Nothing but batches with rows to apply, so that every point is reached in one.
            cascade.start_worker(leaf)
            cascade.add_tables("--all", "--insert-only")
            cascade.wait_sync(leaf)
            cascade.stop(leaf.worker)
            writer.wait(20)
            if "ahead" in point:
                # Several batches that take their time wait for the worker.
                for number in range(6):
                    root.database.execute(
                        f"update scenario.bulk set filler = '{number}' || filler where id <= 2000"
                    )
                    root.database.execute(f"select pgq.force_tick('{QUEUE}')")
                    root.database.execute(f"select pgq.ticker('{QUEUE}')")
            worker = cascade.start_worker(leaf, crash=point)
        cascade.wait_crash(worker, point)
        assert worker.wait() == -signal.SIGKILL
        writer.wait(20)
        cascade.start_worker(leaf)
        cascade.wait_sync(leaf)
        writer.wait(50)
        writer.stop()
        slow.stop()
    _is_in_step(cascade, root, leaf)


@pytest.mark.parametrize("point", _chosen(LARGE))
def test_a_job_for_a_large_batch_killed_at(point: str, cascade: Cascade, cluster16: Server) -> None:
    _kill_large(cascade, cluster16, point)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("point", LARGE)
def test_a_job_of_spark_for_a_large_batch_killed_at(
    point: str, cascade: Cascade, cluster16: Server
) -> None:
    cascade.engine = "spark"
    _kill_large(cascade, cluster16, point)
    cascade.assert_spark_copied()


def _kill_large(cascade: Cascade, cluster16: Server, point: str) -> None:
    """One task of the job, or the worker, is killed; other batches are small."""
    cascade.settings |= {"parallel_apply_min_events": "200", "spark_min_bytes": "100000000"}
    root, leaf = _nodes(cascade, cluster16)
    cascade.start_ticker()
    with writers.quick_and_slow(root.database) as (writer, slow):
        cascade.start_worker(leaf)
        cascade.add_tables("--all", "--insert-only")
        cascade.wait_sync(leaf)
        cascade.stop(leaf.worker)
        worker = cascade.start_worker(leaf, crash=point)
        root.database.execute(
            "do $$ begin for i in 1..1000 loop"
            " update scenario.bulk set filler = 'changed' where id = i; end loop; end $$"
        )
        cascade.wait_crash(worker, point)
        if point in {"large.begun", "large.mid-merge"}:
            assert worker.wait() == -signal.SIGKILL
            cascade.start_worker(leaf)
        cascade.wait_progress(leaf)
        writer.wait(50)
        writer.stop()
        slow.stop()
    _is_in_step(cascade, root, leaf)
    assert leaf.database.value("select way from londiste.large_batch") in {"job", "part"}
    cascade.stop(leaf.worker)
    assert leaf.database.execute("select relname from pg_class where relname ~ '^staged_'") == []


@pytest.mark.parametrize("point", _chosen(COPY))
def test_a_copy_killed_at(point: str, cascade: Cascade, cluster16: Server) -> None:
    _kill_copy(cascade, cluster16, point)


@pytest.mark.parametrize(
    "point",
    [
        *_chosen(RESUMABLE),
        # Without other indexes than that of the key none is left to build by itself.
        *[
            pytest.param(p, marks=pytest.mark.slow)
            for p in COPY
            if p not in {"copy.mid-index", "copy.after-index"}
        ],
    ],
)
def test_a_resumable_copy_killed_at(point: str, cascade: Cascade, cluster16: Server) -> None:
    cascade.settings["resumable_copy_min_bytes"] = "0"
    _kill_copy(cascade, cluster16, point)
    if point in {*RESUMABLE, "copy.mid-chunk", "copy.all-chunks"}:
        assert "chunks are done" in cascade.processes.everything_said()


@pytest.mark.parametrize(
    "point",
    [
        p
        for p in COPY
        # Small tables keep their indexes.
        if p not in {"copy.mid-index", "copy.after-index", "copy.restored"}
    ],
)
@pytest.mark.slow
def test_a_group_of_tables_killed_at(point: str, cascade: Cascade, cluster16: Server) -> None:
    cascade.settings["copy_chunk_bytes"] = str(1 << 30)
    _kill_copy(cascade, cluster16, point)
    assert "small tables as a group" in cascade.processes.everything_said()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("point", ["copy.mid-chunk", "copy.all-chunks", "copy.mid-catch-up"])
def test_a_copy_by_spark_killed_at(point: str, cascade: Cascade, cluster16: Server) -> None:
    cascade.engine = "spark"
    _kill_copy(cascade, cluster16, point)
    cascade.assert_spark_copied()


def _kill_copy(cascade: Cascade, cluster16: Server, point: str) -> None:
    root, leaf = _nodes(cascade, cluster16)
    cascade.start_ticker()
    worker = cascade.start_worker(leaf, crash=point)
    with writers.quick_and_slow(root.database) as (writer, slow):
        writer.wait(20)
        cascade.add_tables("--all", "--insert-only")
        # A busy machine starts Spark in more than a minute.
        cascade.wait_crash(worker, point, 300)
        # The worker lives on and starts the copy again by itself.
        cascade.wait_sync(leaf)
        assert worker.running()
        writer.wait(50)
        writer.stop()
        slow.stop()
    _is_in_step(cascade, root, leaf)


def _nodes(cascade: Cascade, cluster16: Server) -> tuple[Node, Node]:
    """A root with rows and an empty leaf; chunks are small, so that there are many."""
    cascade.settings.setdefault("copy_chunk_bytes", str(512 * 1024))
    root = cascade.root(
        on=cluster16,
        schema=writers.SCHEMA + writers.DATA + writers.BULK + writers.BULK_ROWS,
    )
    leaf = cascade.leaf(provider=root, schema=writers.SCHEMA + writers.BULK)
    return root, leaf


def _is_in_step(cascade: Cascade, root: Node, leaf: Node) -> None:
    cascade.wait_root(leaf)
    assert cascade.states(leaf) == dict.fromkeys(TABLES, "ok")
    answer = cascade.compare(leaf)
    assert answer["equal"], answer
    assert len(answer["tables"]) == len(TABLES)
    oracles.assert_same_rows(root.database, leaf.database, TABLES)
    assert oracles.applied_twice(leaf.database) == []
    assert oracles.gaps(leaf.database) == []
    cascade.wait(lambda: not copies_registered(root), "the end of the copies' consumers")
    assert indexes(leaf) == indexes_of_schema(cascade)


def copies_registered(root: Node) -> list[str]:
    """Consumers that a copy has left on the provider: they would stop rotation for ever."""
    return [
        name
        for (name,) in root.database.execute(
            "select co_name from pgq.subscription join pgq.consumer on sub_consumer = co_id"
            " where co_name like '%.copy.%'"
        )
    ]


def indexes(node: Node) -> set[tuple[str, str]]:
    """Valid indexes of the user's tables, by name and definition."""
    return set(
        node.database.execute(
            "select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) from pg_index i"
            " join pg_class c on c.oid = i.indrelid"
            " where c.relnamespace = 'scenario'::regnamespace and i.indisvalid and i.indisready"
        )
    )


def indexes_of_schema(cascade: Cascade) -> set[tuple[str, str]]:
    """The indexes that the tables were made with."""
    fresh = cascade.node("fresh", schema=writers.SCHEMA + writers.BULK)
    return indexes(fresh)
