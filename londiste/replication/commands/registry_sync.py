"""Alignment of a node's registry of tables and sequences with its provider.

A node learns of tables from events.  A new node, or one that has not read those events yet, asks
its provider; the events change nothing later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.errors import StateError, TransientError
from londiste.handlers.base import TableRules
from londiste.orchestration.connections import Connections
from londiste.pgq import browse
from londiste.replication import sqlapi as tables
from londiste.replication.commands import merged_tables
from londiste.replication.forwarding import combined_queue
from londiste.replication.model import ReplicatedTable
from londiste.replication.registration_filter import ALL, RegistrationFilter
from londiste.replication.tablesync import copy_source
from londiste.wording import shortened


@dataclass(frozen=True)
class RegistryDifference:
    """The changes that align this node with its provider."""

    add: tuple[TableName, ...]
    remove: tuple[TableName, ...]
    sequences: tuple[tuple[TableName, int], ...]

    def __bool__(self) -> bool:
        return bool(self.add or self.remove or self.sequences)


def difference(
    provider: Connection, local: Connection, queue: str, wanted: RegistrationFilter = ALL
) -> RegistryDifference:
    """Compares the lists of both; only tables that are not local here are removed.

    wanted -- what this node registers; other tables that are registered already stay.
    """
    theirs = dict.fromkeys(t.name for t in tables.get_table_list(provider, queue))
    ours = {t.name: t for t in tables.get_table_list(local, queue)}
    known = {s.name: s.last_value for s in tables.get_seq_list(local, queue)}
    return RegistryDifference(
        add=tuple(name for name in theirs if name not in ours and wanted.table(name)),
        remove=tuple(n for n, t in ours.items() if n not in theirs and not t.local),
        sequences=tuple(
            (s.name, s.last_value)
            for s in tables.get_seq_list(provider, queue)
            # One that descends or cycles has lower values later.
            if known.get(s.name) != s.last_value and (s.name in known or wanted.sequence(s.name))
        ),
    )


def require_heard(provider: Connection, node: NodeInfo, chosen: Sequence[TableName]) -> None:
    """Refuses to add tables whose removal on the root this node has yet to apply.

    A table may have been added there again since; the old event would remove it here.
    Raises TransientError.
    """
    removed = browse.waiting(provider, node.queue, node.last_tick, "londiste.remove-table")
    for table in (one for one in chosen if str(one) in removed):
        raise TransientError(
            f"table {table}: its removal on the root is not applied on node {node.name} yet",
            detail="that event would remove the table again; nothing was added",
            hint="retry after the worker has caught up: londiste status",
        )


def require_not_combined(local: Connection, node: NodeInfo, table: TableName) -> None:
    """Refuses a copy into a table that subscribers of the combined queue may have copied already.

    The rows that the copy of a part brings are in no event.  Raises StateError.
    """
    combined = node.combined_queue
    if combined is None or node.combined_type is not NodeType.ROOT:
        return
    known = tables.get_table(local, combined, table)
    if known is None or not known.local or not nodes.get_subscriber_info(local, combined):
        return
    # Beside the rows of other parts it cannot be copied alone.
    shared = combined_queue.other_queues(local, node.queue, table, known.dest)
    raise StateError(
        f"table {table} is in combined queue {combined} already; a copy from queue {node.queue}"
        " is not possible",
        detail=f"the subscribers of {combined} would not get the copied rows; nothing was added",
        hint=merged_tables.described([table], [table] if shared else [], combined, lost=False),
    )


@dataclass(frozen=True)
class CopyRegistry:
    """Copies the list of tables and sequences from the provider."""

    node: str
    provider: str
    provider_dsn: str = field(repr=False)
    local_dsn: str = field(repr=False)
    queue: str
    wanted: RegistrationFilter = ALL

    def describe(self) -> str:
        return f"{self.node}: copy the list of tables and sequences from {self.provider}"

    def done(self, sites: Connections) -> bool:
        return not self._difference(sites)

    def run(self, sites: Connections) -> None:
        found = self._difference(sites)
        calls: list[tuple[object, ...]] = [
            *(("londiste.global_add_table", self.queue, str(table)) for table in found.add),
            *(("londiste.global_remove_table", self.queue, str(table)) for table in found.remove),
            *(
                ("londiste.global_update_seq", self.queue, str(name), value, None)
                for name, value in found.sequences
            ),
        ]
        with sites.transaction(self.local_dsn) as conn:
            for (function, *_), (answer,) in zip(calls, call.together(conn, *calls), strict=True):
                call.answered(str(function), answer)

    def _difference(self, sites: Connections) -> RegistryDifference:
        return difference(
            sites.at(self.provider_dsn), sites.at(self.local_dsn), self.queue, self.wanted
        )


def not_kept(node: NodeInfo, lacking: Sequence[TableName]) -> StateError:
    """Pure: why tables cannot be copied that the provider of ``node`` does not have."""
    several = len(lacking) > 1
    return StateError(
        f"node {node.provider} does not have table{'s' * several} {shortened(lacking)}",
        detail=f"it is the provider of {node.name}, from which the rows would be copied",
        hint=f"on node {node.provider}: londiste add-table"
        f" {'--all' if several else argument(lacking[0])}; or copy from the nearest node that has"
        " the rows: --find-copy-node; or, if this node already has the rows: --expect-sync",
    )


def require_kept(
    provider: Connection,
    node: NodeInfo,
    table: TableName,
    theirs: ReplicatedTable | None,
    mine: TableRules,
) -> None:
    """Raises StateError if the provider of ``node`` does not store the table's rows.

    theirs -- its registration on the provider.  mine -- its rules on the node.
    """
    if theirs is None or not theirs.local:
        raise not_kept(node, [table])
    refused = copy_source.refusal(
        provider,
        node.queue,
        theirs,
        node.provider,
        "copy from the nearest node that has the rows: --find-copy-node; or, if this node already"
        " has them: --expect-sync",
        mine,
    )
    if refused is not None:
        raise refused
    if not theirs.keeps_rows:
        raise StateError(
            f"node {node.provider} stores no rows of table {table}",
            detail=f"its handler there is {theirs.attrs.get('handler')}; it is the provider of"
            f" {node.name}, from which the rows would be copied",
            hint="if this node already has the rows: --expect-sync",
        )
