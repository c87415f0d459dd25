"""Way from a provider up to the root: its nodes, and their lock while a node is created below."""

from __future__ import annotations

from dataclasses import dataclass, field

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import Member, NodeInfo, NodeType
from londiste.db.connection import describe_dsn
from londiste.errors import NodeBusy, StateError, UnknownNode
from londiste.orchestration.connections import Connections


@dataclass(frozen=True)
class Upstream:
    """The nodes from a provider up to the root."""

    provider: NodeInfo
    provider_dsn: str = field(repr=False)
    root: NodeInfo
    root_dsn: str = field(repr=False)
    members: tuple[Member, ...]


def upstream(sites: Connections, queue: str, provider: str) -> Upstream:
    """Walks from a provider's connection string to the root.

    Raises UnknownNode when a database on the way is no node, StateError for a provider that
    is a leaf and for nodes that read from each other in a circle.
    """
    dsn = provider
    first: NodeInfo | None = None
    passed: list[str] = []
    while True:
        info = nodes.find_node_info(sites.at(dsn), queue)
        if info is None:
            raise UnknownNode(
                f"provider {describe_dsn(dsn)} is not a node of queue {queue}",
                hint="give the connection string of its root or of a branch to --provider",
            )
        if info.type is NodeType.LEAF:
            raise StateError(
                f"node {info.name} is a leaf and cannot be a provider",
                hint=f"give the connection string of its provider {info.provider}, or of another"
                " root or branch, to --provider",
            )
        sites.call_them({dsn: info.name})
        first = first or info
        if info.name in passed:
            raise StateError(
                f"queue {queue}: providers form a circle: {', '.join([*passed, info.name])}",
                hint="londiste node-info shows the provider of each; give --provider a node whose"
                " providers lead to a root",
            )
        passed.append(info.name)
        if info.type is NodeType.ROOT:
            members = tuple(nodes.get_queue_locations(sites.at(dsn), queue))
            return Upstream(first, provider, info, dsn, members)
        dsn = sites.reach(info.provider_location, info.provider)


def hold_upstream(sites: Connections, queue: str, provider: str) -> None:
    """Keeps others from dropping, renaming or moving the provider and the root.

    Several nodes may be created at the same time.  Raises NodeBusy; and as ``upstream``.
    """
    way = upstream(sites, queue, provider)
    root = (way.root.name, way.root_dsn)
    for name, dsn in sorted({(way.provider.name, way.provider_dsn), root}):
        sites.alone(dsn, name, queue, shared=True)
    now = upstream(sites, queue, provider)
    if (now.provider.name, now.root.name) != (way.provider.name, way.root.name):
        raise NodeBusy(
            f"the cascade of queue {queue} changed while this command started",
            hint="repeat the command",
        )
