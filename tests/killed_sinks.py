"""Sinks whose processes are killed at a crash point, once.

    spark.dataSource.register(killed_sinks.KilledQueue)      # format("pgq_killed")

The point and the file that tells that it happened come as options, because the processes of a
session are started before the test.
"""

from __future__ import annotations

import os
from typing import Any

from londiste.engine.spark.sink.queue import QueueStreamWriter
from londiste.engine.spark.sink.table import TableSink, TableStreamWriter
from londiste.engine.spark.source import PgqDataSource


def arm(crash: str, mark: str) -> None:
    """What this process does from now on when it comes to the point."""
    os.environ["LONDISTE_CRASH"] = crash
    os.environ["LONDISTE_CRASH_MARK"] = mark


class KilledQueue(PgqDataSource):
    """``format("pgq")``, killed."""

    def __init__(self, options: Any) -> None:
        given = dict(options.items())
        self._crash = (given.pop("crash", ""), given.pop("mark", ""))
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return "pgq_killed"

    def streamWriter(self, schema: Any, overwrite: bool) -> QueueStreamWriter:  # noqa: N802
        arm(*self._crash)
        made = KilledQueueWriter(self._given, schema, overwrite)
        made.crash = self._crash
        return made


class KilledQueueWriter(QueueStreamWriter):
    crash = ("", "")

    def write(self, iterator: Any) -> Any:
        arm(*self.crash)
        try:
            return super().write(iterator)
        finally:
            arm("", "")

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        try:
            super().commit(messages, batchId)
        finally:
            # The process lives on, and may serve another query.
            arm("", "")


class KilledTable(TableSink):
    """``format("pgq_table")``, killed."""

    def __init__(self, options: Any) -> None:
        given = dict(options.items())
        self._crash = (given.pop("crash", ""), given.pop("mark", ""))
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return "pgq_table_killed"

    def streamWriter(self, schema: Any, overwrite: bool) -> TableStreamWriter:  # noqa: N802
        arm(*self._crash)
        made = KilledTableWriter(self._given, schema, overwrite)
        made.crash = self._crash
        return made


class KilledTableWriter(TableStreamWriter):
    crash = ("", "")

    def write(self, iterator: Any) -> Any:
        arm(*self.crash)
        try:
            return super().write(iterator)
        finally:
            arm("", "")

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        try:
            super().commit(messages, batchId)
        finally:
            # The process lives on, and may serve another query.
            arm("", "")
