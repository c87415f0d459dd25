"""From which node a table is copied: its provider, or one further up that keeps its rows.

Only nodes between this one and the root will do.  Each of their ticks is a tick of those above too,
so a copy that reads there can stop exactly where the worker stands, which reads from the provider.
Ticks and transaction ids of any other node say nothing here; what the copy has seen of transactions
is compared with ticks of the node that it was made on, and is spent before the hand-over.

A branch that holds less of the table, or masks values in it, is as far up as a copy may look: its
events tell what it holds, and what it leaves out is nobody's below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.errors import BadOption, StateError
from londiste.handlers.base import TableRules
from londiste.replication import sqlapi as tables
from londiste.replication.forwarding.rewrite import holds_less
from londiste.replication.model import ReplicatedTable

#: The attribute of a table: the node's name, or ANY.
ATTR = "copy_node"
#: The first node on the way up that keeps the table and its rows.
ANY = "?"


@dataclass(frozen=True)
class CopySource:
    """A node that has the rows; ``table`` is the table's name there."""

    node: str
    dsn: str = field(repr=False)
    table: TableName


def with_copy_node(attrs: Mapping[str, str], node: str) -> dict[str, str]:
    """The attributes of a table that is to be copied from ``node``; '' leaves them as they are."""
    return {**attrs, ATTR: node} if node else dict(attrs)


def _kept(table: ReplicatedTable | None, node: str) -> TableRules | None:
    """What a node with this registration has, or is getting, of a table; None: it keeps no rows.

    Raises StateError for a handler that is not known to this process.
    """
    if table is None or not table.local:
        return None
    try:
        holds = table.holds
    except BadOption as error:
        raise StateError(
            f"table {table.name} of node {node}: {error.message}",
            detail="whether the node holds all of it cannot be known here",
            hint="name the module of its handler in handler_modules here, too",
        ) from error
    return holds if holds.stored else None


def find(
    at: Callable[[str], Connection],
    reach: Callable[[str], str],
    location: str,
    queue: str,
    table: TableName,
    wanted: str,
) -> CopySource:
    """Walks up from a provider to the node ``wanted``, or to the first that keeps the table.

    at -- a session for a connection string; reach -- the connection string for a location.
    location -- of the provider.

    Raises StateError when there is no such node on the way, or it does not keep the table, or a
    branch before it holds less of it.
    """
    passed: list[str] = []
    while True:
        dsn = reach(location)
        info = nodes.get_node_info(at(dsn), queue)
        if info.name in passed:
            raise StateError(
                f"nodes {', '.join(passed)} read from each other in a circle",
                hint="londiste status shows the tree; correct one with change-provider",
            )
        passed.append(info.name)
        known = tables.get_table(at(dsn), queue, table)
        kept = _kept(known, info.name)
        less = kept is not None and holds_less(kept)
        if wanted in (ANY, info.name):
            if known is not None and kept is not None and (kept.whole or less):
                return CopySource(info.name, dsn, known.dest)
            if wanted == info.name:
                raise StateError(
                    f"node {wanted} does not keep the rows of table {table}",
                    detail="they were to be copied from there",
                    hint=f"add it there first, or let another be found: --find-copy-node {table}",
                )
        if less:
            raise StateError(
                f"node {info.name}, between here and node {wanted}, holds less of table {table}",
                detail="its events tell what it holds; a copy from above it would bring what it"
                " leaves out or masks",
                hint=f"copy it from there: --copy-node {info.name}",
            )
        if info.type is NodeType.ROOT:
            raise _none(table, wanted, passed)
        location = info.provider_location


def _none(table: TableName, wanted: str, passed: list[str]) -> StateError:
    way = ", ".join(passed)
    if wanted == ANY:
        return StateError(
            f"no node between here and the root keeps the rows of table {table}",
            detail=f"looked at {way}",
            hint="with rows that are here already: londiste add-table --expect-sync",
        )
    return StateError(
        f"node {wanted} is not on the way from here to the root",
        detail=f"nodes on the way: {way}; ticks of others do not tell where a copy stands here",
        hint=f"choose one of {way}, or --find-copy-node",
    )
