"""``takeover`` of a live node: a branch replaces another branch or a leaf."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from londiste.cascade.switching import change_provider
from londiste.cascade.switching.cluster_state import ClusterState, Warn, refuse_leaf
from londiste.db.names import argument, word
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step


def takeover(
    sites: Connections,
    scene: ClusterState,
    old: str,
    new: str,
    *,
    move_all: bool = False,
    timeout: float,
    warn: Warn,
    guard: change_provider.Guard = change_provider.nothing,
) -> list[Step]:
    """The steps that replace ``old``, a live branch or leaf, by branch ``new``.

    Afterwards ``old`` reads from ``new``, which reads from the former provider of ``old`` or keeps
    its own.

    move_all -- switch the other subscribers of ``old`` to ``new``, too.
    timeout -- seconds for each wait.
    guard -- checks and further steps of other layers for a node with a new provider.

    Raises UnknownNode, NodeUnreachable, StateError, NodeBusy.
    """
    replaced, target = scene.info(old), scene.info(new)
    refuse_leaf(target, "it cannot be a provider")
    if replaced.type is NodeType.ROOT:
        raise StateError(
            f"node {old} is the root",
            hint=f"londiste switchover --to {word(new)} makes {new} the root",
        )
    if old == new:
        raise StateError(f"node {new} cannot take over itself", hint="name another node")
    steps: list[Step] = []
    noted = scene.operations.get(new)
    depends = old in scene.providers(new)
    if depends or (noted is not None and noted.from_node == old):
        above = replaced.provider if noted is None else noted.new
        steps += change_provider.change_provider(
            sites, scene, new, above, timeout=timeout, warn=warn, guard=guard
        )
    followers = [old]
    if move_all:
        followers += [n.name for n in change_provider.followers(scene, old, new)]
    for name in followers:
        steps += change_provider.change_provider(
            sites,
            scene,
            name,
            new,
            timeout=timeout,
            warn=warn,
            ignoring=old if depends else None,
            guard=guard,
        )
    if move_all:
        # An earlier try may have moved some while the old node did not answer.
        gone = change_provider.moved(scene, new) - set(followers)
        steps += change_provider.left_over(sites, scene, gone, new, warn, ours=(old,))
    return steps


def done_already(scene: ClusterState, old: str, new: str) -> str:
    """Pure: what is true when the takeover has no step left.

    It may have happened, or ``old`` has always read from ``new`` and the names are swapped.
    """
    text = f"node {old} already reads from {new}, nothing to do"
    if scene.answers(old) and scene.info(old).type is NodeType.BRANCH:
        again = f"londiste takeover {argument(new)} --node {argument(old)}"
        text += f"; if {old} is to replace {new}: {again}"
    return text
