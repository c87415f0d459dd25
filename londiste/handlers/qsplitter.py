"""Handler ``qsplitter``: inserts a table's events into another queue of this database."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from londiste.changes.decode import singles
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName, word
from londiste.db.queries import first
from londiste.dsn import db_option
from londiste.errors import BadOption
from londiste.handlers.base import Handler, TableRules, option
from londiste.handlers.event_actions import At, EventWork
from londiste.pgq import producer
from londiste.pgq.types import Event

_FIELDS = ("time", "type", "data", "extra1", "extra2", "extra3", "extra4")


@dataclass(frozen=True)
class IntoQueue(EventWork):
    """Inserts events into a queue, one for each row, with new ids."""

    into: str

    def work(self, at: At, events: Sequence[Event]) -> None:
        self._check(at.conn, at.queue)
        rows = itertools.chain.from_iterable(map(singles, events))
        producer.insert_events(
            at.conn,
            self.into,
            ((e.time, e.type, e.data, e.extra1, e.extra2, e.extra3, e.extra4) for e in rows),
            fields=_FIELDS,
        )

    def check(self, conn: Connection, queue: str, dest: TableName) -> None:
        self._check(conn, queue)

    def _check(self, conn: Connection, queue: str) -> None:
        if self.into == queue:
            raise BadOption(
                f"handler qsplitter: queue={queue} is the source queue of the events",
                hint="name another queue: --handler-arg queue=NAME",
            )
        there, ours = first(conn, "queue_takes_events", queue=self.into) or (False, False)
        if not there:
            raise BadOption(
                f"handler qsplitter: queue {self.into} does not exist in"
                f" {describe_dsn(conn.info.dsn)}",
                hint=f"londiste queue create {db_option(conn.info.dsn)} {word(self.into)}",
            )
        if not ours:
            raise BadOption(
                f"handler qsplitter: queue {self.into} belongs to a cascade whose root is another"
                " node",
                detail="only its root may insert events",
                hint="use a queue of this node that is not part of a cascade",
            )


@dataclass(frozen=True)
class QueueSplitter(Handler):
    """Inserts the table's events into another queue of this node's database; stores no row."""

    NAME: ClassVar[str] = "qsplitter"

    queue: str = option(help="target queue")

    def wants(self) -> TableRules:
        return TableRules(stored=False, events=IntoQueue(self.queue))

    def words(self, *, root: bool) -> Iterable[str]:
        return () if root else ("virtual_table",)
