"""A batch of any size is applied in bounded memory, and no reader ever sees a part of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.changes.keyed import columns_digest
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.fixtures.line import QUEUE, Line, LineNode

LIMIT_MB = 300
#: The heap that Spark is given by default, and what a JVM needs besides.
JVM_MB = 512 + 384
SMALL = 40_000
HUGE = 10_000_000
KEYS = 20_000
SCHEMA = (
    "create table gain (id int8 primary key, n int8); create table loss (like gain including all)"
)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("count", "way", "engine"),
    [
        (SMALL, "job", "local"),
        pytest.param(SMALL, "job", "spark", marks=[pytest.mark.slow, pytest.mark.spark]),
        pytest.param(HUGE, None, "local", marks=pytest.mark.slow),
        pytest.param(HUGE, "job", "local", marks=pytest.mark.slow),
        pytest.param(HUGE, "job", "spark", marks=[pytest.mark.slow, pytest.mark.spark]),
    ],
)
def test_a_batch_of_any_size_becomes_visible_at_once_and_costs_no_memory(
    line: Line, count: int, way: str | None, engine: str
) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node(
        "leaf",
        NodeType.LEAF,
        root,
        schema=SCHEMA,
        engine=engine,
        parallel_apply_min_events=count // 2 if way else 0,
    )
    line.add(root, "gain", "loss")
    line.tick()
    line.once(leaf)
    line.add(leaf, "gain", "loss")
    for table in ("gain", "loss"):
        leaf.database.execute(
            "set session_replication_role = replica;"
            f"insert into {table} select i, 0 from generate_series(0, {KEYS - 1}) i"
        )
    write_events(root.database, count)
    last = line.tick()

    with watched(leaf) as seen:
        worker = line.start(leaf)
        memory: dict[int, int] = {}
        jvms: set[int] = set()

        started = told = time.monotonic()

        def applied() -> bool:
            nonlocal told
            memory.update(peaks(worker.pid))
            jvms.update(programs(worker.pid, "java"))
            if time.monotonic() - told > 20:
                told = time.monotonic()
                done = leaf.database.value(
                    "select count(*) from londiste.large_batch_slice where result is not null"
                )
                print(f"{told - started:.0f} s: {done} slices, {worker.pid}: {memory}", flush=True)
            return line.position(leaf) >= last

        line.wait(applied, "the batch", 3000)
        seen.wait(2)
    pairs = count // 2
    final = sum(range(pairs - KEYS + 1, pairs + 1))
    assert seen.values == {(0, 0), (final, -final)}
    found = leaf.database.execute("select way, events from londiste.large_batch")
    assert found == ([(way, count)] if way else [])
    java = {pid: memory.pop(pid) for pid in jvms & memory.keys()}
    print(
        f"{count} events by {way or 'the worker'} ({engine}): {time.monotonic() - started:.0f} s,"
        f" worker {memory[worker.pid]} MB, all {sorted(memory.values())}, JVM {java}"
    )
    assert memory[worker.pid] < LIMIT_MB
    assert max(memory.values()) < LIMIT_MB
    assert max(java.values(), default=0) < JVM_MB


def write_events(database: Database, count: int) -> None:
    """Events of both tables in turns, as our own capture writes them; no table is touched."""
    kind = '{"op":"UPDATE","table":["public","%s"],"pkey":["id"],"row":"' + columns_digest(
        ["id", "n"]
    )
    conn = database.connect()
    table = queues.current_event_table(conn, QUEUE)
    for start in range(0, count // 2, 500_000):
        conn.execute(
            f"insert into {table} (ev_time, ev_type, ev_data, ev_extra1, ev_extra3)"
            " select now(), case t when 0 then %s else %s end,"
            ' format(\'{"id":%%s,"n":%%s}\', j %% %s, case t when 0 then j else -j end),'
            " case t when 0 then 'public.gain' else 'public.loss' end, (j %% %s)::text"
            " from generate_series(%s::int8, %s) j, generate_series(0, 1) t",
            [
                kind % "gain" + '"}',
                kind % "loss" + '"}',
                KEYS,
                KEYS,
                start + 1,
                min(start + 500_000, count // 2),
            ],
        )


class Seen:
    """What a reader has seen; ``wait`` until it has looked some more times."""

    def __init__(self) -> None:
        self.values: set[tuple[int, int]] = set()
        self._looks = threading.Semaphore(0)

    def add(self, value: tuple[int, int]) -> None:
        self.values.add(value)
        self._looks.release()

    def wait(self, looks: int) -> None:
        """Until it has begun to look anew after now."""
        while self._looks.acquire(blocking=False):
            pass
        for _ in range(looks):
            assert self._looks.acquire(timeout=60)


@contextmanager
def watched(node: LineNode) -> Iterator[Seen]:
    """A reader looks at both tables again and again."""
    seen, end = Seen(), threading.Event()

    def look() -> None:
        with psycopg.connect(node.database.dsn, autocommit=True) as conn:
            while not end.is_set():
                row: Any = conn.execute(
                    "select (select sum(n) from gain)::int8, (select sum(n) from loss)::int8"
                ).fetchone()
                seen.add(row)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        end.set()
        thread.join()


def peaks(pid: int) -> dict[int, int]:
    """The most memory of a process and of those below it so far, by pid, in MB."""
    found: dict[int, int] = {}
    for one in below(pid):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{one}/status").read_text()
            facts = dict(row.split(":\t", 1) for row in text.splitlines() if ":\t" in row)
            if "VmHWM" in facts:
                found[one] = int(facts["VmHWM"].split()[0]) // 1024
    return found


def programs(pid: int, name: str) -> set[int]:
    """The process and those below it that run a program of this name."""
    found = set()
    for one in below(pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{one}/comm").read_text().strip() == name:
                found.add(one)
    return found


def below(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        yield one
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
