"""``rename-node``: rename a node on every node of its cascade."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade import watermark
from londiste.cascade.commands.node_name import check_name
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.switching.cluster_state import ClusterState, refuse_replaced
from londiste.cascade.switching.steps.notes import AtNode, NodeAddress
from londiste.db import call
from londiste.db.names import argument
from londiste.errors import LondisteError, NodeUnreachable, StateError, UsageError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step


def rename(sites: Connections, scene: ClusterState, old: str, new: str) -> list[Step]:
    """The steps that rename a node on every node, on the root last.

    The root publishes the name in the queue.  By then all other nodes have it, since they cannot
    apply the new name a second time.

    Raises UnknownNode, UsageError for a name that is taken or not allowed, StateError while a
    change is under way or while a node does not answer that is not marked as failed: it would keep
    the old name.
    """
    known = scene.topology.views
    if new in known and old in known:
        raise UsageError(
            f"queue {scene.queue} has a node {new} already", hint="choose another name"
        )
    if new not in known:
        scene.place(old)
        check_name(new)
    for name, noted in scene.operations.items():
        raise StateError(
            f"node {name}: {noted.describe()} is under way",
            hint=noted.way_out(name),
        )
    roots: list[NodeAddress] = []
    rest: list[NodeAddress] = []
    for name, view in known.items():
        place = scene.place(name)
        if name in (old, new):
            refuse_replaced(scene, name)
        if scene.replaced(name):
            continue
        # Interrupted, the node may call itself by the one name, and be known here by the other.
        info = view.info or (_half_renamed(sites, place, scene.queue, old, new))
        if info is not None:
            (roots if info.type is NodeType.ROOT else rest).append(place)
        elif name in (old, new):
            raise NodeUnreachable(
                f"node {name} does not answer: {view.error}",
                detail="it would return under its old name and be unknown",
                hint="start its server and repeat the command",
            )
        elif not view.member.dead:
            raise NodeUnreachable(
                f"node {name} does not answer: {view.error}",
                detail="it would keep the old name",
                hint=f"start its server, or, if it has failed: londiste tag-dead {argument(name)}",
            )
    return [RenameNode(place, scene.queue, old, new) for place in (*rest, *roots)]


def _half_renamed(
    sites: Connections, place: NodeAddress, queue: str, old: str, new: str
) -> NodeInfo | None:
    """The node at ``place`` when it is the node to rename and has another name."""
    if place.name not in (old, new):
        return None
    try:
        info = nodes.find_node_info(sites.at(place.dsn), queue)
    except LondisteError:
        return None
    return info if info is not None and info.name in (old, new) else None


@dataclass(frozen=True)
class RenameNode(AtNode):
    """Renames a node on another one, or on itself."""

    old: str
    new: str

    def describe(self) -> str:
        return f"{self.at.name}: rename {self.old} to {self.new}"

    def done(self, sites: Connections) -> bool:
        known = nodes.get_queue_locations(sites.at(self.at.dsn), self.queue)
        return all(m.name != self.old for m in known)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            call.ret(conn, "pgq_node.rename_node", self.queue, self.old, self.new)
            watermark.rename_in_group(conn, self.queue, self.old, self.new)
