"""A driver of Spark on a cluster that streams a queue into files, as a user writes one."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import londiste.spark

TARGET = Path(os.environ["TARGET"])


def take(frame: Any, number: int) -> None:
    """One file for each micro-batch, written once."""
    rows = [list(row) for row in frame.select("_event_id", "_change_type", "id", "v").collect()]
    path = TARGET / f"{number}.json"
    if not path.exists():
        path.write_text(json.dumps(rows), encoding="utf-8")


def main() -> None:
    """Streams what is there."""
    spark = (
        SparkSession.builder.master(os.environ["MASTER"])
        .config("spark.executor.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.cores.max", "2")
        .getOrCreate()
    )
    londiste.spark.register(spark)
    (place,) = (
        spark.range(1).rdd.map(lambda _: importlib.import_module("londiste").__file__).collect()
    )
    print("executors have", place, flush=True)
    query = (
        spark.readStream.format("pgq")
        .options(dsn=os.environ["DSN"], queue="q", consumer="lake", tables="public.t")
        .options(startingOffsets="earliest", numPartitions=2)
        .load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", os.environ["CHECKPOINT"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main()
