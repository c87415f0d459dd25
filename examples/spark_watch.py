"""Changes of a table as they happen: five lines that print them, for a notebook.

Shows: a stream into the console while pgbench writes; it ends with Ctrl-C.

    londiste queue create bank
    pgbench -i "$LONDISTE_DB"
    psql "$LONDISTE_DB" -c "create trigger accounts_log after update on pgbench_accounts for each row execute function pgq.jsontriga('bank')"
    pgbench -c 2 -T 60 "$LONDISTE_DB" &
    python examples/spark_watch.py
"""  # noqa: E501 -- a command is one line

from __future__ import annotations

import os

from pyspark.sql import SparkSession

import londiste.spark

options = {"dsn": os.environ["LONDISTE_DB"], "queue": "bank", "consumer": "watch"}

spark = SparkSession.builder.master("local[2]").getOrCreate()
londiste.spark.register(spark)
accounts = spark.readStream.format("pgq").options(**options, tables="pgbench_accounts").load()
shown = accounts.select("_commit_timestamp", "_change_type", "aid", "abalance")
shown.writeStream.format("console").start().awaitTermination()
