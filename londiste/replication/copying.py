"""What a copy in progress leaves outside of the table list, and how it is told to stop."""

from __future__ import annotations

from dataclasses import dataclass, field

from londiste.cascade import nodes
from londiste.cascade.plan import Sites
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.pgq import batches, queues
from londiste.replication import tables


def copy_consumer(worker: str, table: TableName) -> str:
    """Name of the consumer that catches up with one table, on the provider and here."""
    return f"{worker}.copy.{table}"


def copy_stop(conn: Connection, queue: str, table: TableName) -> bool:
    """Asks a running copy to let go of the table; False when none runs."""
    return bool(call.value(conn, "londiste.copy_stop", queue, str(table)))


@dataclass(frozen=True)
class StopCopy:
    """The tasks that write into the table end, so that it can be locked."""

    node: str
    dsn: str = field(repr=False)
    queue: str
    table: TableName

    def describe(self) -> str:
        return f"{self.node}: stop the copy of {self.table}"

    def done(self, sites: Sites) -> bool:
        now = {t.name: t.state for t in tables.get_table_list(sites.at(self.dsn), self.queue)}
        return now.get(self.table) != "in-copy"

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.dsn) as conn:
            copy_stop(conn, self.queue, self.table)


@dataclass(frozen=True)
class DropCopyConsumer:
    """The consumer of a copy that nobody will finish must not hold back the queue."""

    node: str
    dsn: str = field(repr=False)
    queue: str
    consumer: str

    def describe(self) -> str:
        return f"{self.node}: unregister consumer {self.consumer}"

    def done(self, sites: Sites) -> bool:
        return not queues.get_consumer_info(sites.at(self.dsn), self.queue, self.consumer)

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.dsn) as conn:
            batches.unregister_consumer(conn, self.queue, self.consumer)


@dataclass(frozen=True)
class DropCopyPosition:
    """The position of such a consumer, in the database that was copied to."""

    node: str
    dsn: str = field(repr=False)
    queue: str
    consumer: str

    def describe(self) -> str:
        return f"{self.node}: forget the position of {self.consumer}"

    def done(self, sites: Sites) -> bool:
        known = nodes.get_consumer_info(sites.at(self.dsn), self.queue)
        return all(c.name != self.consumer for c in known)

    def run(self, sites: Sites) -> None:
        with sites.transaction(self.dsn) as conn:
            nodes.unregister_consumer(conn, self.queue, self.consumer)
