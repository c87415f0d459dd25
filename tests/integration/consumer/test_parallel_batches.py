"""Movers that process large batches as jobs: results, and kill -9 of each participant."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste.errors import EventError
from londiste.pgq import batches, queues
from londiste.tools.queue_mover import QueueMover
from tests.fixtures.cluster import Database
from tests.integration.consumer.test_movers import (
    SOURCE,
    TARGET,
    arrived,
    mover,
    send,
    splitter,
    tick,
)
from tests.support.programs import forked

ENGINES = ["local", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.spark])]
ODD = ("odd\t\\N", 'tab\tnew\nline back\\slash "quote" \\N', "", None, "ä", None)
#: The program dies there, or a task of it does.
PROGRAM = ("large.begun", "large.mid-merge", "consumer.before-commit", "consumer.after-commit")
TASK = ("large.mid-slice", "large.after-slice")
#: One for each; the others are in the slow run.
CHEAP = ("large.mid-merge",)


@pytest.fixture
def ends(pgq_db: Database, new_database: Callable[..., Database]) -> tuple[Database, Database]:
    """The queue's database and the target's, with queues."""
    target = new_database(pgq=True)
    queues.create_queue(pgq_db.connect(), SOURCE)
    queues.create_queue(target.connect(), TARGET)
    batches.register_consumer(target.connect(), TARGET, "reader")
    return pgq_db, target


def many(source: Database, count: int = 400) -> None:
    """Events in transactions of which the older one commits last."""
    old = source.connect(autocommit=False)
    new = source.connect(autocommit=False)
    for number in range(count):
        (old, new)[number % 2].execute(
            "select pgq.insert_event(%s, %s, %s, %s, null, null, null)",
            [SOURCE, f"t{number}", f"data {number} \\ \t", TARGET],
        )
    new.commit()
    old.commit()
    tick(source, SOURCE)


def moved(source: Database) -> list[tuple[Any, ...]]:
    return source.execute(
        "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
        " from pgq.event_template order by ev_id"
    )


def way(target: Database) -> list[tuple[Any, ...]]:
    """Which way the last large batch went, and what is left of its job."""
    found = target.execute("select way, reason from londiste.large_batch")
    left = target.execute("select relname from pg_class where relname ~ '^staged_'")
    assert left == []
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_a_large_batch_is_moved_by_a_job(engine: str, ends: tuple[Database, Database]) -> None:
    source, target = ends
    moving = mover(source, target, engine=engine, parallel_apply_min_events=100)
    moving.register()
    many(source)
    send(source, ODD)
    assert moving.run_once() >= 1
    assert arrived(target) == moved(source)
    times = "select ev_time from pgq.event_template order by ev_id"
    assert target.execute(times) == source.execute(times)
    assert way(target) == [("job", "")]


@pytest.mark.slow
def test_a_transaction_with_a_tick_inside_is_moved_by_a_job(
    ends: tuple[Database, Database],
) -> None:
    source, target = ends
    source.execute(f"select pgq.set_queue_config('{SOURCE}', 'ticker_max_lag', '0')")
    moving = mover(source, target, engine="local", parallel_apply_min_events=100)
    moving.register()
    with source.connect(autocommit=False) as large:
        large.execute(
            "select pgq.insert_event(%s, 't', n::text, %s, null, null, null)"
            " from generate_series(1, 150) n",
            [SOURCE, TARGET],
        )
        assert source.value("select pgq.ticker(%s)", SOURCE) is not None
        moving.run_once()
    # Not forced: that would skip ids, and the batch seem large.
    source.execute(f"select pgq.insert_event('{SOURCE}', 't', 'after it')")
    assert source.value("select pgq.ticker(%s)", SOURCE) is not None
    moving.run_once()
    assert len(arrived(target)) == 151
    assert way(target) == [("job", "")]


def test_what_a_setting_leaves_out_the_tasks_leave_out(ends: tuple[Database, Database]) -> None:
    source, target = ends
    moving = mover(
        source,
        target,
        engine="local",
        parallel_apply_min_events=100,
        consumer_filter="ev_type like '%7' -- or not",
    )
    moving.register()
    many(source)
    moving.run_once()
    assert arrived(target) == [row for row in moved(source) if row[0].endswith("7")]
    assert way(target) == [("job", "")]


def test_a_target_queue_that_takes_no_more_stops_the_job_and_nothing_arrives(
    ends: tuple[Database, Database],
) -> None:
    source, target = ends
    target.execute(f"select pgq.set_queue_config('{TARGET}', 'per_tx_limit', '50')")
    moving = mover(source, target, engine="local", parallel_apply_min_events=100)
    moving.register()
    many(source)
    with pytest.raises(Exception, match="50"):
        moving.run_once()
    assert arrived(target) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_large_batch_is_split_by_a_job(engine: str, ends: tuple[Database, Database]) -> None:
    source, target = ends
    queues.create_queue(target.connect(), "other")
    splitting = splitter(
        source, target, engine=engine, parallel_apply_min_events=100, default_queue="other"
    )
    many(source)
    send(source, ("t", "lost"), ("t", "named", "other"))
    splitting.run_once()
    assert arrived(target) == [row for row in moved(source) if row[2] == TARGET]
    assert [row[1] for row in arrived(target, "other")] == ["lost", "named"]
    assert way(target) == [("job", "")]


@pytest.mark.parametrize("engine", ENGINES)
def test_events_keep_their_order_in_a_queue_that_is_named_and_the_default(
    engine: str, ends: tuple[Database, Database]
) -> None:
    source, target = ends
    splitting = splitter(
        source, target, engine=engine, parallel_apply_min_events=100, default_queue=TARGET
    )
    send(source, *[("t", str(number), (None, TARGET, "")[number % 3]) for number in range(200)])
    splitting.run_once()
    assert [row[1] for row in arrived(target)] == [str(number) for number in range(200)]
    assert way(target) == [("job", "")]


def test_an_event_that_does_not_fit_is_named_though_a_job_met_it(
    ends: tuple[Database, Database],
) -> None:
    source, target = ends
    splitting = splitter(source, target, engine="local", parallel_apply_min_events=100)
    conn = source.connect(autocommit=False)
    for number in range(150):
        queue = "nowhere" if number == 120 else TARGET
        conn.execute("select pgq.insert_event(%s, 't', 'd', %s, null, null, null)", [SOURCE, queue])
    conn.commit()
    tick(source, SOURCE)
    with pytest.raises(EventError, match="queue nowhere: the target queue") as caught:
        splitting.run_once()
    (row,) = source.execute("select ev_id from pgq.event_template where ev_extra1 = 'nowhere'")
    assert caught.value.event_id == row[0]
    assert arrived(target) == []


def _program(source: Database, target: Database, engine: str) -> list[str]:
    settings = {"poll_interval": "0.1", "engine": engine, "parallel_apply_min_events": "100"}
    return [
        *(sys.executable, "-m", "londiste", "queue", "mover", "--once"),
        *("--queue", SOURCE, "--consumer", "mover", "--db", source.dsn),
        *("--target-db", target.dsn, "--target-queue", TARGET),
        *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")),
    ]


@pytest.mark.parametrize(
    ("engine", "point"),
    [
        pytest.param(
            engine,
            point,
            marks=[]
            if (engine == "local" and point in CHEAP)
            else [pytest.mark.slow, *([pytest.mark.spark] if engine == "spark" else [])],
        )
        for engine in ("local", "spark")
        for point in (*PROGRAM, *TASK)
    ],
)
def test_a_mover_with_a_job_killed_at(
    engine: str, point: str, ends: tuple[Database, Database], tmp_path: Path
) -> None:
    source, target = ends
    mover(source, target).register()
    many(source)
    mark = tmp_path / "mark"
    command = _program(source, target, engine)
    armed = {**os.environ, "LONDISTE_CRASH": point, "LONDISTE_CRASH_MARK": str(mark)}
    done = forked.run(command, env=armed, timeout=300)
    assert mark.exists(), done.stderr
    # Spark runs a lost task again; with the local engine the batch is tried again, unless all
    # slices are seen committed before the end of the process.
    lost = {0} if engine == "spark" else {0, 6} if point == "large.after-slice" else {6}
    assert done.returncode in ({-signal.SIGKILL} if point in PROGRAM else lost), done.stderr
    again = forked.run(command, env=os.environ, timeout=300)
    assert again.returncode == 0, again.stderr
    assert arrived(target) == moved(source)
    assert way(target) == [("job", "")]


def test_a_mover_that_reads_alone_needs_no_place_to_stage(
    ends: tuple[Database, Database],
) -> None:
    source, target = ends
    target.execute("drop schema londiste cascade")
    moving = mover(source, target, parallel_apply_min_events=100)
    moving.register()
    many(source)
    moving.run_once()
    assert arrived(target) == moved(source)
    staging = QueueMover(settings=moving.settings.model_copy(update={"engine": "local"}))
    with pytest.raises(Exception, match="londiste"):
        staging.run_once()
