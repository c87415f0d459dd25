"""Cancels a copy in progress, and removes its consumer and position."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import query, translated
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import retry_locked
from londiste.orchestration.steps import NodeStep, Step
from londiste.pgq import batches, queues
from londiste.replication import sqlapi as tables
from londiste.replication.model import COPY_BELOW, FORGET, ReplicatedTable, encode_attrs
from londiste.replication.tablesync.copy_source import with_copy_node


def copy_consumer(worker: str, table: TableName) -> str:
    """Name of the consumer that catches up with one table, on the provider and here."""
    return f"{worker}.copy.{table}"


def copy_members(conn: Connection, queue: str) -> dict[TableName, str]:
    """The tables that catch up together, and their consumer."""
    return {
        TableName.parse(row["table_name"]): row["consumer_name"]
        for row in call.rows(conn, "londiste.copy_members", queue)
    }


def copy_error(conn: Connection, queue: str, table: TableName) -> str:
    """Why the copy of a table does not continue, as status shows it; '' if there is no error."""
    worker = nodes.get_worker_state(conn, queue).worker
    mine = copy_members(conn, queue).get(table) or copy_consumer(worker, table)
    found = [c.cur_error for c in nodes.get_consumer_info(conn, queue) if c.name == mine]
    return (found[0] or "") if found else ""


def left_behind(conn: Connection, queue: str, names: Collection[TableName]) -> dict[TableName, str]:
    """Those of the tables that catch up from a failed or dropped node; its name.

    conn -- session on the node that copies.  Diverged events of such a node are on no other node,
        and its next ticks have the numbers of other nodes' ticks.
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
    """Cancels a running copy of the table.  Returns False if there is none."""
    return bool(call.value(conn, "londiste.copy_stop", queue, str(table)))


def terminate_work(conn: Connection, dest: TableName) -> int:
    """Terminates index and key builds of copies on a table; returns the number of sessions.

    They are started again while they are needed.  Only sessions of the same role can be terminated.
    """
    with translated(conn):
        return conn.execute(
            query("cancel_table_work"), {"schema": dest.schema, "name": dest.name}
        ).rowcount


def without_work(
    sites: Connections, dsn: str, dest: TableName, action: Callable[[Connection], object]
) -> None:
    """Calls ``action`` in its own transaction, in which it may lock the table.

    Index builds of copies do not delay it: they are terminated first, repeatedly if needed.

    Raises LockTimeout when other sessions lock the table longer than ``sites.lock_timeout``
    seconds.
    """
    retry_locked(sites, dsn, action, before=lambda: terminate_work(sites.at(dsn), dest))


def reset_copy(
    conn: Connection,
    queue: str,
    table: TableName,
    attrs: Callable[[ReplicatedTable], dict[str, str]] | None = None,
) -> None:
    """Cancels a copy of a table and sets the table to be copied again, in the open transaction.

    attrs -- its new attributes.
    """
    copy_stop(conn, queue, table)
    now = tables.lock_table(conn, queue, table)
    if now is None or not now.local:
        return
    wanted = now.attrs if attrs is None else attrs(now)
    if wanted != now.attrs:
        tables.local_set_table_attrs(conn, queue, table, encode_attrs(wanted))
    # The next copy still has to restore what an earlier one dropped.
    state = "in-copy" if now.dropped_ddl else None
    tables.local_set_table_state(conn, queue, table, None, state)


@dataclass(frozen=True)
class CopyAgain(NodeStep):
    """Copies a table of a node again.

    forget -- a branch deletes its events from its queue.
    when -- for ``describe``.  copy_node -- its source from now on; '' leaves it unchanged.
    """

    table: TableName
    forget: bool = False
    when: str = ""
    copy_node: str = ""

    def describe(self) -> str:
        source = " from the nearest node that has it" if self.copy_node else ""
        return f"{self.node}: copy table {self.table} again{source}{self.when}"

    def done(self, sites: Connections) -> bool:
        now = tables.get_table(sites.at(self.dsn), self.queue, self.table)
        if now is None or not now.local:
            return True
        return now.state is None and self._attrs(now) == now.attrs

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            reset_copy(conn, self.queue, self.table, self._attrs)

    def _attrs(self, now: ReplicatedTable) -> dict[str, str]:
        forget = {FORGET: "1"} if self.forget else {}
        return with_copy_node({**now.attrs, **forget}, self.copy_node)


@dataclass(frozen=True)
class CopiedBelow(NodeStep):
    """Records that all nodes below a branch copy a table again, or will do so."""

    table: TableName

    def describe(self) -> str:
        return f"{self.node}: record that the nodes below copy table {self.table} again"

    def done(self, sites: Connections) -> bool:
        now = tables.get_table(sites.at(self.dsn), self.queue, self.table)
        return now is None or COPY_BELOW not in now.attrs

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            now = tables.lock_table(conn, self.queue, self.table)
            if now is not None and now.local:
                attrs = {key: value for key, value in now.attrs.items() if key != COPY_BELOW}
                tables.local_set_table_attrs(conn, self.queue, self.table, encode_attrs(attrs))


def leftovers(sites: Connections, dsn: str, node: NodeInfo, consumer: str) -> list[Step]:
    """Steps that remove the consumer of a copy from both sides, wherever it has read."""
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
class StopCopy(NodeStep):
    """Stops the tasks that write into the table, so that it can be locked."""

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
class DropCopyConsumer(NodeStep):
    """Unregisters the consumer of an abandoned copy, so that it does not hold back the queue."""

    consumer: str

    def describe(self) -> str:
        return f"{self.node}: unregister consumer {self.consumer}"

    def done(self, sites: Connections) -> bool:
        return not queues.get_consumer_info(sites.at(self.dsn), self.queue, self.consumer)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            batches.unregister_consumer(conn, self.queue, self.consumer)


@dataclass(frozen=True)
class DropCopyPosition(NodeStep):
    """Deletes the position of such a consumer in the target database."""

    consumer: str

    def describe(self) -> str:
        return f"{self.node}: delete the position of {self.consumer}"

    def done(self, sites: Connections) -> bool:
        known = nodes.get_consumer_info(sites.at(self.dsn), self.queue)
        return all(c.name != self.consumer for c in known)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            nodes.unregister_consumer(conn, self.queue, self.consumer)
