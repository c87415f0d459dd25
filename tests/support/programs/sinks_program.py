"""A driver of Spark that streams files into a queue, a merged table and one that is added to.

All at a time, each query with a checkpoint of its own.  It works in rounds: ``rounds/N`` is the
options of the sinks in the N-th, in the order of their start, among them where a process of it
comes to a halt; ``null`` is the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import londiste.spark
from londiste.engine.spark import session
from tests.support import killed_sinks
from tests.support.waiting import wait_for

DIRECTORY = Path(os.environ["DIRECTORY"])
#: What a file has of a change.
SCHEMA = "id int, v string, _change_type string, _commit_version long, _event_id long"


def start(spark: Any, name: str, more: Mapping[str, str]) -> Any:
    """The query of a sink."""
    frame = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(DIRECTORY / "files"))
    )
    if name == "queue":
        frame = frame.selectExpr("_change_type as ev_type", "concat(_event_id, ' ', v) as ev_data")
    elif name == "append":
        frame = frame.selectExpr("_event_id as event", "_change_type as kind", "id", "v")
    kind, options = {
        "queue": ("pgq_killed", {"queue": "target"}),
        "merge": ("pgq_table_killed", {"table": "merged"}),
        "append": ("pgq_table_killed", {"table": "appended", "mode": "append"}),
    }[name]
    return (
        frame.writeStream.format(kind)
        .options(dsn=os.environ["TARGET"], **options, **more)
        .option("checkpointLocation", str(DIRECTORY / "checkpoints" / name))
        .trigger(availableNow=True)
        .start()
    )


def run(spark: Any, sinks: Mapping[str, Mapping[str, str]]) -> None:
    """All queries, until each has written what was there; each when the one before halts."""
    queries: dict[str, Any] = {}

    def halts(name: str) -> bool:
        return Path(sinks[name]["mark"]).exists() or not queries[name].isActive

    for name, more in sinks.items():
        queries[name] = start(spark, name, more)
        if more["crash"]:
            wait_for(partial(halts, name), timeout=900, what=f"{name} at its point")
    for query in queries.values():
        query.awaitTermination()


def main() -> None:
    """Round after round."""
    spark = session.get(
        {
            "spark.master": os.environ["MASTER"],
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "1",
        }
    )
    londiste.spark.register(spark)
    spark.dataSource.register(killed_sinks.KilledQueue)
    spark.dataSource.register(killed_sinks.KilledTable)
    number = int(os.environ["ROUND"])
    while True:
        path = DIRECTORY / "rounds" / str(number)
        wait_for(path.exists, timeout=3600, what=str(path))
        sinks = json.loads(path.read_text(encoding="utf-8"))
        if sinks is None:
            break
        print("streaming", flush=True)
        run(spark, sinks)
        print("done", number, flush=True)
        number += 1


if __name__ == "__main__":
    main()
