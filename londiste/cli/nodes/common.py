"""The connection string of a node, for commands about nodes."""

from __future__ import annotations

from londiste.cascade import sqlapi as nodes
from londiste.errors import UnknownNode
from londiste.orchestration.connections import Connections
from londiste.settings import NodeSettings
from londiste.wording import did_you_mean


def dsn_of(where: Connections, settings: NodeSettings, name: str | None) -> str:
    """The connection string of a node by name (default: this node)."""
    if name is None:
        return settings.db
    local = where.at(settings.db)
    info = nodes.get_node_info(local, settings.queue_name)
    if info.name == name:
        return settings.db
    members = nodes.get_queue_locations(local, settings.queue_name)
    for member in members:
        if member.name == name:
            dsn = where.reach(member.location, name)
            where.call_them({dsn: name})
            return dsn
    names = [m.name for m in members]
    raise UnknownNode(
        f"queue {settings.queue_name} has no node {name}",
        hint=did_you_mean(name, names, f"the nodes are {', '.join(names)}"),
    )
