"""A node takes the place of another one that lives: whichever kind both are."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from londiste.cascade.switching import change_provider
from londiste.cascade.switching.cluster_state import ClusterState, Warn, refuse_leaf
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
    """The steps that put branch ``new`` in the place of ``old``, a branch or leaf that lives.

    Afterwards ``new`` reads from what ``old`` read from, or from where it did, and ``old`` from it.

    move_all -- so do the other subscribers of ``old``.
    timeout -- seconds for each wait.
    guard -- what other layers have to do about a node that reads from elsewhere.

    Raises UnknownNode, NodeUnreachable, StateError, NodeBusy.
    """
    replaced, target = scene.info(old), scene.info(new)
    refuse_leaf(target, "nobody can read from it")
    if replaced.type is NodeType.ROOT:
        raise StateError(
            f"node {old} is the root", hint=f"londiste switchover --to {new} makes {new} the root"
        )
    if old == new:
        raise StateError(f"node {new} cannot take over itself", hint="give another node")
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
