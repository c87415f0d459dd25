"""Leaves of a stand-by that keep other tables than those of the combined root."""

from __future__ import annotations

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.errors import LondisteError
from londiste.monitor.queues.model import Finding, Severity
from londiste.orchestration.connections import Connections
from londiste.replication import sqlapi as tables
from londiste.replication.failover import readiness


def find(sites: Connections, dsn: str, queue: str) -> list[Finding]:
    """What would block a switchover to the database of ``dsn``, a leaf of ``queue`` that waits.

    Nothing for all other nodes, and while the combined root does not answer: its own finding.
    """
    local = sites.at(dsn)
    node = nodes.get_node_info(local, queue)
    if node.combined_queue is None or node.combined_type is not NodeType.BRANCH:
        return []
    try:
        root = sites.at(_root_of(sites, nodes.get_node_info(local, node.combined_queue)))
        leaf = nodes.find_node_info(root, queue)
        if leaf is None or leaf.combined_queue != node.combined_queue:
            return []
        theirs = tables.get_table_list(root, queue)
    except LondisteError:
        return []
    mine = tables.get_table_list(local, queue)
    return [
        Finding(
            Severity.WARNING,
            "merge-differs",
            f"node {node.name}: {blocker.problem}",
            f"rows would be missing after a switchover of {node.combined_queue}, which refuses it",
            blocker.remedy(node.name),
            queue,
        )
        for blocker in readiness.part_findings(node.name, queue, theirs, mine, node.combined_queue)
        if blocker.mend != readiness.WAIT
    ]


def everywhere(sites: Connections, dsn: str, queue: str) -> list[Finding]:
    """``find`` for each node of the cascade that answers."""
    local = sites.at(dsn)
    own = nodes.get_node_info(local, queue).name
    found = []
    for member in nodes.get_queue_locations(local, queue):
        try:
            place = dsn if member.name == own else sites.reach(member.location)
            found += [] if member.dead else find(sites, place, queue)
        except LondisteError:
            # The check has a finding about this node.
            continue
    return found


def _root_of(sites: Connections, node: NodeInfo) -> str:
    """Connection string of the root above a branch.  Raises LondisteError if a node is silent."""
    seen = {node.name}
    while True:
        dsn = sites.reach(node.provider_location, node.provider)
        node = nodes.get_node_info(sites.at(dsn), node.queue)
        if node.type is NodeType.ROOT or node.name in seen:
            return dsn
        seen.add(node.name)
