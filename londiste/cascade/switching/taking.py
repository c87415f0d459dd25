"""A node takes the place of another one that lives: whichever kind both are."""

from __future__ import annotations

from londiste.cascade.plan import Sites, Step
from londiste.cascade.switching import moving
from londiste.cascade.switching.scene import Scene, Warn, refuse_leaf
from londiste.cascade.types import NodeType
from londiste.errors import StateError


def takeover(
    sites: Sites,
    scene: Scene,
    old: str,
    new: str,
    *,
    move_all: bool = False,
    timeout: float,
    warn: Warn,
    guard: moving.Guard = moving.nothing,
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
        steps += moving.change_provider(
            sites, scene, new, above, timeout=timeout, warn=warn, guard=guard
        )
    followers = [old]
    if move_all:
        followers += [n.name for n in moving.followers(scene, old, new)]
    for name in followers:
        steps += moving.change_provider(
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
        gone = moving.moved(scene, new) - set(followers)
        steps += moving.left_over(sites, scene, gone, new, warn, ours=(old,))
    return steps
