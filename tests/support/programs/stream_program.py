"""A Spark driver that streams a queue into files, and kills a process at a given moment.

One file for each micro-batch, written once: what every sink does that is worth its name.  The
moment is a phase and the number of the micro-batch: ``open`` before its rows are read, ``read``
behind that, ``written`` when its file is there, and Spark knows nothing of it yet.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import londiste.spark
from londiste.engine.spark import session

VICTIM, PHASE, NUMBER = os.environ["KILL"].split(":")
TARGET = Path(os.environ["TARGET"])


def kill(phase: str, number: int) -> None:
    """Kills whom it is about, if this is the moment."""
    if phase != PHASE or number != int(NUMBER):
        return
    print("killing", VICTIM, phase, number, flush=True)
    if VICTIM == "driver":
        os.kill(os.getpid(), signal.SIGKILL)
    elif VICTIM == "jvm":
        from pyspark import SparkContext

        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    elif VICTIM == "worker":
        # While tasks read: as soon as one is seen.
        threading.Thread(target=_kill_worker, daemon=True).start()


def _kill_worker() -> None:
    mine = os.environ["LONDISTE_SCENARIO"].encode()
    for _ in range(100_000):
        daemons = {pid for pid in _pids() if b"pyspark.daemon" in _file(pid, "cmdline")}
        for pid in daemons:
            stat = _file(pid, "stat").rpartition(b")")[2].split()
            # A child of the daemon is a worker.
            if stat and int(stat[1]) in daemons and mine in _file(pid, "environ"):
                os.kill(pid, signal.SIGKILL)
                print("killed worker", pid, flush=True)
                return


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _file(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def take(frame: Any, number: int) -> None:
    """The sink."""
    path = TARGET / f"{number}.json"
    if path.exists():
        return
    kill("open", number)
    rows = [list(row) for row in frame.select("_event_id", "_row", "_change_type", "row").collect()]
    kill("read", number)
    half = path.with_suffix(".half")
    half.write_text(json.dumps(rows), encoding="utf-8")
    half.rename(path)
    kill("written", number)


def main() -> None:
    """Streams what is there."""
    spark = session.get({"spark.master": "local[2]"})
    londiste.spark.register(spark)
    query = (
        spark.readStream.format("pgq")
        .options(dsn=os.environ["DSN"], queue="q", consumer="lake", payload="json")
        .options(startingOffsets="earliest", maxTicksPerTrigger=2, numPartitions=2)
        .load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", os.environ["CHECKPOINT"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("done", flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
