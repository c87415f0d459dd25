"""Finding about the stored location of a node, which other nodes use to reach it."""

from __future__ import annotations

from londiste.cascade import sqlapi as nodes
from londiste.db.names import argument
from londiste.errors import NodeUnreachable, UsageError
from londiste.monitor.nodes.own_findings import restored
from londiste.monitor.queues.model import Finding, Severity
from londiste.orchestration.connections import Connections


def find(sites: Connections, dsn: str, queue: str) -> list[Finding]:
    """The finding that the stored location of the node of ``dsn`` does not answer, or none."""
    local = sites.at(dsn)
    own = nodes.get_node_info(local, queue).name
    for member in nodes.get_queue_locations(local, queue):
        if member.name == own:
            try:
                sites.at(sites.reach(member.location))
            except (NodeUnreachable, UsageError) as error:
                rebase = bool(restored(local, queue))
                return [finding(own, error.message, queue, rebase=rebase)]
    return []


def finding(node: str, why: str, queue: str, *, rebase: bool) -> Finding:
    """Pure: the finding about a location that does not answer.

    rebase -- the database was restored from another server.
    """
    do = f"londiste move-node {argument(node)} CONNECTION"
    return Finding(
        Severity.WARNING,
        "unreachable",
        f"node {node}: its stored location does not answer; other nodes use it",
        why,
        f"{do}; before it: londiste queue rebase" if rebase else do,
        queue,
    )
