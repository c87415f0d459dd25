"""A queue read by Spark: a backlog into nothing and into Parquet, latency, and a cluster.

start     a session until its first job has ended, as it was started before and as now, with
          local[2] and on a cluster of two local workers
backlog   events of one row each, and packed ones, typed, by two tasks; beside it a COPY of the same
          events by psycopg that looks at nothing, and a consumer of ours that decodes each change
latency   from the end of a commit until foreachBatch is called, and until it has the rows, with a
          ticker of its own and processingTime="0 seconds"; beside it a consumer of ours
cluster   backlog, large batch, copy and compare with local[2] and on a cluster of two local workers
driver, json, sink, lake   single pieces beside what they were before: see bench/spark_before.py

    python -m bench.spark [--parts start,backlog,latency,cluster,driver,json,sink,lake]
                          [--events 1000000] [--rounds 2] [--seconds 20] [--json FILE]
                          [--record FILE]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import londiste.spark
from bench import compare, large
from bench import spark_before as before
from bench.methods.queue import OurQueue
from bench.support import common, spark_start
from bench.support.spark_cluster import cluster
from londiste import engine
from londiste.changes.decode import decode_all
from londiste.copy.chunking.blocks import split
from londiste.copy.sqlapi import attempts
from londiste.db import catalog
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.embedded.postgres import Cluster
from londiste.engine.base import Engine
from londiste.engine.spark import session as sessions
from londiste.engine.spec import CopySpec
from londiste.install.apply import install
from londiste.pgq import batches, queues, ticks

PARTS = ("start", "backlog", "latency", "cluster", *before.PARTS)
COPY = "COPY of the events by psycopg, one session"
TABLE = TableName("public", "t1")
SETTINGS = {"spark.master": "local[2]", "spark.driver.memory": "1g"}


def main() -> None:
    """Runs the parts and prints a table for each, and one of what is to be reached."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--events", type=int, default=1_000_000, help="of the backlog")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20, help="of each turn of latency")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of copy and compare")
    parser.add_argument("--json", type=Path)
    common.add_record_option(parser)
    args = parser.parse_args()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        parts = {"backlog": backlog, "latency": latency, "cluster": on_cluster}
        parts["start"] = lambda args, folder: spark_start.start(args.rounds, folder)
        parts |= before.PARTS
        failed = []
        for part in args.parts.split(","):
            try:
                found |= parts[part](args, Path(folder))
            except Exception:
                # What the others have found is not to be lost.
                traceback.print_exc()
                failed.append(part)
                sessions.stop()
    common.goals(before.goals(found))
    common.record(args.record)
    common.write_json(args.json, "spark", found)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


# -- backlog --------------------------------------------------------------------------------------


def backlog(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Events a second of each way."""
    count = args.events
    with common.servers("queue") as (server,):
        make(server, count)
        spark = sessions.get(SETTINGS)
        londiste.spark.register(spark)
        ways: dict[str, Callable[[], float]] = {
            COPY: lambda: copied(server, count),
            "a consumer of ours that decodes each change": lambda: decoded(server, count),
            "spark.read, into nothing": lambda: read(spark, server, "t1"),
            "stream, into nothing": lambda: stream(spark, server, "t1", count, folder, "noop"),
            "stream, into Parquet": lambda: stream(spark, server, "t1", count, folder, "parquet"),
            "stream of packed events, into nothing": lambda: stream(
                spark, server, "t2", count, folder, "noop"
            ),
        }
        # The first job of a session starts the processes of its tasks.
        read(spark, server, "t1")
        middle = common.by_turns(ways, args.rounds)
        sessions.stop()
    common.report(
        f"A backlog of {count:,} events of one row, six columns, typed, local[2]",
        "events",
        [common.Row(name, seconds, count) for name, seconds in middle.items()],
        COPY,
        ["Of a stream it is the time of its micro-batch, from asking for the ticks to its commit."],
        name="backlog",
    )
    return {
        "noop": count / middle["stream, into nothing"],
        "parquet": count / middle["stream, into Parquet"],
        "copy": count / middle[COPY],
    }


def make(server: Cluster, count: int) -> None:
    """A queue for each kind: events of one row each, and those of statements, a hundred ticks."""
    with session(server.dsn(), autocommit=True) as conn:
        install(conn)
        for table in ("t1", "t2"):
            conn.execute(large.DDL.replace("t1", f"public.{table}").encode())
            queues.create_queue(conn, table)
            tick(conn, table)
        conn.execute("select londiste.create_capture('t2', 'public.t2')")
        share = count // 100
        events = queues.current_event_table(conn, "t1")
        single = large.EVENTS["keyed"].format(
            table=events,
            type=large.KEYED.replace("UPDATE", "INSERT").replace("%", "%%"),
            # As the captures write them: numbers that JSON's readers would round are texts.
            rows=f"select id, a, b, c::text, d, e from ({ROWS.format(count=share)}) as r",
        )
        for number in range(100):
            conn.execute(single.encode(), {"first": number * share})
            tick(conn, "t1")
            statement = f"insert into public.t2 {ROWS.format(count=share)}"
            conn.execute(statement.encode(), {"first": number * share})
            tick(conn, "t2")
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")


ROWS = """
select %(first)s + i as id, i %% 1000 as a, 'row ' || i as b, round(i / 7.0, 6)::text::numeric as c,
    timestamptz '2024-01-01' + i * interval '1 s' as d, i %% 2 = 0 as e
from generate_series(1, {count}) i
"""


def tick(conn: Connection, queue: str) -> None:
    """A tick now."""
    queues.force_tick(conn, queue)
    queues.ticker(conn, queue)


def copied(server: Cluster, count: int) -> float:
    """Seconds of psycopg for the events of the queue."""
    with session(server.dsn(), autocommit=True) as conn:
        last = ticks.newest(conn, "t1")
        assert last is not None
        started = time.perf_counter()
        query = ticks.tick_event_sql(conn, "t1", 1, last.id, ordered=False)
        with conn.cursor() as cursor, cursor.copy(f"copy ({query}) to stdout".encode()) as copy:
            seen = sum(1 for _ in copy)
        took = time.perf_counter() - started
    return _all(seen, count, took)


def decoded(server: Cluster, count: int) -> float:
    """Seconds of a consumer of ours."""
    with session(server.dsn(), autocommit=True) as conn:
        batches.register_consumer_at(conn, "t1", "bench", 1)
        seen = 0
        started = time.perf_counter()
        while (batch := batches.next_batch(conn, "t1", "bench")) is not None:
            for block in batches.stream(conn, batch):
                seen += sum(1 for event in block for _ in decode_all(event))
            batches.finish_batch(conn, batch.id)
        took = time.perf_counter() - started
        batches.unregister_consumer(conn, "t1", "bench")
    return _all(seen, count, took)


def _all(seen: int, count: int, took: float) -> float:
    if seen != count:
        raise AssertionError(f"{seen} events instead of {count}")
    return took


def read(spark: Any, server: Cluster, table: str) -> float:
    """Seconds of a batch of Spark."""
    options = {"dsn": server.dsn(), "queue": table, "tables": f"public.{table}"}
    started = time.perf_counter()
    frame = spark.read.format("pgq").options(**options, numPartitions=2).load()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def stream(spark: Any, server: Cluster, table: str, count: int, folder: Path, sink: str) -> float:
    """Seconds of the only micro-batch of a stream."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        query = (
            spark.readStream.format("pgq")
            .options(dsn=server.dsn(), queue=table, tables=f"public.{table}")
            .options(consumer=f"{table}_{sink}", startingOffsets="earliest", numPartitions=2)
            .load()
            .writeStream.format(sink)
            .option("checkpointLocation", f"{place}/checkpoint")
            .trigger(availableNow=True)
        )
        query = query.start() if sink == "noop" else query.start(f"{place}/lake")
        query.awaitTermination()
        (progress,) = [one for one in query.recentProgress if one["numInputRows"]]
        if sink == "parquet":
            lake = spark.read.parquet(f"{place}/lake")
            found = lake.select("_event_id").distinct().count()
            _all(found, count, 0)
    took: float = progress["durationMs"]["triggerExecution"] / 1000
    return _all(progress["numInputRows"], count, took)


# -- latency --------------------------------------------------------------------------------------


def latency(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Milliseconds from the end of a commit."""
    from bench.latency import percentiles
    from bench.support.paced import start as paced

    rate = 3.0
    statement = (
        "select pgq.insert_event('q', 't', n::text) from generate_series(%s::int8, %s::int8) n"
    )
    called: list[float] = []
    taken: list[float] = []
    with common.servers("queue") as (server,):
        ours = OurQueue(server)
        with ours.connect() as conn:
            install(conn)
            queues.create_queue(conn, "q")
            tick(conn, "q")
        spark = sessions.get(SETTINGS)
        londiste.spark.register(spark)
        with ours.ticking("10ms"):
            seen: dict[int, tuple[float, float]] = {}

            def take(frame: Any, _: int) -> None:
                begun = time.monotonic()
                rows = frame.where("ev_type = 't'").select("ev_data").collect()
                done = time.monotonic()
                seen.update((int(row[0]), (begun, done)) for row in rows)

            query = (
                spark.readStream.format("pgq")
                .options(dsn=server.dsn(), queue="q", consumer="lake", payload="raw")
                .options(startingOffsets="latest")
                .load()
                .writeStream.foreachBatch(take)
                .option("checkpointLocation", f"{folder}/latency")
                .trigger(processingTime="0 seconds")
                .start()
            )
            while query.lastProgress is None:
                if query.exception() is not None:
                    raise AssertionError(query.exception())
                time.sleep(0.1)
            # A session is slow at first.
            paced(server.dsn(), statement.replace("'t'", "'warm'"), rate, 6).committed()
            producer = paced(server.dsn(), statement, rate, args.seconds)
            committed = producer.committed()
            until = time.monotonic() + 60
            while len(seen) < producer.total and time.monotonic() < until:
                time.sleep(0.05)
            query.stop()
            _all(len(seen), producer.total, 0)
            called = [seen[n][0] - committed[n] for n in range(producer.total)]
            taken = [seen[n][1] - committed[n] for n in range(producer.total)]
        with ours.connect() as conn:
            batches.unregister_consumer(conn, "q", "lake")
        consumer = ours.latency(rate, args.seconds, lag="10ms", poll=None)
        sessions.stop()
    found = {
        "a consumer of ours has it": percentiles(consumer),
        "foreachBatch is called": percentiles(called),
        "foreachBatch has collected it": percentiles(taken),
    }
    print(f"\n## From commit, {rate:g} events a second, ticks 10 ms apart\n\n{common.machine()}")
    common.table(
        ["until", "p50 ms", "p95 ms", "p99 ms"],
        [[name, *(f"{value:g}" for value in values)] for name, values in found.items()],
        name="latency",
    )
    return {
        "called": found["foreachBatch is called"][0],
        "taken": found["foreachBatch has collected it"][0],
        "consumer": found["a consumer of ours has it"][0],
    }


# -- cluster --------------------------------------------------------------------------------------


def on_cluster(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Seconds of each piece of work with both masters, in sessions that are warm."""
    found: dict[str, dict[str, float]] = {}
    with cluster(folder) as master, common.servers("source", "target") as (source, target):
        large.prepare(source, target)
        with session(source.dsn("src"), autocommit=True) as conn:
            conn.execute("create table public.t2 (like public.t1 including all)")
            queues.create_queue(conn, "t2")
            tick(conn, "t2")
            conn.execute("select londiste.create_capture('t2', 'public.t2')")
            conn.execute("insert into public.t2 select id, a, b, round(c, 6), d, e from public.t1")
            tick(conn, "t2")
        for name, settings in {
            "local[2]": SETTINGS,
            "two workers": {
                "spark.master": master,
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "512m",
            },
        }.items():
            found[name] = {}
            carrier = engine.create("spark", settings)
            spark = sessions.get(settings)
            londiste.spark.register(spark)
            for _ in range(max(2, args.rounds)):
                # The first is a warm-up; the last counts.
                found[name] |= {
                    "stream's source, a million packed rows": _read(spark, source),
                    "large batch, 300,000 events": large.run(
                        source, target, carrier, "keyed", 300_000, hot=False
                    ),
                    "copy, a million rows": _copy(source, target, carrier),
                }
            carrier.close()
            sessions.stop()
        masters = {"local[2]": "local[2]", "two workers": master}
        for name, seconds in _compared(args.rows, folder, masters).items():
            found[name]["compare, the whole command with its session"] = seconds
    print(f"\n## local[2] and a cluster of two workers on this host\n\n{common.machine()}")
    one, two = found.values()
    common.table(
        ["s", *found, "× local[2]"],
        [
            [what, f"{one[what]:.2f}", f"{two[what]:.2f}", f"{one[what] / two[what]:.2f}"]
            for what in one
        ],
        name="cluster",
    )
    return {f"{name}: {what}": took for name, all in found.items() for what, took in all.items()}


def _read(spark: Any, source: Cluster) -> float:
    options = {"dsn": source.dsn("src"), "queue": "t2", "tables": "public.t2"}
    started = time.perf_counter()
    frame = spark.read.format("pgq").options(**options, numPartitions=2).load()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def _copy(source: Cluster, target: Cluster, carrier: Engine) -> float:
    """The rows of a table into an empty one, in eight chunks of one snapshot."""
    with (
        session(source.dsn("src"), autocommit=True) as holder,
        session(target.dsn("ours"), autocommit=True) as conn,
    ):
        conn.execute("drop table if exists public.copied")
        conn.execute(large.DDL.replace("t1", "public.copied").replace(" primary key", "").encode())
        copy = TableName("public", "copied")
        attempt = attempts.copy_start(conn, large.QUEUE, TABLE)
        info = catalog.require(holder, TABLE)
        holder.execute("begin isolation level repeatable read")
        row = holder.execute("select pg_export_snapshot()").fetchone()
        assert row is not None
        spec = CopySpec(
            queue=large.QUEUE,
            source=source.dsn("src"),
            target=target.dsn("ours"),
            source_table=TABLE,
            target_table=copy,
            columns=tuple((c, c) for c in large.COLUMNS),
            chunks=split(
                TABLE,
                pages=info.pages,
                total_bytes=info.total_bytes,
                chunk_bytes=info.total_bytes // 8 + 1,
            ),
            snapshot=str(row[0]),
            attempt=attempt,
            binary=True,
            filenode=info.filenode,
        )
        started = time.perf_counter()
        list(carrier.copy(spec, 2))
        took = time.perf_counter() - started
        counted = conn.execute("select count(*) from public.copied").fetchone()
    assert counted is not None
    return _all(counted[0], large.ROWS, took)


def _compared(rows: int, folder: Path, masters: dict[str, str]) -> dict[str, float]:
    """Seconds of ``compare`` with each master; its process and its session begin anew."""

    class Bench(compare.Bench):
        master = ""

        def command(self, node: str, *args: str) -> list[str]:
            found = super().command(node, *args)
            more = ["--set", f"spark.master={self.master}", "--set", "spark.driver.host=127.0.0.1"]
            place = found.index("-c")
            return [*found[:place], *(more if args[0] == "compare" else []), *found[place:]]

    with common.servers("source", "target") as (source, target):
        bench = Bench(source, target, folder, rows, "spark")
        try:
            found = {}
            for name, master in masters.items():
                bench.master = master
                found[name] = bench.compare(differ=0)
        finally:
            bench.close()
    return found


if __name__ == "__main__":
    main()
