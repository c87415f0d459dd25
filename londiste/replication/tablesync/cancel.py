"""What a copy in progress leaves outside of the table list, and how it is told to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.errors import Deadlock, LockTimeout, from_database
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.pgq import batches, queues
from londiste.replication import sqlapi as tables

#: Seconds to wait for a table before our own work on it is ended once more.
_TRY_SECONDS = 1.0


def copy_consumer(worker: str, table: TableName) -> str:
    """Name of the consumer that catches up with one table, on the provider and here."""
    return f"{worker}.copy.{table}"


def copy_members(conn: Connection, queue: str) -> dict[TableName, str]:
    """The tables that catch up together, and by which consumer."""
    return {
        TableName.parse(row["table_name"]): row["consumer_name"]
        for row in call.rows(conn, "londiste.copy_members", queue)
    }


def left_behind(conn: Connection, queue: str, names: Collection[TableName]) -> dict[TableName, str]:
    """Which of these tables catch up from a node that was given up, or is none any more; its name.

    conn -- session on the node that copies.  What such a node has more than others, when it was
    lost, is on no other node; its next ticks have the numbers of others.
    """
    alive = {m.name for m in nodes.get_queue_locations(conn, queue) if not m.dead}
    gone = {
        c.name: c.provider
        for c in nodes.get_consumer_info(conn, queue)
        if c.provider not in alive and ".copy." in c.name
    }
    if not gone:
        return {}
    worker = nodes.get_worker_state(conn, queue).worker
    members = copy_members(conn, queue)
    consumers = {name: members.get(name, copy_consumer(worker, name)) for name in names}
    return {name: gone[c] for name, c in consumers.items() if c in gone}


def copy_stop(conn: Connection, queue: str, table: TableName) -> bool:
    """Asks a running copy to let go of the table; False when none runs."""
    return bool(call.value(conn, "londiste.copy_stop", queue, str(table)))


def terminate_work(conn: Connection, dest: TableName) -> int:
    """Ends what copies do to a table of this node besides bringing rows; how many sessions.

    Indexes and foreign keys that are being made: who makes them tries again while they are
    wanted.  Only sessions of the same role can be ended.
    """
    try:
        return conn.execute(
            query("cancel_table_work"), {"schema": dest.schema, "name": dest.name}
        ).rowcount
    except psycopg.Error as error:
        raise from_database(error) from error


def without_work(
    sites: Connections, dsn: str, dest: TableName, action: Callable[[Connection], object]
) -> None:
    """Calls ``action`` in a transaction of its own in which it may lock the table.

    Our own builds of indexes do not keep it waiting: they are ended first, again if need be.

    Raises LockTimeout when others keep the table longer than ``sites.lock_timeout`` seconds.
    """
    deadline = time.monotonic() + sites.lock_timeout
    limit = min(_TRY_SECONDS, sites.lock_timeout)
    while True:
        terminate_work(sites.at(dsn), dest)
        try:
            with sites.transaction(dsn) as conn:
                conn.execute(
                    "select pg_catalog.set_config('lock_timeout', %s, true)",
                    [f"{limit * 1000:.0f}ms"],
                )
                action(conn)
            return
        except (LockTimeout, Deadlock):
            if time.monotonic() >= deadline:
                raise


def leftovers(sites: Connections, dsn: str, node: NodeInfo, consumer: str) -> list[Step]:
    """What takes the consumer of a copy off both sides, wherever it has read."""
    locations = {m.name: m.location for m in nodes.get_queue_locations(sites.at(dsn), node.queue)}
    known = nodes.get_consumer_info(sites.at(dsn), node.queue)
    there = next((c.provider for c in known if c.name == consumer), node.provider)
    if there not in locations:
        there = node.provider
    location = sites.reach(locations.get(there, node.provider_location))
    return [
        DropCopyPosition(node.name, dsn, node.queue, consumer),
        DropCopyConsumer(there, location, node.queue, consumer),
    ]


@dataclass(frozen=True)
class StopCopy:
    """The tasks that write into the table end, so that it can be locked."""

    node: str
    dsn: str = field(repr=False)
    queue: str
    table: TableName

    def describe(self) -> str:
        return f"{self.node}: stop the copy of {self.table}"

    def done(self, sites: Connections) -> bool:
        now = tables.get_table(sites.at(self.dsn), self.queue, self.table)
        return now is None or now.state != "in-copy"

    def run(self, sites: Connections) -> None:
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

    def done(self, sites: Connections) -> bool:
        return not queues.get_consumer_info(sites.at(self.dsn), self.queue, self.consumer)

    def run(self, sites: Connections) -> None:
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

    def done(self, sites: Connections) -> bool:
        known = nodes.get_consumer_info(sites.at(self.dsn), self.queue)
        return all(c.name != self.consumer for c in known)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            nodes.unregister_consumer(conn, self.queue, self.consumer)
