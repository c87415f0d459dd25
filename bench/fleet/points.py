"""Figures of a small fleet on this machine, measured for the comparison with the simulation.

A root and a leaf on two durable servers: a backlog is drained, the event tables are measured, and
single-row transactions come at a steady rate.  Processor time is what to compare on a machine in
use.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.fleet import model, simulate
from bench.methods.replay import Ours
from bench.support import common, cpu, paced

#: Commit times of both servers are the lag, without a session that polls.
SETTINGS = {"checkpoint_timeout": "1h", "max_wal_size": "16GB", "track_commit_timestamp": "on"}
ROWS = 100_000
BATCH = 10_000
ROW = "n, 1, 'row ' || n, n / 7.0, timestamptz '2024-01-01' + n * interval '1 s', true"
PACED = "insert into {} select " + ROW + " from generate_series(%s::int8 + {}, %s::int8 + {}) n"
EVENTS = """
select count(*), coalesce(sum(octet_length(
    concat(ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4))), 0)
from pgq.event_template
"""
SIZE = """
select sum(pg_total_relation_size(i.inhrelid)) from pg_inherits i
join pg_inherits q on q.inhrelid = i.inhparent
where q.inhparent = 'pgq.event_template'::regclass
"""
LAG = "select id, extract(epoch from pg_xact_commit_timestamp(xmin))::float8 from t1 where id >= %s"


@dataclass(frozen=True)
class Drained:
    """A backlog: events, seconds, and for an event processor µs and bytes.

    disk -- of an event in the event tables; text -- of all its texts.
    """

    events: int
    seconds: float
    source: float
    program: float
    target: float
    disk: float
    text: float


@dataclass(frozen=True)
class Paced:
    """Transactions of one row at a steady rate.

    Processor time in µs for each transaction: of ticker, worker, target, and of the source above
    what the same transactions take without capture.  lag -- median in ms.
    """

    rate: float
    ticks: float
    ticker: float
    worker: float
    source: float
    target: float
    lag: float


#: Sizes of the backlogs and rates of the writers that ``check`` measures.
BACKLOGS = (100_000, 1_000_000)
RATES = (20.0, 200.0)


def check() -> None:
    """Measures the points and prints them beside what the simulation expects."""
    common.table(["point", "simulated", "measured", "measured / simulated"], [])
    for pace in at_rates(RATES, 10):
        _print(f"{pace.rate:g} transactions/s", _simulated_rate(pace), pace)
    for backlog in drained(BACKLOGS):
        _print(f"{backlog.events:,} rows", _simulated_drain(backlog), backlog)
    print(f"\n{common.machine()}")


#: Name of a figure -> what it is.
FIGURES = {
    "seconds": "s",
    "source": "processor of the source, µs",
    "program": "processor of the worker, µs",
    "target": "processor of the target, µs",
    "ticks": "ticks of a transaction",
    "ticker": "processor of the ticker, µs",
    "worker": "processor of the worker, µs",
    "lag": "median lag, ms",
    "disk": "bytes of a row in the event tables",
}


def _print(what: str, simulated: Mapping[str, float], measured: object) -> None:
    for name, value in simulated.items():
        found = getattr(measured, name)
        cells = (
            f"{what}: {FIGURES[name]}",
            f"{value:,.3g}",
            f"{found:,.3g}",
            f"{found / value:.2f}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


def _simulated_drain(measured: Drained) -> dict[str, float]:
    """Seconds, processor µs of a row with the start of the worker, and bytes of a row."""
    costs = model.Costs()
    all_parts = costs.read + costs.program + costs.apply
    return {
        "seconds": costs.start + measured.events * costs.overlap * all_parts * 1e-6,
        "source": costs.read,
        "program": costs.program + costs.start / measured.events * 1e6,
        "target": costs.apply,
        "disk": measured.text + costs.overhead,
    }


def _simulated_rate(measured: Paced) -> dict[str, float]:
    """Ticks of a transaction, lag in ms, and processor µs with as many ticks as there were."""
    cores = dict.fromkeys(("provider_cores", "subscriber_cores", "worker_cores"), os.cpu_count())
    fleet, costs = model.read(
        {"workload": "hot", "rate": measured.rate, "round_trip_ms": 0, **cores}
    )
    found = simulate.resources(fleet, costs)
    ticks = measured.ticks * 1000
    return {
        "ticks": 1 / measured.rate / simulate.cycle(fleet, found, measured.rate),
        "lag": simulate.lag(fleet, costs, found, measured.rate) * 1e3,
        "ticker": ticks * costs.tick_program,
        "worker": costs.program + ticks * costs.batch_program,
        "source": costs.capture + costs.read + ticks * (costs.tick_source + costs.batch_source),
        "target": costs.apply + ticks * costs.batch_target,
    }


def drained(sizes: tuple[int, ...], workload: str = "rows") -> Iterator[Drained]:
    """Drains backlogs of these sizes, one after the other."""
    with _nodes(workload) as way, common.connect(way.source, way.key) as conn:
        for number, size in enumerate(sizes):
            before = _events(conn)
            count = way.change((number + 1) / 10, size, min(BATCH, size))
            new = [now - had for now, had in zip(_events(conn), before, strict=True)]
            run = way.catch_up()
            source, program, target = (
                used / count * 1e6 for used in (run.source, run.program, run.target)
            )
            disk, text = new[0] / new[1], new[2] / new[1]
            yield Drained(count, run.seconds, source, program, target, disk, text)


def at_rates(rates: tuple[float, ...], seconds: float) -> Iterator[Paced]:
    """Runs ticker and worker at their default settings, with writers of these rates."""
    with _nodes("hot") as way, ExitStack() as stack:
        (way.folder / "ticker.toml").write_text(f'[ticker]\ndb = "{way.source.dsn(way.key)}"\n')
        running = [
            subprocess.Popen(way.command(node, name))
            for node, name in (("ticker", "ticker"), ("leaf", "worker"))
        ]
        for process in running:
            stack.callback(process.wait)
            stack.callback(process.terminate)
        source = stack.enter_context(common.connect(way.source, way.key))
        source.execute("create table plain (like t1 including all)")
        yield from (_paced(way, running, rate, seconds) for rate in rates)


def _paced(way: Ours, running: list[subprocess.Popen[bytes]], rate: float, seconds: float) -> Paced:
    with (
        common.connect(way.source, way.key) as source,
        common.connect(way.target, way.key) as target,
    ):
        top = "select coalesce(max(id), 0) + 1 from {}"
        pids = [way.source.pid, way.target.pid, *(process.pid for process in running)]
        used: dict[str, list[float]] = {}
        for name in ("plain", "t1"):
            # The first second wakes daemons that have rested.
            for warm in (True, False):
                start = _one(source, top.format(name))
                before = [cpu.of_tree(pid or 0) for pid in pids]
                ticks = _one(source, "select max(tick_id) from pgq.tick")
                producer = paced.start(
                    way.source.dsn(way.key),
                    PACED.format(name, start, start),
                    rate,
                    1 if warm else seconds,
                )
                total = len(producer.committed())
                if name == "t1":
                    end = f"select exists (select from t1 where id = {start + total - 1})"
                    common.wait_until(end, target)
                used[name] = [
                    cpu.of_tree(pid or 0) - had for pid, had in zip(pids, before, strict=True)
                ]
        ticks = _one(source, "select max(tick_id) from pgq.tick") - ticks
        each = [value / total * 1e6 for value in used["t1"]]
        without = [value / total * 1e6 for value in used["plain"]]
        lags = _lags(source, target, start)
    return Paced(
        rate,
        ticks / total,
        each[2],
        each[3],
        each[0] - without[0],
        each[1],
        lags[len(lags) // 2] * 1e3,
    )


def _lags(source: psycopg.Connection, target: psycopg.Connection, first: int) -> list[float]:
    """Sorted seconds between the commits of both servers, from a row on."""
    made, seen = (dict[int, float](c.execute(LAG, [first]).fetchall()) for c in (source, target))
    return sorted(seen[row] - when for row, when in made.items())


@contextmanager
def _nodes(workload: str) -> Iterator[Ours]:
    with (
        common.servers("source", "target", settings=SETTINGS) as (source, target),
        tempfile.TemporaryDirectory() as folder,
    ):
        Ours.form = "row"
        way = Ours(source, target, Path(folder), workload)
        way.prepare(ROWS)
        yield way


def _events(conn: Any) -> tuple[float, float, float]:
    """Bytes of the event tables, number of events, bytes of their texts."""
    count, text = conn.execute(EVENTS).fetchone()
    return float(_one(conn, SIZE)), float(count), float(text)


def _one(conn: Any, query: str) -> Any:
    (value,) = conn.execute(query).fetchone()
    return value
