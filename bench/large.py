"""A large batch by the worker alone, and by a job of the engine: from which size on which wins.

One table of six columns, events that update distinct keys or 2,000 hot ones, in two formats:
those of our own capture, whose rows nobody has to decode, and those of ``pgq.logutriga``, which
are decoded.  The same events are applied by the ordinary way, by a job of the local engine and by a
job of Spark in a session that is warm, in turns.

    python -m bench.large [--events 100000 300000 1000000] [--rounds 1] [--no-spark]
"""

from __future__ import annotations

import argparse
import resource
import time
from contextlib import closing
from typing import Any

import psycopg

from bench.support import common
from londiste import engine
from londiste.cascade.commands.create_node import NewNode, create_leaf, create_root
from londiste.cascade.model import NodeType
from londiste.changes.keyed import columns_digest
from londiste.daemon.signals import Signals
from londiste.embedded.postgres import Cluster
from londiste.engine.base import Engine
from londiste.install.apply import install
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from londiste.replication.commands import add_table
from londiste.replication.model import TableOptions
from londiste.replication.worker.sessions import Sessions
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings

ROWS = 1_000_000
HOT = 2_000
COLUMNS = ("id", "a", "b", "c", "d", "e")
QUEUE = "bench"
DDL = "create table t1 (id bigint primary key, a int, b text, c numeric, d timestamptz, e bool)"
FILL = """
insert into t1 select i, i % 1000, 'row ' || i, i / 7.0,
    timestamptz '2024-01-01' + i * interval '1 s', i % 2 = 0 from generate_series(1, {rows}) i
"""
KEYED = (
    '{"op":"UPDATE","table":["public","t1"],"pkey":["id"],"row":"' + columns_digest(COLUMNS) + '"}'
)
EVENTS = {
    "keyed": """
insert into {table} (ev_time, ev_type, ev_data, ev_extra1, ev_extra3)
select now(), '{type}', row_to_json(r)::text, 'public.t1', r.id::text from ({rows}) r
""",
    "decoded": """
insert into {table} (ev_time, ev_type, ev_data, ev_extra1)
select now(), 'U:id',
    format('id=%%s&a=%%s&b=%%s&c=%%s&d=%%s&e=%%s', id, a, b, c,
        replace(replace(replace(d::text, '+', '%%2b'), ' ', '+'), ':', '%%3a'), left(e::text, 1)),
    'public.t1'
from ({rows}) r
""",
}
CHANGED = """
select {key} as id, i %% 1000 as a, 'row+' || i as b, i / 7.0 as c,
    timestamptz '2024-01-01' + i * interval '1 s' as d, i %% 2 = 0 as e
from generate_series(1, {events}) i
"""


class _Sessions(Sessions):
    """Those of a worker in this process, with an engine that is kept."""

    given: Engine

    def carrier(self) -> Engine:
        return self.given

    def close_engine(self) -> None:
        return


def main() -> None:
    """Runs the benchmark and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--events", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-spark", action="store_true")
    args = parser.parse_args()
    ways: dict[str, Engine | None] = {"worker": None, "local": engine.create("local")}
    if not args.no_spark:
        ways["spark"] = engine.create("spark", {})
    with common.servers("source", "target") as (source, target):
        prepare(source, target)
        for carrier in ways.values():
            if carrier is not None:
                run(source, target, carrier, "keyed", 1_000, hot=True)
        print("| events | keys | format | " + " | ".join(f"{w}, s" for w in ways) + " |")
        print("|--:|---|---|" + "--:|" * len(ways))
        for events in args.events:
            for hot in (False, True):
                for form in EVENTS:
                    times: dict[str, list[float]] = {way: [] for way in ways}
                    for _ in range(args.rounds):
                        for way, carrier in ways.items():
                            times[way].append(run(source, target, carrier, form, events, hot=hot))
                    best = " | ".join(f"{min(found):.2f}" for found in times.values())
                    keys = "hot" if hot else "distinct"
                    print(f"| {events:,} | {keys} | {form} | {best} |", flush=True)
    for carrier in ways.values():
        if carrier is not None:
            carrier.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"\n{common.machine()}; most memory of this process {memory} MB")


def prepare(source: Cluster, target: Cluster) -> None:
    """Root and leaf with the table; its rows are equal, nobody writes at the source."""
    for cluster, name in ((source, "src"), (target, "ours")):
        cluster.create_database(name)
        with common.connect(cluster, name) as conn:
            install(conn)
            conn.execute(DDL)
            conn.execute(FILL.format(rows=ROWS))
            conn.execute("vacuum analyze")
    root, leaf = source.dsn("src"), target.dsn("ours")
    with Connections(name="bench") as sites:
        new = NewNode(QUEUE, NodeType.ROOT, "root", root, root, "root")
        execute(create_root(sites, new), sites)
        new = NewNode(QUEUE, NodeType.LEAF, "leaf", leaf, leaf, "leaf")
        execute(create_leaf(sites, new, root), sites)
        for dsn in (root, leaf):
            options = TableOptions(expect_sync=dsn == leaf)
            execute(add_table.plan(sites, dsn, QUEUE, ["t1"], options).steps, sites)
            if dsn == root:
                with common.connect(source, "src") as conn:
                    tick(conn)
                work(target, None)


def run(
    source: Cluster, target: Cluster, carrier: Engine | None, form: str, events: int, *, hot: bool
) -> float:
    """Seconds for a batch of so many events; ``carrier`` None is the worker alone."""
    with common.connect(source, "src") as conn:
        fill(conn, form, events, hot=hot)
    with common.connect(target, "ours") as conn:
        conn.execute("checkpoint")
    started = time.perf_counter()
    work(target, carrier)
    return time.perf_counter() - started


def work(target: Cluster, carrier: Engine | None) -> None:
    """Lets the worker take all there is."""
    values: dict[str, Any] = {
        "db": target.dsn("ours"),
        "queue_name": QUEUE,
        "job_name": "leaf",
        "parallel_apply_min_events": 1 if carrier is not None else 0,
        "engine": "local" if carrier is None else carrier.name,
    }
    settings = WorkerSettings(**values)
    with closing(Signals()) as signals:
        sessions = _Sessions(settings)
        if carrier is not None:
            sessions.given = carrier
        Worker(lambda: settings, signals, sessions=lambda _: sessions).run_once()


def fill(conn: psycopg.Connection[Any], form: str, events: int, *, hot: bool) -> None:
    """Events of one batch, and the tick behind them."""
    key = f"1 + i % {HOT}" if hot else f"1 + (i::int8 * 7919) % {ROWS}"
    row = conn.execute("select pgq.current_event_table(%s)", [QUEUE]).fetchone()
    assert row is not None
    rows = CHANGED.format(key=key, events=events).replace("%%", "%")
    statement = (
        EVENTS[form]
        .replace("{type}", KEYED)
        .replace("{table}", row[0])
        .replace("{rows}", rows)
        .replace("%%", "%")
    )
    conn.execute(statement)
    tick(conn)


def tick(conn: psycopg.Connection[Any]) -> None:
    """A tick now, whatever the queue's settings are."""
    conn.execute("select pgq.force_tick(%s)", [QUEUE])
    conn.execute("select pgq.ticker(%s)", [QUEUE])


if __name__ == "__main__":
    main()
