"""Checks of row filters and column lists against all nodes they concern.

A subscriber of a branch gets what the branch stores: it cannot have rows and columns that the
branch excludes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.upstream import upstream
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.db.queries import tuples
from londiste.errors import BadOption, NodeUnreachable, StateError, UsageError
from londiste.handlers import condition, table_rules
from londiste.handlers.base import ALL, TableRules
from londiste.orchestration.connections import Connections
from londiste.replication import sqlapi as tables
from londiste.replication.forwarding.combined_queue import other_sources
from londiste.replication.forwarding.rewrite import holds_less
from londiste.replication.forwarding.upstream_filters import held_above
from londiste.replication.model import FORGET, ReplicatedTable


def attrs(node: NodeInfo, wants: TableRules) -> dict[str, str]:
    """Attributes for a table that the node starts to filter: a branch deletes its old events."""
    less = node.type is NodeType.BRANCH and wants.stored and holds_less(wants)
    return {FORGET: "1"} if less else {}


def refuse(node: NodeInfo, wants: TableRules) -> None:
    """Raises UsageError for excluded rows or columns on a root."""
    if node.type is not NodeType.ROOT or not holds_less(wants):
        return
    what = "the root cannot change values" if wants.rows else "the root cannot exclude columns"
    if wants.where:
        what = "the root cannot exclude rows"
    raise UsageError(
        f"node {node.name}: {what}",
        detail="the rows are written on the root, and all nodes get theirs from it",
        hint="add the table without the filter on the root, and with it on branches and leaves",
    )


def check(
    sites: Connections,
    queue: str,
    provider_dsn: str,
    source: TableName,
    local: Connection,
    dest: TableName,
    table: TableName,
    wants: TableRules,
    created: bool,
) -> None:
    """Refuses filters that would be wrong in the copy or in the events.  Changes nothing.

    source, dest -- the table's names on the provider and here; created -- the latter will be
        created like the former, so the former is checked instead of it.

    Raises BadOption, UsageError.
    """
    provider = sites.at(provider_dsn)
    condition.check_source(provider, source, wants)
    if created:
        # The node checks it again in the transaction that creates the table.
        condition.check(provider, source, wants, created=True)
    else:
        condition.check(local, dest, wants)
    if not wants.where:
        return
    root_dsn = upstream(sites, queue, provider_dsn).root_dsn
    root = sites.at(root_dsn)
    if not created:
        condition.check_types(provider, source, local, dest, wants)
    at_root = {t.name: t.dest for t in tables.get_table_list(root, queue) if t.local}
    if table not in at_root:
        return
    # Events have the values of the root.
    if not created:
        condition.check_types(root, at_root[table], local, dest, wants)
    elif root is not provider:
        condition.check_types(root, at_root[table], provider, source, wants, created=True)
    ignored = tuples(root, "ignored_columns", queue=queue, table=str(at_root[table]))
    missing = [name for (name,) in ignored if wants.keeps(name)]
    if missing:
        raise BadOption(
            f"--where: events of table {table} lack columns",
            detail=f"its trigger on the root excludes {', '.join(missing)} (ignore=), so an"
            " update does not contain the full row, which may be new here",
            hint=f"exclude them here too: --skip-columns {','.join(missing)}; or add the table on"
            " the root without ignore=",
        )


def incomplete(
    sites: Connections, node: NodeInfo, tables_of: Sequence[tuple[TableName, TableRules]]
) -> list[str]:
    """Warnings for tables whose trigger on the root does not write the whole rows they need here.

    node -- a branch or leaf.  tables_of -- its tables, and their new rules.
    """
    asking = [name for name, wants in tables_of if _needs_whole_rows(node, wants)]
    if not asking:
        return []
    try:
        above = sites.reach(node.provider_location, node.provider)
        root = sites.at(upstream(sites, node.queue, above).root_dsn)
    except NodeUnreachable:
        return []
    at_root = {t.name: t.dest for t in tables.get_table_list(root, node.queue) if t.local}
    found = {
        TableName.parse(name): trigger
        for name, trigger, *_ in tuples(root, "capture_triggers", queue=node.queue)
    }
    return [
        f"table {name}: its trigger on the root is pgq.sqltriga, whose updates contain no whole"
        f" rows: the first one stops node {node.name}; on the root: londiste change-form"
        f" {argument(name)} --trigger capture"
        for name in asking
        if name in at_root and found.get(at_root[name]) == "sqltriga"
    ]


def _needs_whole_rows(node: NodeInfo, wants: TableRules) -> bool:
    """Whether an update that has the changed columns only stops the node."""
    if wants.events is not None:
        return wants.events.needs_whole_rows()
    rewritten = node.type is NodeType.BRANCH and (holds_less(wants) or bool(wants.changed))
    return wants.stored and (bool(wants.where) or rewritten)


def refuse_shared(
    sites: Connections,
    node: NodeInfo,
    dsn: str,
    table: TableName,
    dest: TableName,
    wants: TableRules,
    *,
    merged: bool = False,
    confirmed: bool = False,
) -> None:
    """Refuses a row filter in a table that several sources fill: it deletes by key.

    An update after which a row does not match the filter deletes the row with its key, and that
    of a row which never matched may belong to another source.

    dest -- the table here.  wants -- its rules.  merged -- all queues will fill it.
    confirmed -- the user says that no two rows of the sources have the same key.

    Raises BadOption.
    """
    if confirmed or not wants.stored or node.type is NodeType.ROOT:
        return
    local = sites.at(dsn)
    others = other_sources(local, node.queue, table, dest)
    if not others and not merged:
        return
    filtered = wants.where
    if not filtered:
        # Filters of branches above this node delete rows in the same way.
        above = held_above(
            sites, node.queue, sites.reach(node.provider_location, node.provider)
        ).get(table)
        filtered = above.where if above is not None else ""
    for queue, name in others if not filtered else ():
        known = tables.get_table(local, queue, TableName.parse(name))
        filtered = table_rules.condition(known.attrs) if known is not None else ""
        if filtered:
            break
    if filtered:
        raise BadOption(
            f"table {table}: several sources fill {dest}, and rows are filtered: {filtered}",
            detail="an update of a row that does not match the filter deletes the row with its"
            " key, which may be a row of another source",
            hint="if no two rows of all sources have the same key, also where the filter excludes"
            " them: add the table with --unique-keys; else add it without a filter",
        )


def nodes_below(sites: Connections, dsn: str, queue: str) -> list[tuple[str, str]]:
    """The nodes below a node, by name and connection string, nearest first."""
    found: list[tuple[str, str]] = []
    ask = [dsn]
    while ask:
        conn = sites.at(ask.pop(0))
        places = {member.name: member for member in nodes.get_queue_locations(conn, queue)}
        for subscriber in nodes.get_subscriber_info(conn, queue):
            member = places.get(subscriber.name)
            if member is not None and not member.dead:
                found.append((member.name, sites.reach(member.location)))
                ask.append(found[-1][1])
    return found


def rules_of(table: ReplicatedTable) -> TableRules:
    """Its rules; where its handler is not known to this process, those of one that may mask."""
    try:
        return table.holds
    except BadOption:
        return replace(ALL, where="unknown")


def refuse_rows_below(
    sites: Connections, dsn: str, node: NodeInfo, table: TableName, rules: TableRules, then: str
) -> None:
    """Refuses to begin or end a filter of a branch while nodes below replicate the table.

    rules -- of the table on the branch.  then -- what those nodes would get or keep.
    Raises StateError.
    """
    if node.type is not NodeType.BRANCH or not rules.stored:
        return
    if not holds_less(rules) and not rules.changed:
        return
    for name, below in nodes_below(sites, dsn, node.queue):
        known = tables.get_table(sites.at(below), node.queue, table)
        if known is not None and known.local and known.keeps_rows:
            raise StateError(
                f"table {table} is replicated on node {name}, below the branch {node.name}",
                detail=f"{then}; nothing was changed",
                hint=f"with the settings of {name}, first: londiste remove-table"
                f" {argument(table)}; to change"
                f" the filter of {node.name} instead: londiste change-handler {argument(table)}",
            )
