"""Millions of events without a tick become one batch, in bounded memory.

The consumer is a process of its own, written as the documentation says; the largest memory of that
process is what is held against the limit.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from londiste.pgq import batches, queues
from tests.fixtures.cluster import Database
from tests.fixtures.process import ROOT

LIMIT_MB = 200
SMALL = 300_000


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [SMALL, pytest.param(10_000_000, marks=pytest.mark.slow)])
def test_a_batch_of_any_size_is_drained_in_bounded_memory(pgq_db: Database, count: int) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "counter")
    # As bulk producers do, a million rows to a transaction; nobody ticks meanwhile.
    for start in range(0, count, 1_000_000):
        with conn.transaction():
            table = queues.current_event_table(conn, "q")
            conn.execute(
                f"insert into {table} (ev_time, ev_type, ev_data, ev_extra1)"
                " select now(), 'I:id', n::text, repeat('x', 40)"
                f" from generate_series({start + 1}, {min(count, start + 1_000_000)}) n"
            )
    queues.force_tick(conn, "q")
    assert queues.ticker(conn, "q") is not None

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.programs.queue_counter",
            "--once",
            "--db",
            pgq_db.dsn,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    seen, total, in_order, first, seconds, megabytes = done.stdout.split()
    print(f"{count} events: {megabytes} MB, first after {first} s, all after {seconds} s")

    assert (int(seen), int(total), in_order) == (count, count * (count + 1) // 2, "True")
    assert int(megabytes) < LIMIT_MB
    assert batches.next_batch(conn, "q", "counter") is None
