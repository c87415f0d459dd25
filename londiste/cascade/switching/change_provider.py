"""A node that reads from another provider.

    note the change at the node                     so that the command finishes what it began
    tell it where the new provider lives            it may not have read of that yet
    pause its worker, wait until it stands still    so that its tick does not move
    register it on the new provider, at its tick    which waits until the provider has the tick
    tables of which something else comes from there are to be copied again
    the node reads from there
    resume its worker
    the old provider forgets it                     or, if that is gone: a warning
    done

Ticks have the same ids and the same events on all nodes, so the worker goes on where it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from londiste.cascade import original
from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.create_node import RegisterLocation
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.switching.cluster_state import (
    ClusterState,
    Warn,
    refuse_leaf,
    refuse_replaced,
)
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cascade.switching.steps.notes import Begin, End, Ticket
from londiste.cascade.switching.steps.readers import (
    ChangeProvider,
    SetPaused,
    Subscribe,
    Unsubscribe,
)
from londiste.errors import NodeBusy, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.pgq import queues

#: Steps that other layers add before a node reads from elsewhere, while its worker stands still:
#: (node, old provider, new provider) -> steps.  Raises StateError when it must not.
Guard: TypeAlias = Callable[[str, str, str], Sequence[Step]]


def nothing(node: str, old: str, new: str) -> Sequence[Step]:
    """The guard that has nothing against any move."""
    return ()


def change_provider(
    sites: Connections,
    scene: ClusterState,
    name: str,
    new: str,
    *,
    timeout: float,
    warn: Warn,
    ignoring: str | None = None,
    guard: Guard = nothing,
) -> list[Step]:
    """The steps that let node ``name`` read from ``new``; none when it does, and nothing is open.

    Open is also what a node keeps for ``name`` that did not answer at an earlier change, and that
    ``new`` has forgotten ``name``, which was given up and is back.

    timeout -- seconds for each wait.
    guard -- what other layers have to do about it, or have against it.
    ignoring -- ``new`` reads from this node now, and will not when these steps are done.
    Raises UnknownNode, NodeUnreachable, StateError, NodeBusy.
    """
    info = scene.info(name)
    noted = scene.operations.get(name)
    if noted is not None and (noted.kind, noted.node, noted.new) != (
        OperationKind.CHANGE_PROVIDER,
        name,
        new,
    ):
        raise NodeBusy(
            f"node {name}: {noted.describe()} is under way",
            hint=noted.way_out(name),
        )
    if noted is None and info.provider == new and info.type is not NodeType.ROOT:
        return [
            *_again(sites, scene, info, timeout),
            *left_over(sites, scene, {name}, new, warn),
        ]
    _check(scene, info, new, ignoring)
    old = noted.from_node if noted is not None and noted.from_node else info.provider
    resume = noted.resume if noted is not None else not info.paused
    ticket = Ticket(noted.token if noted is not None else None)
    again = guard(name, info.provider, new) if info.provider != new else ()
    return _steps(sites, scene, info, old, new, resume, ticket, again, timeout=timeout, warn=warn)


def rollback(
    sites: Connections,
    scene: ClusterState,
    name: str,
    *,
    timeout: float,
    warn: Warn,
    guard: Guard = nothing,
) -> list[Step]:
    """The steps that undo a change of provider which was begun and not finished.

    Raises StateError when none is under way; what has happened already is moved back.
    """
    info = scene.info(name)
    noted = scene.operations.get(name)
    if noted is None or noted.kind is not OperationKind.CHANGE_PROVIDER or noted.from_node is None:
        raise StateError(
            f"no change of provider is under way at node {name}",
            hint="londiste node-info shows its provider",
        )
    ticket = Ticket(noted.token)
    place = scene.place(name)
    steps: list[Step] = []
    if info.provider != noted.from_node:
        steps += [
            SetPaused(place, scene.queue, info.worker, True, timeout),
            *guard(name, info.provider, noted.from_node),
            *_subscription(sites, scene, info, noted.from_node, timeout),
            ChangeProvider(place, scene.queue, info.worker, noted.from_node),
        ]
    if noted.resume:
        steps.append(SetPaused(place, scene.queue, info.worker, False, timeout))
    return [
        *steps,
        Unsubscribe(scene.place(noted.new), scene.queue, name, warn),
        End(place, scene.queue, ticket),
    ]


def _again(sites: Connections, scene: ClusterState, info: NodeInfo, timeout: float) -> list[Step]:
    """A node that was taken for lost is known to its provider again; none when it always was.

    It goes on where it stands, if the provider still has that tick.
    """
    place, provider = scene.place(info.name), info.provider
    if not scene.answers(provider) or scene.info(provider).type is NodeType.LEAF:
        return []
    conn = sites.at(scene.place(provider).dsn)
    known = any(s.name == info.name for s in nodes.get_subscriber_info(conn, scene.queue))
    # The provider may have got another name meanwhile.
    called = nodes.get_worker_state(sites.at(place.dsn), scene.queue).provider
    if known and called == provider:
        return []
    return [
        known_at(scene, info.name, provider),
        *_subscription(sites, scene, info, provider, timeout),
        ChangeProvider(place, scene.queue, info.worker, provider),
    ]


def left_over(
    sites: Connections,
    scene: ClusterState,
    names: Collection[str],
    provider: str,
    warn: Warn,
    *,
    ours: Collection[str] = (),
) -> list[Step]:
    """Nodes that did not answer when ``names`` went from them to ``provider`` may forget these.

    ours -- nodes that are asked although a change is noted there: it is the command's own.
    """
    if not names:
        return []
    return [
        Unsubscribe(scene.place(other.name), scene.queue, found.name, warn)
        for other in scene.live()
        if other.name != provider
        and other.type is not NodeType.LEAF
        and (other.name in ours or other.name not in scene.operations)
        for found in nodes.get_subscriber_info(sites.at(scene.place(other.name).dsn), scene.queue)
        if found.name in names and found.name != other.name
    ]


def moved(scene: ClusterState, new: str) -> set[str]:
    """The nodes that read from ``new``, and at which nothing is left to be done for that."""
    return {
        info.name
        for info in scene.live()
        if info.provider == new and info.name != new and info.name not in scene.operations
    }


def _check(scene: ClusterState, info: NodeInfo, new: str, ignoring: str | None = None) -> None:
    if info.type is NodeType.ROOT:
        raise StateError(
            f"node {info.name} is the root, it has no provider",
            hint=f"to make {new} the root: londiste switchover --to {new}",
        )
    if info.name == new:
        raise StateError(
            f"node {new} cannot read from itself", hint="give another node to --provider"
        )
    provider = scene.info(new)
    refuse_leaf(provider, "nobody can read from it")
    begun = scene.operations.get(info.name)
    undo = f"; or undo what is under way: {begun.command()} --rollback" if begun else ""
    refuse_replaced(scene, new, "what it has taken since is on no other node", undo)
    above = scene.providers(new)
    if ignoring in above:
        above = []
    if info.name in above:
        raise StateError(
            f"node {new} reads from {info.name}, directly or through others",
            detail="both would wait for each other",
            hint=f"first give {new} another provider: londiste change-provider --node {new}"
            f" --provider NODE{undo}",
        )
    for at, drop in scene.operations.items():
        if drop.kind is OperationKind.DROP_NODE and drop.node == new:
            raise NodeBusy(
                f"node {at}: {drop.describe()} is under way",
                detail=f"nobody is to read from {new} any more",
                hint=drop.way_out(at),
            )
    for node in (new, *above):
        noted = scene.operations.get(node)
        if (
            noted is not None
            and (noted.kind, noted.node) == (OperationKind.CHANGE_PROVIDER, node)
            and info.name in (noted.new, *scene.providers(noted.new))
        ):
            raise NodeBusy(
                f"node {node}: {noted.describe()} is under way",
                detail=f"finished, it would read from {info.name}, and both wait for each other",
                hint=noted.way_out(node),
            )


def followers(scene: ClusterState, old: str, new: str) -> list[NodeInfo]:
    """The nodes that read from ``old``, or are on their way from it to ``new``.

    Who is on his way stands still until a command finishes that.
    """
    found = []
    for info in scene.live():
        noted = scene.operations.get(info.name)
        moves = noted is not None and (noted.kind, noted.new, noted.from_node) == (
            OperationKind.CHANGE_PROVIDER,
            new,
            old,
        )
        if info.name not in (old, new) and (info.provider == old or moves):
            found.append(info)
    return found


def read_from(
    sites: Connections, scene: ClusterState, name: str, new: str, *, timeout: float, warn: Warn
) -> list[Step]:
    """The same without a note, for a node at which another change is noted."""
    info = scene.info(name)
    if info.provider == new:
        return []
    _check(scene, info, new)
    return [
        *_move(sites, scene, info, new, (), timeout),
        SetPaused(scene.place(name), scene.queue, info.worker, False, timeout),
        *_leave(scene, info.provider, name, warn),
    ]


def _steps(
    sites: Connections,
    scene: ClusterState,
    info: NodeInfo,
    old: str,
    new: str,
    resume: bool,
    ticket: Ticket,
    again: Sequence[Step],
    *,
    timeout: float,
    warn: Warn,
) -> list[Step]:
    place, queue = scene.place(info.name), scene.queue
    steps: list[Step] = []
    if info.provider != new:
        kind = OperationKind.CHANGE_PROVIDER
        steps += [
            Begin(place, queue, kind, info.name, new, ticket, from_node=old, resume=resume),
            *_move(sites, scene, info, new, again, timeout),
        ]
    if resume:
        steps.append(SetPaused(place, queue, info.worker, False, timeout))
    return [*steps, *_leave(scene, old, info.name, warn), End(place, queue, ticket)]


def _move(
    sites: Connections,
    scene: ClusterState,
    info: NodeInfo,
    new: str,
    again: Sequence[Step],
    timeout: float,
) -> list[Step]:
    place, queue = scene.place(info.name), scene.queue
    original.require_adopted(sites.at(scene.place(new).dsn), new)
    return [
        known_at(scene, info.name, new),
        SetPaused(place, queue, info.worker, True, timeout),
        *again,
        *_subscription(sites, scene, info, new, timeout),
        ChangeProvider(place, queue, info.worker, new),
    ]


def known_at(scene: ClusterState, name: str, provider: str) -> Step:
    """Node ``name`` hears where ``provider`` lives.

    The news of a new node comes through the queue, and a worker that stands still does not read it.
    """
    place, location = scene.place(name), scene.topology.views[provider].member.location
    return RegisterLocation(place.name, place.dsn, scene.queue, provider, location)


def _leave(scene: ClusterState, old: str, name: str, warn: Warn) -> list[Step]:
    """The old provider forgets the node; nobody asks one that is given up."""
    view = scene.topology.views.get(old)
    if view is None or (view.member.dead and view.info is None):
        return []
    return [Unsubscribe(scene.place(old), scene.queue, name, warn)]


def _subscription(
    sites: Connections, scene: ClusterState, info: NodeInfo, provider: str, timeout: float
) -> list[Step]:
    place, queue = scene.place(info.name), scene.queue
    target = scene.place(provider)
    location = scene.topology.views[info.name].member.location

    def tick() -> int:
        now = nodes.get_node_info(sites.at(place.dsn), queue)
        if now.combined_type is not NodeType.BRANCH or not scene.answers(info.provider):
            return now.last_tick
        # Its rows came through the combined queue; messages it has followed up to where its
        # provider knows it to be.
        consumers = queues.get_consumer_info(
            sites.at(scene.place(info.provider).dsn), queue, info.worker
        )
        return min([now.last_tick, *(c.last_tick for c in consumers if c.last_tick is not None)])

    return [
        RegisterLocation(target.name, target.dsn, queue, info.name, location),
        Subscribe(target, queue, info.name, info.worker, tick, timeout),
    ]
