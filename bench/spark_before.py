"""Parts of the Spark source, sinks and lake beside the form that they had before.

driver    the questions of the driver after a day with many ticks: all ticks, and only those needed
json      payload=json, events decoded one by one, and many at a time
sink      rows of an epoch merged into a table: as JSON row by row, and as COPY from Arrow
lake      an epoch of changes into files: through DataFrames, and written by the tasks that read it

They are parts of ``python -m bench.spark``.
"""

from __future__ import annotations

import argparse
import functools
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.support import common
from londiste.db.connection import Connection, session
from londiste.engine.spark.sink import change_rows, commit, merge, stage, text_format
from londiste.engine.spark.sink.options import parse_tables
from londiste.engine.spark.sink.table_sink import fitting
from londiste.engine.spark.stream import arrow_decode, bounds, reader, schema
from londiste.engine.spark.stream.options import parse
from londiste.engine.spark.stream.types import StreamShape
from londiste.install.apply import install
from londiste.pgq import queues, ticks

#: Ticks of a day at 50 a second are 4.3 million.
TICKS = 1_000_000
DAY = """
insert into pgq.tick (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq)
select 1, i + 9, now() - interval '1 day' + i * interval '20 ms',
    format('%s:%s:', 1000000 + i, 1000000 + i)::txid_snapshot, i * 10
from generate_series(1, {count}) i
"""


def driver(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Seconds and memory of the question for a limited batch, and for its parts."""
    with common.servers("queue") as (server,), session(server.dsn(), autocommit=True) as conn:
        install(conn)
        queues.create_queue(conn, "q")
        conn.execute(DAY.format(count=TICKS).encode())
        conn.execute("vacuum analyze pgq.tick")
        options = parse(
            {"dsn": "dbname=x", "queue": "q", "payload": "raw", "maxEventsPerTrigger": "5000000"}
        )
        last = ticks.newest(conn, "q")
        assert last is not None
        (first,) = ticks.between(conn, "q", 10, 10)

        def all_ticks() -> None:
            found = ticks.between(conn, "q", first.id, last.id)
            assert sum(1 for tick in found if tick.seq <= first.seq + 5_000_000)

        def needed() -> None:
            end = bounds.batch_end(conn, options, first, last)
            assert bounds.parts(conn, options, first.id, end.id) is not None

        ways = {"all ticks, as before": all_ticks, "the ticks that decide": needed}
        took = {name: _seconds(way, args.rounds) for name, way in ways.items()}
        memory = {name: _megabytes(way) for name, way in ways.items()}
    before, now = took.values()
    print(f"\n## The driver after {TICKS:,} ticks\n\n{common.machine()}")
    common.table(
        ["", "s", "MB", "× before"],
        [
            [name, f"{took[name]:.3f}", f"{memory[name]:.1f}", f"{before / took[name]:.1f}"]
            for name in ways
        ],
        name="driver",
    )
    return {"driver before s": before, "driver s": now, "driver MB": [*memory.values()][1]}


def json_rows(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Events a second of one task that reads payload=json."""
    from bench.spark import make

    count = args.events // 4
    with common.servers("queue") as (server,):
        make(server, count)
        options = parse({"dsn": server.dsn(), "queue": "t1", "payload": "json"})
        result = schema.schema(options.payload)
        with session(server.dsn(), autocommit=True) as conn:
            part = bounds.parts(conn, options, 1, ticks.newest(conn, "t1").id)  # type: ignore[union-attr]
        assert part is not None

        def read() -> None:
            found = sum(
                batch.num_rows
                for one in part[2]
                for batch in reader.changes(options, one, StreamShape(), result)
            )
            assert found == count

        def one_by_one() -> None:
            enough, arrow_decode._ENOUGH = arrow_decode._ENOUGH, 0
            try:
                read()
            finally:
                arrow_decode._ENOUGH = enough

        before, now = _seconds(one_by_one, args.rounds), _seconds(read, args.rounds)
    common.report(
        f"{count:,} events with payload=json, one task",
        "events",
        [
            common.Row("one by one, as before", before, count),
            common.Row("many at a time", now, count),
        ],
        "one by one, as before",
        name="json",
    )
    return {"json before": count / before, "json": count / now}


def sink(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Rows a second of one task and the driver, for an epoch of new rows."""
    import pyarrow as pa
    from pyspark.sql import types as t

    count = min(args.events, 200_000)
    kinds = (
        ("id", t.LongType()),
        ("a", t.IntegerType()),
        ("b", t.StringType()),
        ("c", t.DecimalType(18, 6)),
        ("d", t.TimestampType()),
        ("e", t.BooleanType()),
    )
    fields = t.StructType([t.StructField(name, kind) for name, kind in kinds])
    names = [name for name, _ in kinds]
    with common.servers("target") as (server,):
        with session(server.dsn(), autocommit=True) as conn:
            install(conn)
            conn.execute(
                "create table public.t (id bigint primary key, a int, b text, c numeric(18,6),"
                " d timestamptz, e bool)"
            )
            rows = conn.execute(
                "select i, i % 1000, 'row ' || i, round(i / 7.0, 6)::numeric(18,6),"
                f" timestamptz '2024-01-01' + i * interval '1 s', i % 2 = 0"
                f" from generate_series(1, {count}) i".encode()
            ).fetchall()
        arrays = list(zip(*rows, strict=True))
        whole = pa.RecordBatch.from_arrays(
            [
                pa.array(values, field.type)
                for values, field in zip(arrays, schema.arrow(fields), strict=True)
            ],
            schema=schema.arrow(fields),
        )
        batches = [whole.slice(begin, 10_000) for begin in range(0, count, 10_000)]
        heads = [f"{text_format.document(name)}:" for name in names]

        def documents() -> Any:
            for batch in batches:
                texts = [
                    "{"
                    + ",".join(
                        head + ("null" if v is None else text_format.document(text_format.plain(v)))
                        for head, v in zip(heads, row, strict=True)
                    )
                    + "}"
                    for row in zip(*[c.to_pylist() for c in batch.columns], strict=True)
                ]
                yield pa.RecordBatch.from_arrays([pa.array(texts)], ["row"])

        def run(payload: str, given: Callable[[], Any], wanted: Any) -> None:
            options = parse_tables(
                {"dsn": server.dsn(), "table": "t", "payload": payload}, stream=True
            )
            with session(server.dsn(), autocommit=True) as conn:
                conn.execute("truncate public.t")
                tables, columns = fitting(conn, options, wanted)
            attempt = uuid4()
            cut = change_rows.chunks(options, wanted, tables, given())
            message = stage.stage(options, attempt, str(attempt), 0, cut)

            def do(conn: Connection, chunks: Any) -> None:
                merge.write(conn, options, tables, columns, chunks)

            commit.write(options, "table t", attempt, [message], 0, do)

        row = t.StructType([t.StructField("row", t.StringType())])
        before = _seconds(lambda: run("json", documents, row), args.rounds)
        now = _seconds(lambda: run("typed", lambda: batches, fields), args.rounds)
    common.report(
        f"An epoch of {count:,} new rows of six columns, merged, one task",
        "rows",
        [
            common.Row("JSON row by row, as before", before, count),
            common.Row("COPY from Arrow", now, count),
        ],
        "JSON row by row, as before",
        name="sink",
    )
    return {"sink before": count / before, "sink": count / now}


def lake(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Events a second of an epoch of a lake, and of dispatch into folders of an hour."""
    from pyspark.sql import functions as f

    from bench.spark import SETTINGS, make
    from londiste.engine.spark import session as sessions
    from londiste.engine.spark import source
    from londiste.engine.spark.lake import dataframes, direct
    from londiste.engine.spark.lake import parts as parts_of
    from londiste.engine.spark.lake.file_writer import Place

    count, days = args.events, "day=%(year)s-%(month)s-%(day)s"
    with common.servers("queue") as (server,):
        make(server, count)
        options = parse({"dsn": server.dsn(), "queue": "t1", "tables": "public.t1"})
        shape = source.shape_in(options)
        with session(server.dsn(), autocommit=True) as conn:
            found = bounds.parts(conn, options, 1, ticks.newest(conn, "t1").id)  # type: ignore[union-attr]
        assert found is not None
        parts = found[2]
        spark = dataframes.get(SETTINGS)
        wanted = schema.schema(options.payload, shape.columns)

        def frames(pattern: str, *, spread: bool) -> None:
            place = folder / uuid4().hex
            changes = dataframes.rows(spark, options, parts, shape).persist()
            assert parts_of.facts(changes, ()).changes == count
            out = changes.withColumn("_part", f.date_format("_commit_timestamp", pattern))
            if spread:
                touched = out.groupBy("_part").count().collect()
                out = out.repartition(len(touched), "_part")
            out.write.partitionBy("_part").parquet(f"file://{place}")
            changes.unpersist()

        def tasks(name: str) -> None:
            place = Place(str(folder / uuid4().hex))
            names = tuple((name, name) for name in wanted.names)
            kinds = tuple(direct.KINDS.values())
            plan = direct.DirectPlan(names, wanted, kinds, "_commit_timestamp", name)
            facts, _, files = direct.write(spark, options, parts, shape, place, "parquet", plan)
            assert facts.changes == sum(file.rows for file in files) == count

        hours = f"{days}T%(hour)s"
        ways: dict[str, Callable[[], None]] = {
            "lake, through DataFrames, as before": lambda: frames("yyyy-MM-dd", spread=False),
            "lake, written by the tasks": lambda: tasks(days),
            "dispatch, through DataFrames, as before": lambda: frames(
                "yyyy-MM-dd'T'HH", spread=True
            ),
            "dispatch, written by the tasks": lambda: tasks(hours),
        }
        # The first job of a session starts the processes of its tasks.
        tasks(days)
        timed = {name: functools.partial(_seconds, way, 1) for name, way in ways.items()}
        middle = common.by_turns(timed, args.rounds)
        sessions.stop()
    common.report(
        f"An epoch of {count:,} events of one row, six columns, into Parquet, local[2]",
        "events",
        [common.Row(name, seconds, count) for name, seconds in middle.items()],
        "lake, through DataFrames, as before",
        name="lake",
    )
    names = ("lake before", "lake", "dispatch before", "dispatch")
    return {name: count / took for name, took in zip(names, middle.values(), strict=True)}


PARTS = {"driver": driver, "json": json_rows, "sink": sink, "lake": lake}


def goals(found: dict[str, float]) -> list[common.Goal]:
    """What is to be reached, of all parts of the benchmark."""
    return [
        common.Goal("start, processor × old", found.get("start"), 0.4, at_least=False),
        common.Goal("start on a cluster × old", found.get("cluster start"), 0.5, at_least=False),
        common.Goal("backlog into nothing, thousand events/s", _k(found, "noop"), 300),
        common.Goal("backlog into Parquet, thousand events/s", _k(found, "parquet"), 150),
        common.Goal("commit to foreachBatch, median ms", found.get("called"), 200, at_least=False),
        common.Goal("lake, thousand events/s", _k(found, "lake"), 200),
        common.Goal("payload=json × before", _times(found, "json", "json before"), 3),
        common.Goal("the driver's question, s", found.get("driver s"), 0.1, at_least=False),
        common.Goal("the driver's question, MB", found.get("driver MB"), 20, at_least=False),
    ]


def _k(found: dict[str, float], name: str) -> float | None:
    return found[name] / 1000 if name in found else None


def _times(found: dict[str, float], name: str, before: str) -> float | None:
    return found[name] / found[before] if name in found else None


def _seconds(way: Callable[[], None], rounds: int) -> float:
    found = []
    for _ in range(max(1, rounds)):
        started = time.perf_counter()
        way()
        found.append(time.perf_counter() - started)
    return common.median(found)


def _megabytes(way: Callable[[], None]) -> float:
    tracemalloc.start()
    way()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (1 << 20)
