"""Sums that follow a table: orders and their amounts by customer, from a stream of changes.

Shows: foreachBatch of Structured Streaming with effects that count once, whoever dies when.

    londiste queue create shop
    psql "$LONDISTE_DB" -c "create table orders (id int primary key, customer text, amount numeric(12,2))"
    psql "$LONDISTE_DB" -c "create trigger orders_log after insert or update or delete on orders for each row execute function pgq.jsontriga('shop')"
    psql "$LONDISTE_DB" -c "insert into orders values (1, 'ann', 10), (2, 'bob', 20), (3, 'ann', 5)"
    python examples/spark_totals.py
"""  # noqa: E501 -- a command is one line

from __future__ import annotations

import os
from typing import Any

import psycopg
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.window import Window

import londiste.spark

DB = os.environ["LONDISTE_DB"]
LAKE = os.environ.get("LAKE", "lake")

TABLES = """
    create table if not exists totals (customer text primary key, orders int, amount numeric);
    create table if not exists totals_seen (id int primary key, customer text, amount numeric);
    create table if not exists totals_batch (one bool primary key default true, batch bigint);
    create temp table changed (id int, gone bool, customer text, amount numeric) on commit drop;
"""

# What an order was counts no more, what it is does.
SUMS = """
    insert into totals as t (customer, orders, amount)
    select customer, sum(n), sum(amount) from (
        select s.customer, -1 as n, -s.amount as amount from totals_seen s join changed using (id)
        union all
        select customer, 1, amount from changed where not gone
    ) d group by customer
    on conflict (customer) do update
        set orders = t.orders + excluded.orders, amount = t.amount + excluded.amount;
    delete from totals_seen using changed where totals_seen.id = changed.id;
    insert into totals_seen select id, customer, amount from changed where not gone;
    delete from totals where orders = 0;
"""


def count(changes: Any, batch: int) -> None:
    """Brings one micro-batch into the sums, with its number, in one transaction."""
    newest = Window.partitionBy("id").orderBy(f.desc("_event_id"), f.desc("_row"))
    last = changes.withColumn("n", f.row_number().over(newest)).where("n = 1")
    rows = last.selectExpr("id", "_change_type = 'delete'", "customer", "amount").collect()
    with psycopg.connect(DB) as target:
        target.execute(TABLES)
        # A batch that is here already was repeated after a crash.
        if not target.execute(
            "insert into totals_batch as b (batch) values (%s) on conflict (one) do update"
            " set batch = excluded.batch where b.batch < excluded.batch returning 1",
            [batch],
        ).fetchone():
            return
        with target.cursor().copy("copy changed from stdin") as copy:
            for row in rows:
                copy.write_row(tuple(row))
        target.execute(SUMS)


# Two tasks behind a shuffle, not Spark's two hundred: a micro-batch is small.
spark = (
    SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
)
londiste.spark.register(spark)
query = (
    spark.readStream.format("pgq")
    .options(dsn=DB, queue="shop", tables="public.orders", consumer="totals")
    .options(startingOffsets="earliest")
    .load()
    .writeStream.foreachBatch(count)
    .option("checkpointLocation", f"{LAKE}/_totals")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
with psycopg.connect(DB) as done:
    for line in done.execute("select * from totals order by customer"):
        print(*line)
