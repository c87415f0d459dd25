"""Common steps of all copy modes: source table, consumer, column pairs, end of the load."""

from __future__ import annotations

import logging
from collections.abc import Callable

from londiste.cascade import sqlapi as nodes
from londiste.copy import step_timings
from londiste.copy.columns import Pairing, pair, require_char, require_here
from londiste.copy.progress import all_done
from londiste.copy.sessions import CopySessions
from londiste.copy.sqlapi import attempts
from londiste.db import catalog
from londiste.db.catalog import Column
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.errors import InstallError, StateError, Superseded, UnknownTable, UsageError
from londiste.handlers.base import ALL
from londiste.pgq import batches, queues
from londiste.replication import lost_rows
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import copy_source, states
from londiste.replication.tablesync.states import By, InCopy, TableSyncSnapshot

log = logging.getLogger(__name__)


def source_table(sides: CopySessions) -> TableName | None:
    """The table on the provider; None while the provider's own copy is not complete."""
    for found in tables.get_table_list(sides.provider, sides.queue):
        if found.name == sides.name:
            if not found.local:
                return None
            mine = sides.table()
            refused = copy_source.copy_refusal(
                sides.provider,
                sides.queue,
                found,
                sides.source_node,
                ALL if mine is None else mine.wants,
            )
            if refused is not None:
                raise refused
            ready = states.from_text(found.state) == states.Ok()
            return found.dest if ready else None
    return None


def require_captured(sides: CopySessions, source_name: TableName) -> None:
    """Raises StateError when the table on the provider has lost its capture, or rows.

    For instance after DROP and CREATE TABLE: a copy of it would become ok and never change again,
    or would spread the loss of a branch.
    """
    if lacks := _lacking(sides).get(sides.name):
        raise StateError(
            f"table {source_name} of the provider {lacks}",
            detail="rows are missing in it",
            hint="with the settings of the provider: londiste resync"
            f" {argument(sides.name)}; the copy then restarts automatically",
        )
    try:
        reason = tables.lost_capture(sides.provider, sides.queue, source_name)
    except InstallError:
        # An older node; ``status`` of the root reports it, too.
        return
    if reason:
        raise StateError(
            f"table {source_name} of the provider: {reason}",
            detail="changes of it are not written to the queue",
            hint="with the settings of the provider: londiste triggers --restore"
            f" {argument(sides.name)}; the copy then restarts automatically",
        )


def lost_captures(sides: CopySessions) -> frozenset[TableName]:
    """The tables for which ``require_captured`` would raise."""
    try:
        lost = frozenset(name for name, _ in tables.lost_captures(sides.provider, sides.queue))
    except InstallError:
        lost = frozenset()
    return lost | _lacking(sides).keys()


def _lacking(sides: CopySessions) -> dict[TableName, str]:
    try:
        return lost_rows.find(sides.provider, sides.queue)
    except InstallError:
        # An older node, which does not watch them.
        return {}


def whole_tables(provider: Connection, queue: str) -> dict[TableName, TableName]:
    """The tables that the provider has completely, and their names on it."""
    root = nodes.is_root_node(provider, queue)
    return {
        found.name: found.dest
        for found in tables.get_table_list(provider, queue)
        if found.local
        and states.from_text(found.state) == states.Ok()
        # Its own copy says why it cannot be read.
        and copy_source.readable(provider, found, root=root)
    }


def register(sides: CopySessions, *, remember: bool = False) -> None:
    """Registers the copy's consumer at the newest tick, on both sides.

    remember -- its name is not the table's: this node registers it before the provider does.

    Before any row is read: what a chunk does not see comes in a later batch.
    """
    source, node, queue = sides.provider, sides.here, sides.queue
    provider = sides.source_node
    before = None if remember else sides.registered_at()
    if before is not None and before != provider:
        # It is not read from any more, and its queue must not be held.
        sides.unregister_at(before)
    if remember:
        # After a crash this row leads to the consumer on the provider.
        nodes.register_consumer(node, queue, sides.consumer, provider, 1)
    if not batches.register_consumer(source, queue, sides.consumer):
        # Left by an earlier attempt: what it would replay is in the new copy.
        newest = queues.get_queue_info(source, queue)[0].last_tick_id
        if newest is None:
            raise StateError(
                f"queue {queue}: no tick yet",
                hint=f"start the ticker of node {provider}: londiste ticker",
            )
        batches.register_consumer_at(source, queue, sides.consumer, newest)
    tick = queues.get_consumer_info(source, queue, sides.consumer)[0].last_tick
    assert tick is not None
    nodes.register_consumer(node, queue, sides.consumer, provider, tick)


def pairing(
    sides: CopySessions,
    table: ReplicatedTable,
    source_name: TableName,
    source_columns: list[Column],
    source: Connection,
) -> Pairing:
    """The columns to copy.  Raises UnknownTable, UsageError."""
    node = sides.here
    target_columns = catalog.columns(node, table.dest)
    if not target_columns and catalog.info(node, table.dest) is None:
        raise UnknownTable(
            f"table {table.dest}: does not exist on the target",
            hint="create it; the copy then restarts automatically",
        )
    same = source.info.server_version // 10000 == node.info.server_version // 10000
    found = pair(
        table.name,
        source_columns,
        target_columns,
        same_version=same,
        dest=table.dest,
        wants=table.wants,
    )
    versions = source.info.server_version, node.info.server_version
    require_char(table.name, table.dest, found.pairs, (source_columns, target_columns), versions)
    if not found.pairs:
        raise UsageError(
            f"table {table.name}: no column in common with target table {table.dest}",
            hint="make the two definitions match; the copy then restarts automatically",
        )
    for warning in found.warnings:
        log.warning("%s", warning)
    if found.missing:
        captured = _captured_columns(sides, source_name)
        warning = require_here(
            sides.queue, table.name, source_name, table.dest, found.missing, captured
        )
        log.warning("%s", warning)
    return found


def _captured_columns(sides: CopySessions, source_name: TableName) -> frozenset[str] | None:
    try:
        return tables.captured_columns(sides.provider, sides.queue, source_name)
    except InstallError:
        return None


def copied(
    sides: CopySessions,
    table: ReplicatedTable,
    attempt: int,
    snapshot: str | None,
    first: Callable[[Connection], None] | None = None,
) -> None:
    """Ends the load: moves the table to catching-up, so that a crash does not repeat the copy.

    snapshot -- its transactions' events are not applied again; None: there are none.
    first -- what to do with the rows, in the same transaction.

    Raises Superseded.
    """
    node = sides.here
    after = states.next_state(InCopy(), TableSyncSnapshot(By.COPY, copied=True))
    with node.transaction():
        if first is not None:
            first(node)
        tally = all_done(node, sides.queue, table.name, attempt)
        step_timings.copy_step_end(node, sides.queue, table.name, step_timings.LOAD, tally)
        if not attempts.copy_end(node, sides.queue, table.name, attempt):
            raise Superseded(f"table {table.name}: copy {attempt} is superseded")
        if not tables.move_table_state(
            node, sides.queue, table.name, "in-copy", states.to_text(after), snapshot
        ):
            raise Superseded(f"table {table.name}: its copy is no longer requested")
