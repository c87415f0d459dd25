"""Failover: another node replaces a failed one.

Every event of a failed root survives that a live node has.  So the successor first fetches the
ticks that only other nodes have, then becomes the root, and then the others read from it: no node
may be ahead of its provider.

A marker, the consumer ``<node>.gravestone``, keeps the queue of the new root from the tick of the
failover: if the failed root returns, its diverged events can be found from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.own_consumers import GRAVESTONE
from londiste.cascade.switching import change_provider, move_consumer, operation_log
from londiste.cascade.switching.cluster_state import ClusterState, Warn, refuse_leaf, without_end
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cascade.switching.steps.notes import (
    AtNode,
    Begin,
    Cancel,
    End,
    NodeAddress,
    TagDead,
    Ticket,
)
from londiste.cascade.switching.steps.readers import SetPaused, Unsubscribe
from londiste.cascade.switching.steps.roots import Promote
from londiste.cascade.switching.steps.waits import WaitTick
from londiste.db.names import argument, word
from londiste.errors import NodeUnreachable, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step


@dataclass(frozen=True)
class Survivors:
    """The nodes that are left below a failed node.

    best -- the branch with the newest tick.
    ahead -- nodes ahead of it that cannot forward their events to the others.
    """

    best: NodeInfo
    ahead: tuple[NodeInfo, ...]


def survivors(
    live: Sequence[NodeInfo], lost: str, partial: frozenset[str] = frozenset()
) -> Survivors:
    """Pure: the most advanced of the nodes that answer.  Raises StateError when no branch is left.

    partial -- branches that forward other rows or values than the successor needs.
    """
    branches = [
        n for n in live if n.type is NodeType.BRANCH and n.name not in partial and n.name != lost
    ]
    if not branches:
        raise StateError(
            "no branch is left that can take over",
            detail="a leaf keeps no queue for other nodes",
            hint="create a new root, in a database with the tables: londiste create-root NAME;"
            " then, for the others: londiste create-leaf NAME --provider DSN, and londiste"
            " add-table TABLE --expect-sync",
        )
    best = max(branches, key=lambda n: (n.last_tick, n.name))
    ahead = tuple(
        n
        for n in live
        if (n.type is NodeType.LEAF or n.name in partial) and n.last_tick > best.last_tick
    )
    return Survivors(best, ahead)


def was_root(sites: Connections, scene: ClusterState, lost: str) -> bool:
    """Whether a silent node was the root: none is left, or another one replaced it."""
    if not scene.topology.roots:
        return True
    if any(
        o.node == lost
        and o.kind
        not in (OperationKind.CHANGE_PROVIDER, OperationKind.MOVE_CONSUMER, OperationKind.DROP_NODE)
        for o in scene.operations.values()
    ):
        return True
    return bool(keepers(sites, scene, lost))


def keepers(sites: Connections, scene: ClusterState, lost: str) -> list[str]:
    """The nodes that keep events for a failed root, or for a branch that was the root then.

    While one of them does, the failed root can rejoin, even if the root has changed again.
    """
    worker = GRAVESTONE.format(lost)
    return [
        info.name
        for info in scene.live()
        if info.type is not NodeType.LEAF
        and any(
            s.worker == worker
            for s in nodes.get_subscriber_info(sites.at(scene.place(info.name).dsn), scene.queue)
        )
    ]


def refuse_kept(sites: Connections, scene: ClusterState, lost: str, detail: str) -> None:
    """Raises StateError while a node keeps events for a failed root."""
    if kept := keepers(sites, scene, lost):
        raise StateError(
            f"node {lost} was the root, and {', '.join(kept)} keeps events for it",
            detail=detail,
            hint=f"londiste resurrect --node {word(lost)} makes it a branch; or, if it will not"
            f" return: londiste drop-node {word(lost)}",
        )


def surely_root(sites: Connections, scene: ClusterState, lost: str) -> bool:
    """``was_root``, detected.  Raises NodeUnreachable when another silent node may be the root.

    Otherwise a branch could be replaced by a second root, while the real root only did not answer.
    """
    if not was_root(sites, scene, lost):
        return False
    begun = any(
        o.node == lost and o.kind is OperationKind.TAKEOVER for o in scene.operations.values()
    )
    others = _silent_others(scene, lost)
    if others and not scene.topology.roots and not begun:
        names = " and ".join(others)
        raise NodeUnreachable(
            f"queue {scene.queue}: no root answers, and it may be {lost} or {names}, which"
            f" {'does' if len(others) == 1 else 'do'} not answer either",
            detail="if another node is the root, there would be two roots when it returns",
            hint=f"start the server of {names}; or give the type of {lost}: --dead-root or"
            f" --dead-branch instead of --failover; or, if failed as well: londiste tag-dead"
            f" {' '.join(map(word, others))}",
        )
    return True


def refuse_unsure(scene: ClusterState, lost: str) -> None:
    """Raises NodeUnreachable when a silent node may have replaced a failed root."""
    if silent := _silent_others(scene, lost):
        names = " and ".join(silent)
        raise NodeUnreachable(
            f"{names} {'does' if len(silent) == 1 else 'do'} not answer, and may have replaced"
            f" {lost} since",
            detail=f"then {lost} would take writes beside the new root",
            hint=f"start the server of {names}; or, if failed as well: londiste tag-dead"
            f" {' '.join(argument(n) for n in silent)}",
        )


def _silent_others(scene: ClusterState, lost: str) -> list[str]:
    """The nodes besides ``lost`` that do not answer and are not marked as failed."""
    return sorted(n for n in scene.topology.views if n != lost and scene.is_silent(n))


def refuse_live(scene: ClusterState, lost: str, new: str) -> None:
    """Raises StateError for a node that answers, unless ``new`` has replaced it already.

    The hint names the command that finishes an interrupted takeover.
    """
    noted = scene.operations.get(new)
    begun = noted is not None and (noted.kind, noted.node) == (OperationKind.TAKEOVER, lost)
    if begun and new in scene.topology.roots:
        # Behind the promotion there is only forward.
        return
    left = {at: o for at, o in scene.operations.items() if lost in (o.node, o.from_node)}
    ways = [o.way_out(at) for at, o in left.items()]
    if begun and noted is not None:
        ways = [f"undo it: {noted.command()} --rollback; or stop the server of {lost} for good"]
    elif scene.topology.views[lost].member.dead:
        ways.append(f"londiste tag-alive {word(lost)}")
    raise StateError(
        f"node {lost} answers and has not failed",
        detail="; ".join(f"node {at}: {o.describe()} is under way" for at, o in left.items()),
        hint="; ".join(ways)
        or "repeat the takeover without --failover; or stop its server for good first",
    )


def rollback(sites: Connections, scene: ClusterState, lost: str, new: str) -> list[Step] | None:
    """The steps that undo the failover of a root that was started at ``new``; None: there is none.

    If another node has replaced the failed root since, that stays marked as failed.

    Raises StateError when ``new`` is the root already, NodeUnreachable when a silent node may have
    replaced the failed root.
    """
    noted = scene.operations.get(new)
    if noted is None or (noted.kind, noted.node) != (OperationKind.TAKEOVER, lost):
        return None
    target, here, queue = scene.info(new), scene.place(new), scene.queue
    if target.type is NodeType.ROOT:
        raise StateError(
            f"node {new} is the root already, the takeover cannot be undone",
            hint=f"finish it: {noted.command()}; then, when {lost} answers: londiste resurrect"
            f" --node {word(lost)}",
        )
    replaced = set(scene.topology.roots) - {lost} or keepers(sites, scene, lost)
    if not replaced:
        refuse_unsure(scene, lost)
    unmarked = [] if replaced else scene.live()
    return [
        *(TagDead(scene.place(n.name), queue, lost, dead=False) for n in unmarked),
        SetPaused(here, queue, target.worker, False, 0.0),
        # Last, as long as it is there the command can be given again.
        Cancel(here, queue, Ticket(noted.token)),
    ]


def takeover_root(
    sites: Connections,
    scene: ClusterState,
    lost: str,
    new: str,
    *,
    accept_loss: bool,
    timeout: float,
    warn: Warn,
    partial: frozenset[str] = frozenset(),
    prepare: Callable[[NodeAddress], Sequence[Step]] = lambda new: (),
) -> list[Step]:
    """The steps that make ``new`` the root in place of ``lost``, which does not answer.

    accept_loss -- proceed if a leaf has ticks that no branch has; it must be copied again.
    partial -- branches that forward other rows or values than ``new`` needs.
    prepare -- further steps at the new root, before the promotion.
    timeout -- seconds for each wait.

    Raises UnknownNode, NodeUnreachable, StateError, NodeBusy.
    """
    queue, target, here = scene.queue, scene.info(new), scene.place(new)
    scene.place(lost)
    refuse_leaf(target, "it cannot become the root")
    noted, stale = scene.operations.get(new), without_end(scene, new)
    if stale is not None:
        noted = None
    if noted is not None and noted.node != lost:
        raise noted.busy(new)
    kind = noted.kind if noted is not None else OperationKind.TAKEOVER
    ticket = Ticket(noted.token if noted is not None else None)
    live = [n for n in scene.live() if n.name != lost]
    from_node = noted.from_node if noted is not None and noted.from_node else target.provider
    read_from = {from_node, target.provider}
    steps: list[Step] = []
    others = change_provider.followers(scene, lost, new)
    if noted is not None and noted.last_tick is not None:
        # Interrupted after the promotion.  The new root may have passed a node that was ahead of it
        # then, but that node's ticks of the same numbers are others: exclude it.
        # A node that reads from the new root already has its ticks from there.
        others = [n for n in others if n.last_tick <= noted.last_tick or n.provider == new]
    if target.type is not NodeType.ROOT:
        _refuse_second(scene, lost, new)
        for at, begun in scene.operations.items():
            if at != new and (begun.kind, begun.node) == (OperationKind.TAKEOVER, lost):
                raise begun.busy(at, "both would become the root")
        left = survivors(live, lost, partial - {new})
        if left.ahead and not accept_loss:
            worst = max(left.ahead, key=lambda n: n.last_tick)
            kind_of = worst.type.value
            raise StateError(
                f"{kind_of} {worst.name} is at tick {worst.last_tick}, no branch has passed tick"
                f" {left.best.last_tick}",
                detail=f"the {kind_of} cannot forward its later events, because it "
                + (
                    "keeps no queue"
                    if worst.type is NodeType.LEAF
                    else "replicates only part of its tables"
                ),
                hint=f"--allow-data-loss proceeds without it; then create the {kind_of} again:"
                f" londiste drop-node, create-{kind_of}",
            )
        replaces = None if stale is None else stale.token
        steps.append(Begin(here, queue, kind, lost, new, ticket, from_node, False, replaces))
        steps += [TagDead(scene.place(n.name), queue, lost) for n in live]
        steps += _fetch(sites, scene, target, left.best, timeout=timeout, warn=warn)
        read_from.add(left.best.name)
        steps += [
            SetPaused(here, queue, target.worker, True, timeout),
            *prepare(here),
            Promote(here, queue, ticket, _tick_of(sites, here, queue)),
        ]
        too_far = {n.name for n in left.ahead}
        others = [n for n in others if n.name not in too_far]
    kept = keepers(sites, scene, lost)
    if noted is not None or target.type is not NodeType.ROOT or not kept or new in kept:
        # Otherwise another node replaced it, and was replaced by this one since.
        steps.append(Gravestone(here, queue, lost, ticket))
    steps += [
        SetPaused(here, queue, target.worker, False, 0.0),
    ]
    steps += [
        Unsubscribe(scene.place(n.name), queue, new, warn)
        for n in live
        if n.name != new
        and n.type is not NodeType.LEAF
        # After the promotion it is unknown whose ticks it had to fetch.
        and (n.name in read_from or target.type is NodeType.ROOT)
    ]
    for other in others:
        # The new root may still read from one that was ahead of it, until it is promoted.
        steps += change_provider.change_provider(
            sites, scene, other.name, new, timeout=timeout, warn=warn, ignoring=target.provider
        )
    steps += move_consumer.orphaned(sites, scene, lost, new, warn=warn)
    return [*steps, End(here, queue, ticket)]


def _refuse_second(scene: ClusterState, lost: str, new: str) -> None:
    """Raises StateError when another node takes writes already: there would be two roots."""
    for other in scene.topology.roots:
        noted = scene.operations.get(other)
        closed = (
            noted is not None and noted.kind is OperationKind.SWITCHOVER and noted.node == other
        )
        if other not in (lost, new) and not (closed and noted and noted.last_tick is not None):
            raise StateError(
                f"node {other} is the root, {new} cannot replace {lost} as well",
                hint=f"londiste takeover {word(lost)} --node {word(other)} --failover finishes that"
                f" failover; afterwards londiste switchover --to {word(new)} makes {new} the root",
            )


def takeover_branch(
    sites: Connections,
    scene: ClusterState,
    lost: str,
    new: str,
    *,
    timeout: float,
    warn: Warn,
    guard: change_provider.Guard = change_provider.nothing,
) -> list[Step]:
    """The steps that make ``new`` replace a branch or leaf that does not answer.

    ``new`` takes over the provider and the subscribers of the failed node.
    """
    queue, target = scene.queue, scene.info(new)
    scene.place(lost)
    refuse_kept(sites, scene, lost, "they would be dropped, and it could not rejoin")
    children = change_provider.followers(scene, lost, new)
    if children:
        refuse_leaf(target, "it cannot take over the subscribers")
    above = _provider_of(sites, scene, lost)
    steps: list[Step] = [TagDead(scene.place(n.name), queue, lost) for n in scene.listening()]
    noted = scene.operations.get(new)
    if target.provider == lost or (noted is not None and noted.from_node == lost):
        steps += change_provider.change_provider(
            sites, scene, new, above.name, timeout=timeout, warn=warn, guard=guard
        )
    for child in children:
        steps += change_provider.change_provider(
            sites, scene, child.name, new, timeout=timeout, warn=warn, guard=guard
        )
    steps += move_consumer.orphaned(sites, scene, lost, new if children else above.name, warn=warn)
    steps.append(Unsubscribe(scene.place(above.name), queue, lost, warn))
    return steps


@dataclass(frozen=True)
class Gravestone(AtNode):
    """Keeps the events of the new root from its first tick on, for a root that may rejoin."""

    lost: str
    ticket: Ticket

    def describe(self) -> str:
        return f"{self.at.name}: keep events for {self.lost}, to rejoin it later"

    def done(self, sites: Connections) -> bool:
        worker = GRAVESTONE.format(self.lost)
        subscribers = nodes.get_subscriber_info(sites.at(self.at.dsn), self.queue)
        return any(s.name == self.lost and s.worker == worker for s in subscribers)

    def run(self, sites: Connections) -> None:
        conn = sites.at(self.at.dsn)
        found = operation_log.find(conn, self.queue)
        tick = found.last_tick if found is not None else None
        with sites.transaction(self.at.dsn) as conn:
            nodes.register_subscriber(
                conn, self.queue, self.lost, GRAVESTONE.format(self.lost), tick
            )


def _fetch(
    sites: Connections,
    scene: ClusterState,
    target: NodeInfo,
    best: NodeInfo,
    *,
    timeout: float,
    warn: Warn,
) -> list[Step]:
    """The steps that fetch the ticks which only ``best`` has."""
    if best.name == target.name or best.last_tick <= target.last_tick:
        return []
    steps: list[Step] = []
    if best.name not in scene.providers(target.name):
        steps += change_provider.read_from(
            sites, scene, target.name, best.name, timeout=timeout, warn=warn
        )
    here = scene.place(target.name)
    return [
        *steps,
        # Interrupted after the change of its provider: it is still paused.
        SetPaused(here, scene.queue, target.worker, False, timeout),
        WaitTick(here, scene.queue, lambda: best.last_tick, timeout, f"all ticks of {best.name}"),
    ]


def _tick_of(sites: Connections, place: NodeAddress, queue: str) -> Callable[[], int]:
    return lambda: nodes.get_node_info(sites.at(place.dsn), queue).last_tick


def _provider_of(sites: Connections, scene: ClusterState, lost: str) -> NodeInfo:
    """The live node above ``lost``."""
    for info in scene.live():
        if info.type is NodeType.LEAF:
            continue
        conn = sites.at(scene.place(info.name).dsn)
        if any(s.name == lost for s in nodes.get_subscriber_info(conn, scene.queue)):
            return info
    return scene.root()
