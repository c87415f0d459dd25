"""Sinks whose processes are killed once, at a crash point.

    spark.dataSource.register(killed_sinks.KilledQueue)      # format("pgq_killed")

The point, the epoch and the file that tells that it happened come as options, because the
processes of a session are started before the test.
"""

from __future__ import annotations

import os
import signal
from typing import Any, NamedTuple

from pyspark import TaskContext

from londiste.engine.spark.sink.queue_sink import QueueStreamWriter
from londiste.engine.spark.sink.table_sink import TableSink, TableStreamWriter
from londiste.engine.spark.source import PgqDataSource


class Crash(NamedTuple):
    """Where it happens; epoch -- that one or a later one, the first that comes to the point."""

    point: str = ""
    mark: str = ""
    epoch: int = 0

    @classmethod
    def pop(cls, given: dict[str, str]) -> Crash:
        """Takes it out of the options."""
        crash, mark = given.pop("crash", ""), given.pop("mark", "")
        return cls(crash, mark, int(given.pop("epoch", "0")))

    def arm(self, epoch: int) -> None:
        """What this process does from now on when it comes to the point."""
        meant = self.point and epoch >= self.epoch
        os.environ["LONDISTE_CRASH"] = self.point if meant else ""
        os.environ["LONDISTE_CRASH_MARK"] = self.mark
        if meant and os.environ.get("LONDISTE_CRASH_SIGNAL") == "STOP":
            # Who stands still when his JVM is killed goes on, and does not know that it is gone.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def arm_task(self) -> None:
        """The same in a task."""
        self.arm(int(TaskContext.get().getLocalProperty("streaming.sql.batchId")))


def disarm() -> None:
    """The process lives on, and may serve another query."""
    os.environ["LONDISTE_CRASH"] = os.environ["LONDISTE_CRASH_MARK"] = ""


class _KilledSink:
    """What both kinds of sinks do; ``writer`` is the class of their writers."""

    writer: Any
    _given: dict[str, str]

    def __init__(self, options: Any) -> None:
        given = dict(options.items())
        self._crash = Crash.pop(given)
        super().__init__(given)  # type: ignore[call-arg]

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        made = self.writer(self._given, schema, overwrite)
        made.crash = self._crash
        return made


class _KilledWriter:
    crash = Crash()

    def write(self, iterator: Any) -> Any:
        self.crash.arm_task()
        try:
            return super().write(iterator)  # type: ignore[misc]
        finally:
            disarm()

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        self.crash.arm(batchId)
        try:
            super().commit(messages, batchId)  # type: ignore[misc]
        finally:
            disarm()


class KilledQueueWriter(_KilledWriter, QueueStreamWriter):
    pass


class KilledTableWriter(_KilledWriter, TableStreamWriter):
    pass


class KilledQueue(_KilledSink, PgqDataSource):
    """``format("pgq")``, killed."""

    writer = KilledQueueWriter

    @classmethod
    def name(cls) -> str:
        return "pgq_killed"


class KilledTable(_KilledSink, TableSink):
    """``format("pgq_table")``, killed."""

    writer = KilledTableWriter

    @classmethod
    def name(cls) -> str:
        return "pgq_table_killed"
