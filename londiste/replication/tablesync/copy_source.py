"""Source node of a table's copy: the provider, or a node further up that has its rows.

Only nodes between this one and the root are possible.  Each of their ticks is a tick of those above
too, so a copy that reads there can stop exactly at the position of the worker, which reads from the
provider.  Ticks and transaction ids of other nodes have no meaning here; the copy's snapshot is
compared with ticks of its source node, and is spent before the hand-over.

A copy may not pass a branch that filters or masks the table: its events contain only its rows, and
the nodes below must not get others.

A branch whose handler processes events forwards them unchanged.  Where its own rows are others than
those of its events, a copy of them would be wrong from the next event on: the rows are further up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.errors import BadOption, NodeUnreachable, StateError
from londiste.handlers.base import ALL, TableRules
from londiste.handlers.table_rules import HANDLER, unlike
from londiste.replication import sqlapi as tables
from londiste.replication.forwarding.rewrite import holds_less
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import child_rows

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
    """The attributes of a table that is copied from ``node``; '' leaves them unchanged."""
    return {**attrs, ATTR: node} if node else dict(attrs)


def rules_of(table: ReplicatedTable, node: str) -> TableRules:
    """The rules of a table of node ``node``.

    Raises StateError for a handler that is not known to this process.
    """
    try:
        return table.holds
    except BadOption as error:
        raise StateError(
            f"table {table.name} of node {node}: {error.message}",
            detail="this process cannot know whether the node has all rows",
            hint="add the module of its handler to handler_modules here, too",
        ) from error


def readable(conn: Connection, table: ReplicatedTable, *, root: bool) -> bool:
    """Whether a copy of a table of this node finds the rows of its events."""
    if child_rows.has_some(conn, table, root=root):
        return False
    try:
        # Handlers have no effect on the rows of a root.
        return root or not unlike(table.holds)
    except BadOption:
        return False


def refusal(
    conn: Connection,
    queue: str,
    table: ReplicatedTable,
    node: str,
    hint: str,
    mine: TableRules = ALL,
) -> StateError | None:
    """Why node ``node`` cannot be the source of a copy of the table; None where it can.

    hint -- how to copy from a node above it.  mine -- the rules of the node that copies.
    """
    if not table.attrs:
        return None
    root = nodes.is_root_node(conn, queue)
    handler = table.attrs.get(HANDLER)
    if child_rows.has_some(conn, table, root=root):
        return StateError(
            f"table {table.name} of node {node} has its rows in partitions",
            detail=f"its handler there is {handler}; a copy reads the table itself",
            hint=child_rows.collect(conn, table, node) if root else hint,
        )
    why = "" if root else unlike(rules_of(table, node), mine)
    if not why:
        return None
    return StateError(
        f"table {table.name} of node {node} has other rows than its events: {why}",
        detail=f"its handler there is {handler}; nodes below get all events, and a copy of these"
        " rows would not match them",
        hint=hint,
    )


def copy_refusal(
    conn: Connection, queue: str, table: ReplicatedTable, node: str, mine: TableRules = ALL
) -> StateError | None:
    """The ``refusal`` of a table that is to be copied again."""
    hint = f"londiste resync {argument(table.name)} --find-copy-node"
    return refusal(conn, queue, table, node, hint, mine)


def find(
    at: Callable[[str], Connection],
    reach: Callable[[str], str],
    location: str,
    queue: str,
    table: TableName,
    wanted: str,
) -> CopySource:
    """Walks up from a provider to the node ``wanted``, or to the first with the table.

    at -- a session for a connection string; reach -- the connection string for a location.
    location -- of the provider.

    Raises StateError when there is no such node on the way, or it lacks the table, or a branch
    before it filters the table.
    """
    passed: list[str] = []
    while True:
        dsn = reach(location)
        info = nodes.get_node_info(at(dsn), queue)
        if info.name in passed:
            raise StateError(
                f"nodes {', '.join(passed)} read from each other in a cycle",
                hint="inspect the tree with londiste status, then correct a node: londiste"
                " change-provider",
            )
        passed.append(info.name)
        known = tables.get_table(at(dsn), queue, table)
        less, has = False, False
        if known is not None and known.local:
            rules, root = rules_of(known, info.name), info.type is NodeType.ROOT
            less = rules.stored and holds_less(rules)
            has = rules.stored and readable(at(dsn), known, root=root)
        if wanted in (ANY, info.name):
            if known is not None and has:
                return CopySource(info.name, dsn, known.dest)
            if wanted == info.name:
                raise StateError(
                    f"node {wanted} does not have the rows of table {table}",
                    detail="it is the requested source of the copy",
                    hint="add the table there first, or search for a source: --find-copy-node"
                    f" {table}",
                )
        if less:
            raise StateError(
                f"node {info.name}, between this node and node {wanted}, filters table {table}",
                detail="a copy from above it would bring rows or values that it excludes or masks",
                hint=f"copy it from there: --copy-node {info.name}",
            )
        if info.type is NodeType.ROOT:
            raise _none(table, wanted, passed)
        location = info.provider_location


def require_rows(
    at: Callable[[str], Connection],
    reach: Callable[[str], str],
    node: NodeInfo,
    table: ReplicatedTable,
    mine: TableRules,
    wanted: str = "",
) -> CopySource | None:
    """The source of another copy of a table; None: it does not respond, or lacks the table now.

    Raises StateError where another copy of a table of ``node`` would find no rows.

    at, reach -- as in ``find``.  mine -- the rules of the table from now on.
    wanted -- its source from now on.  '': the one that it has, which need not respond now.
    """
    source = wanted or table.attrs.get(ATTR, "")
    try:
        if wanted or source not in ("", node.provider):
            return find(at, reach, node.provider_location, node.queue, table.name, source)
        dsn = reach(node.provider_location)
        conn = at(dsn)
        theirs = tables.get_table(conn, node.queue, table.name)
    except NodeUnreachable:
        if wanted:
            raise
        return None
    if theirs is None or not theirs.local:
        return None
    refused = copy_refusal(conn, node.queue, theirs, node.provider, mine)
    if refused is not None:
        raise refused
    return CopySource(node.provider, dsn, theirs.dest)


def _none(table: TableName, wanted: str, passed: list[str]) -> StateError:
    way = ", ".join(passed)
    if wanted == ANY:
        return StateError(
            f"no node between this one and the root has the rows of table {table}",
            detail=f"checked: {way}",
            hint="if this node already has the rows: londiste add-table --expect-sync",
        )
    return StateError(
        f"node {wanted} is not between this node and the root",
        detail=f"nodes between: {way}; ticks of other nodes cannot be compared",
        hint=f"use one of {way}, or --find-copy-node",
    )
