"""``tag-dead``, ``tag-alive``: the mark of a failed node, for which no other node waits."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cascade.switching.failover import refuse_kept, refuse_unsure
from londiste.cascade.switching.steps.notes import TagDead
from londiste.db.names import word
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step


def tag(sites: Connections, scene: ClusterState, names: list[str], *, dead: bool) -> list[Step]:
    """The steps that mark nodes as failed on every node that answers, or clear the mark.

    Raises UnknownNode; StateError for the node at which the command runs, for a root that answers,
    and for clearing the mark of a failed root, which would take writes again; NodeUnreachable when
    a silent node may show that it is one.
    """
    steps: list[Step] = []
    for name in names:
        scene.place(name)
        if dead and name == scene.topology.local:
            raise StateError(
                f"node {name} is the node of this command and cannot be marked",
                hint="run the command on another node",
            )
        if dead and name in scene.topology.roots and not scene.replaced(name):
            raise StateError(
                f"root {name} answers and cannot be marked as failed",
                detail="its subscribers would stop",
                hint=f"if its server has failed: londiste takeover {word(name)} --failover --node"
                f" NODE; to"
                " change the root: londiste switchover --to NODE",
            )
        if not dead:
            refuse_kept(sites, scene, name, "unmarked, it would take writes again")
            info = scene.topology.views[name].info
            if info is None or info.type is NodeType.ROOT:
                refuse_unsure(scene, name)
        steps += [TagDead(scene.place(n.name), scene.queue, name, dead) for n in scene.listening()]
    return steps
