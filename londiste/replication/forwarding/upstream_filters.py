"""Filters of the branches above a node."""

from __future__ import annotations

from collections.abc import Mapping

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db.names import TableName
from londiste.errors import BadOption, StateError
from londiste.handlers.base import ALL, TableRules
from londiste.orchestration.connections import Connections
from londiste.replication import sqlapi as tables


def held_above(sites: Connections, queue: str, provider_dsn: str) -> Mapping[TableName, TableRules]:
    """The filters of the branches from a provider up to the root.

    Raises StateError where a branch has a handler that is not known to this process.
    """
    found: dict[TableName, TableRules] = {}
    dsn = provider_dsn
    while True:
        info = nodes.get_node_info(sites.at(dsn), queue)
        if info.type is NodeType.ROOT:
            return found
        for table in tables.get_table_list(sites.at(dsn), queue):
            if not table.local:
                continue
            try:
                holds = table.holds
            except BadOption as error:
                raise StateError(
                    f"table {table.name} of branch {info.name}: {error.message}",
                    detail="this process cannot know the rows that it forwards",
                    hint="add the module of its handler to handler_modules here, too",
                ) from error
            # Without rows of its own, or with a handler for events, it forwards all unchanged.
            if holds != ALL and holds.stored and holds.events is None:
                found[table.name] = holds.of(found.get(table.name, ALL))
        dsn = sites.reach(info.provider_location, info.provider)
