"""A batch of any size is applied in bounded memory, and no reader ever sees a part of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.cascade.types import NodeType
from londiste.changes.keyed import columns_digest
from londiste.pgq import queues
from tests.fix_cluster import Database
from tests.fix_line import QUEUE, Line, LineNode

LIMIT_MB = 300
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
        spark_from_events=count // 2 if way else 0,
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

        def applied() -> bool:
            memory.update(peaks(worker.pid))
            return line.position(leaf) >= last

        line.wait(applied, "the batch", 3000)
        seen.wait(2)
    pairs = count // 2
    final = sum(range(pairs - KEYS + 1, pairs + 1))
    assert seen.values == {(0, 0), (final, -final)}
    found = leaf.database.execute("select way, events from londiste.large_batch")
    assert found == ([(way, count)] if way else [])
    print(f"{count} events by {way or 'the worker'} ({engine}): {sorted(memory.values())} MB")
    assert memory[worker.pid] < LIMIT_MB
    assert max(memory.values()) < LIMIT_MB


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
    """The most memory of a process and of the Python processes below it, by pid, in MB."""
    found: dict[int, int] = {}
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            folder = Path(f"/proc/{one}")
            status = (folder / "status").read_text()
            for task in (folder / "task").iterdir():
                children = (task / "children").read_text()
                waiting += map(int, children.split())
        except OSError:
            continue
        facts = dict(row.split(":\t", 1) for row in status.splitlines() if ":\t" in row)
        if facts["Name"].startswith(("python", "londiste")) and "VmHWM" in facts:
            found[one] = int(facts["VmHWM"].split()[0]) // 1024
    return found
