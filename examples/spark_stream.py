"""Changes of a table in Spark: a stream that shows what is new since it last ran.

Shows: a queue as a source of Structured Streaming, from its checkpoint on.

    londiste queue create shop
    psql "$LONDISTE_DB" -c "create table fruit (id int primary key, name text)"
    psql "$LONDISTE_DB" -c "create trigger fruit_log after insert or update or delete on fruit for each row execute function pgq.jsontriga('shop')"
    psql "$LONDISTE_DB" -c "insert into fruit values (1, 'kiwi')"
    python examples/spark_stream.py
"""  # noqa: E501 -- a command is one line

from __future__ import annotations

import os

from pyspark.sql import SparkSession

import londiste.spark

LAKE = os.environ.get("LAKE", "lake")

spark = SparkSession.builder.master("local[2]").getOrCreate()
londiste.spark.register(spark)

fruit = (
    spark.readStream.format("pgq")
    .options(dsn=os.environ["LONDISTE_DB"], queue="shop", tables="public.fruit")
    .options(consumer="fruit_to_lake", startingOffsets="earliest")
    .load()
)
query = (
    fruit.writeStream.format("json")
    .option("checkpointLocation", f"{LAKE}/_fruit")
    .trigger(availableNow=True)
    .start(f"{LAKE}/fruit")
)
query.awaitTermination()
spark.read.schema(fruit.schema).json(f"{LAKE}/fruit").orderBy("_event_id").show(truncate=False)
