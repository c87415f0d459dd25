"""A queue by path, and as a stream of several tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import londiste.spark
from londiste.engine.spark.stream.options import parse
from londiste.errors import BadOption
from tests.engine.test_stream_driver import rows, source
from tests.fixtures.cluster import Database
from tests.fixtures.spark import run_query
from tests.fixtures.stream import Stream


@pytest.fixture
def stream(new_database: Callable[..., Database], tmp_path: Path) -> Stream:
    made = Stream(None, new_database(pgq=True), tmp_path)
    made.table("id int primary key, v text, n numeric(9,2)", "orders")
    made.database.execute("create schema _mart")
    made.table("code text primary key, b bytea", "_mart.items")
    return made


BOTH = "public.orders, _mart.items"


def test_several_tables_are_structs_of_one_stream(stream: Stream) -> None:
    stream.write(
        "insert into orders values (1, 'a', 1.5), (2, 'b', null)",
        r"insert into _mart.items values ('x', '\x00ff')",
        "delete from orders where id = 2",
        "truncate _mart.items",
        "update orders set id = 3 where id = 1",
    )
    for more in ({}, {"deduplicationMode": "netChanges"}):
        given = source(stream, payload=None, tables=BOTH, consumer=None, onTruncate="row", **more)
        reader = given.reader(given.schema())
        found = rows(reader, reader.partitions())
        split: dict[str, list[Any]] = {"public.orders": [], "_mart.items": []}
        for row in found:
            others = {name for name in split if name != row["_table"]}
            assert all(row[name] is None for name in others)
            split[row["_table"]].append((row["_change_type"], row[row["_table"]]))
        for table, inside in split.items():
            single = source(
                stream, payload=None, tables=table, consumer=None, onTruncate="row", **more
            )
            alone = single.reader(single.schema())
            wanted = [
                (row["_change_type"], {k: v for k, v in row.items() if not k.startswith("_")})
                for row in rows(alone, alone.partitions())
            ]
            assert inside == wanted and wanted
    types = dict(reader._shape.types)
    assert types["public.orders.n"] == "decimal(9,2)" and types["_mart.items.b"] == "binary"


def test_a_path_names_the_queue_and_its_tables() -> None:
    given = {"service": "shop"}
    found = parse({**given, "path": "shop/public.orders"})
    assert (found.queue, [*map(str, found.tables)]) == ("shop", ["public.orders"])
    assert parse({**given, "payload": "raw", "PATH": "shop"}).queue == "shop"
    for more, text in (
        ({"path": "shop", "queue": "shop"}, "queue: given as an option and in the path"),
        ({"path": "shop/t", "tables": "t"}, "tables: given as an option and in the path"),
        ({"maxOffsetsPerTrigger": "1", "maxEventsPerTrigger": "2"}, "given twice"),
    ):
        with pytest.raises(BadOption, match=text) as caught:
            parse({**given, "payload": "json", **more})
        assert caught.value.hint


@pytest.mark.slow
@pytest.mark.spark
def test_a_queue_is_a_view_of_spark_sql_and_no_table_of_its_catalog(
    spark: Any, stream: Stream
) -> None:
    stream.write("insert into orders values (1, 'a', 1.5)")
    options = f"using pgq options (dsn '{stream.database.dsn}', path 'q/public.orders')"
    read = "select id, v, _change_type from orders order by _event_id"
    wanted: list[tuple[int, str | None, str]] = [(1, "a", "insert")]
    for change in ("delete", "unread"):
        spark.sql(f"create or replace temporary view orders {options}")
        assert spark.sql(read).collect() == wanted
        # A view keeps what it has read first, as a DataFrame does.
        stream.write("delete from orders")
        assert spark.sql(read).collect() == wanted
        wanted.append((1, None, change))
    with pytest.raises(Exception, match="hint: create or replace temporary view"):
        spark.sql(f"create table kept {options}")
    # With columns of its own Spark asks nobody, and then passes no options to the query.
    fields = londiste.spark.schema(spark, "public.orders", dsn=stream.database.dsn).simpleString()
    columns = fields.removeprefix("struct<").removesuffix(">").replace(":", " ")
    spark.sql(f"create table kept ({columns}) {options}")
    try:
        with pytest.raises(Exception, match="hint: create or replace temporary view"):
            spark.sql("select * from kept").collect()
    finally:
        spark.sql("drop table kept")
        spark.sql("drop view orders")


@pytest.mark.slow
@pytest.mark.spark
def test_a_path_names_a_stream(spark: Any, stream: Stream, tmp_path: Path) -> None:
    stream.write("insert into orders values (1, 'a', 1.5)")
    dsn = stream.database.dsn
    loaded = spark.read.format("pgq").option("dsn", dsn).load("q/public.orders")
    streamed = spark.readStream.format("pgq").options(
        dsn=dsn, consumer="by_path", startingOffsets="earliest"
    )
    written = streamed.load("q/public.orders").writeStream.format("parquet")
    run_query(
        written.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("path", str(tmp_path / "rows"))
        .trigger(availableNow=True)
        .start,
        300,
    )
    assert spark.read.parquet(str(tmp_path / "rows")).collect() == loaded.collect()
    with pytest.raises(Exception, match="hint: create or replace temporary view"):
        spark.sql(f"create table kept using pgq options (dsn '{dsn}', path 'q/public.orders')")
    stream.write("delete from orders")
    assert loaded.count() == 1


@pytest.mark.spark
def test_a_path_and_a_split_frame(spark: Any, stream: Stream) -> None:
    stream.write(
        "insert into orders values (1, 'a', 1.5)", r"insert into _mart.items values ('x', '\x00ff')"
    )
    dsn = stream.database.dsn
    loaded = spark.read.format("pgq").option("dsn", dsn).load("q/public.orders")
    made = londiste.spark.schema(spark, "public.orders", dsn=dsn)
    assert made.simpleString() == "struct<id:int,v:string,n:decimal(9,2)>"
    assert loaded.schema.fields[:3] == made.fields
    both = spark.read.format("pgq").options(dsn=dsn, queue="q", tables=BOTH).load()
    orders = londiste.spark.table(both, "orders")
    assert orders.columns == loaded.columns
    assert [row["id"] for row in orders.collect()] == [1]
    (item,) = londiste.spark.table(both, "_mart.items").collect()
    assert (item["code"], bytes(item["b"]), item["_change_type"]) == ("x", b"\x00\xff", "insert")
