"""``change-provider``: switch a node to another provider.

    register both locations at the other node       it may not know them yet
    record the change at the node                   so that repeating the command finishes it
    pause its worker, wait for the answer           so that its tick does not move
    register it on the new provider, at its tick    which waits until the provider has the tick
    tables with another row filter there are marked for a new copy
    switch the node to the new provider
    resume its worker
    unregister it on the old provider               or, if that does not answer: a warning
    done

Ticks have the same ids and events on all nodes, so the worker continues at the same tick.
A provider that refuses the node is asked before the first step, as far as that is known; what it
refuses later undoes the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias
from uuid import UUID

from londiste.cascade import create_hint, original
from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.create_node import RegisterLocation
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.own_consumers import GRAVESTONE
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.cluster_state import (
    ClusterState,
    Warn,
    refuse_astray,
    refuse_leaf,
    refuse_replaced,
    without_end,
)
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cascade.switching.steps.notes import Begin, End, Ticket
from londiste.cascade.switching.steps.readers import (
    ChangeProvider,
    SetPaused,
    Subscribe,
    Unsubscribe,
    UnsubscribeMoved,
)
from londiste.db.names import argument, word
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.pgq import position_check, queues

#: Steps that other layers add before a node changes its provider, while its worker is paused:
#: (node, old provider, new provider) -> steps.  Raises StateError when it must not.
Guard: TypeAlias = Callable[[str, str, str], Sequence[Step]]


def nothing(node: str, old: str, new: str) -> Sequence[Step]:
    """The guard that allows every change."""
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
    """The steps that switch node ``name`` to provider ``new``; none when nothing is left to do.

    They include what an earlier change has left: a subscription on a node that did not answer then,
    a subscription that ``new`` has dropped because ``name`` was marked as failed, and subscriptions
    on ``name`` of nodes that were moved to another provider meanwhile.

    timeout -- seconds for each wait.
    guard -- checks and further steps of other layers.
    ignoring -- ``new`` reads from this node until these steps are done.
    Raises UnknownNode, NodeUnreachable, StateError, NodeBusy.
    """
    info = scene.info(name)
    noted = scene.operations.get(name)
    stale = without_end(scene, name, new)
    if stale is not None:
        noted = None
    if noted is not None and (noted.kind, noted.node, noted.new) != (
        OperationKind.CHANGE_PROVIDER,
        name,
        new,
    ):
        raise noted.busy(name)
    if noted is None and info.provider == new and info.type is not NodeType.ROOT:
        # Whether something is left to do there is not known of a provider that does not answer.
        scene.info(new)
        return [
            *_again(sites, scene, info, timeout),
            *left_over(sites, scene, {name}, new, warn),
            *_moved_away(sites, scene, info, warn),
        ]
    _check(scene, info, new, ignoring)
    old = noted.from_node if noted is not None and noted.from_node else info.provider
    begun = noted or stale
    if begun is not None and begun.kind is OperationKind.CHANGE_PROVIDER:
        resume = begun.resume
    else:
        resume = not info.paused
    ticket = Ticket(noted.token if noted is not None else None)
    again = guard(name, info.provider, new) if info.provider != new else ()
    steps = _steps(
        sites,
        scene,
        info,
        old,
        new,
        resume,
        ticket,
        again,
        replaces=stale.token if stale is not None else None,
        timeout=timeout,
        warn=warn,
    )
    undo = "" if noted is None else _undo(name, new)
    operation_log.require_notes(sites.at(scene.place(name).dsn), name)
    for step in steps:
        # Before anything is recorded or paused.
        if isinstance(step, Subscribe):
            step.refuse_other_history(sites, undo)
            step.refuse_taken(sites, undo)
    return [*steps, *_moved_away(sites, scene, info, warn)]


def _undo(name: str, new: str) -> str:
    """The command that undoes a change of provider that has begun."""
    return f"londiste change-provider --node {argument(name)} --provider {argument(new)} --rollback"


def rollback(
    sites: Connections,
    scene: ClusterState,
    name: str,
    *,
    timeout: float,
    warn: Warn,
    guard: Guard = nothing,
) -> list[Step]:
    """The steps that undo an unfinished change of provider.

    Raises StateError when none is under way.
    """
    info = scene.info(name)
    noted = scene.operations.get(name)
    if noted is None or noted.kind is not OperationKind.CHANGE_PROVIDER or noted.from_node is None:
        raise StateError(
            f"node {name}: no change of provider is under way",
            hint="londiste node-info shows its provider",
        )
    ticket = Ticket(noted.token)
    place = scene.place(name)
    steps: list[Step] = []
    if info.provider != noted.from_node:
        steps += [
            SetPaused(place, scene.queue, info.worker, True, timeout),
            *guard(name, info.provider, noted.from_node),
            known_at(scene, noted.from_node, name),
            _subscribe(sites, scene, info, noted.from_node, timeout),
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
    """The steps that register a node again that was marked as failed; none when it is registered.

    One whose worker was unregistered by hand is still listed, and is registered again, too.
    The node continues at its tick, if the provider still has that.
    """
    place, provider = scene.place(info.name), info.provider
    if not scene.answers(provider) or scene.info(provider).type is NodeType.LEAF:
        return []
    conn = sites.at(scene.place(provider).dsn)
    known = any(
        s.name == info.name and queues.get_consumer_info(conn, scene.queue, s.worker)
        for s in nodes.get_subscriber_info(conn, scene.queue)
    )
    # The provider may have been renamed.
    called = nodes.get_worker_state(sites.at(place.dsn), scene.queue).provider
    if known and called == provider:
        return []
    return [
        *_locations(scene, info.name, provider),
        _subscribe(sites, scene, info, provider, timeout),
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
    """The steps that unregister ``names`` on nodes that were offline when these changed provider.

    ours -- nodes at which the recorded change is the command's own.
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


def _moved_away(sites: Connections, scene: ClusterState, info: NodeInfo, warn: Warn) -> list[Step]:
    """The steps that unregister subscribers of a node that were moved while it was offline.

    It would keep events for them, and with it all nodes of the cascade.
    """
    if info.type is NodeType.LEAF:
        return []
    here = scene.place(info.name)
    return [
        UnsubscribeMoved(here, scene.queue, found.name, warn, scene.place(found.name))
        for found in nodes.get_subscriber_info(sites.at(here.dsn), scene.queue)
        if found.worker != GRAVESTONE.format(found.name)
        and scene.answers(found.name)
        and scene.info(found.name).provider != info.name
        and found.name not in scene.operations
    ]


def moved(scene: ClusterState, new: str) -> set[str]:
    """The nodes that read from ``new`` and have no unfinished change."""
    return {
        info.name
        for info in scene.live()
        if info.provider == new and info.name != new and info.name not in scene.operations
    }


def _check(scene: ClusterState, info: NodeInfo, new: str, ignoring: str | None = None) -> None:
    if info.type is NodeType.ROOT:
        raise StateError(
            f"node {info.name} is the root and has no provider",
            hint=f"to make {new} the root: londiste switchover --to {word(new)}",
        )
    if info.name == new:
        raise StateError(
            f"node {new} cannot read from itself", hint="name another node with --provider"
        )
    provider = scene.info(new)
    refuse_leaf(provider, "it cannot be a provider")
    refuse_astray(scene, new)
    begun = scene.operations.get(info.name)
    undo = f"; or undo the unfinished change: {begun.command()} --rollback" if begun else ""
    refuse_replaced(scene, new, "events that it has taken since then are on no other node", undo)
    above = scene.providers(new)
    if ignoring in above:
        above = []
    if info.name in above:
        raise StateError(
            f"node {new} reads from {info.name}, directly or through others",
            detail="each would wait for the other one",
            hint=f"first give {new} another provider: londiste change-provider --node {word(new)}"
            f" --provider NODE{undo}",
        )
    for at, drop in scene.operations.items():
        if drop.kind is OperationKind.DROP_NODE and drop.node == new:
            raise drop.busy(at, f"node {new} cannot be a provider any more")
    for node in (new, *above):
        noted = scene.operations.get(node)
        if (
            noted is not None
            and (noted.kind, noted.node) == (OperationKind.CHANGE_PROVIDER, node)
            and info.name in (noted.new, *scene.providers(noted.new))
        ):
            raise noted.busy(node, f"then {node} would read from {info.name}, and both would wait")


def followers(scene: ClusterState, old: str, new: str) -> list[NodeInfo]:
    """The nodes that read from ``old``, or that are being switched from it to ``new``.

    Nodes of the second kind are paused until a command finishes the change.
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
    """The same without a record, for a node at which another change is recorded."""
    info = scene.info(name)
    if info.provider == new:
        return []
    _check(scene, info, new)
    return [
        *_locations(scene, name, new),
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
    replaces: UUID | None,
    timeout: float,
    warn: Warn,
) -> list[Step]:
    place, queue = scene.place(info.name), scene.queue
    steps: list[Step] = []
    going_on = [SetPaused(place, queue, info.worker, False, timeout)] if resume else []

    def undoing() -> Sequence[Step]:
        # An earlier command may have paused the worker, and have done more since.
        return [*going_on, End(place, queue, ticket)] if ticket.mine else ()

    if info.provider != new:
        kind = OperationKind.CHANGE_PROVIDER
        steps += [
            *_locations(scene, info.name, new),
            Begin(place, queue, kind, info.name, new, ticket, old, resume, replaces),
            *_move(sites, scene, info, new, again, timeout, _undo(info.name, new), undoing),
        ]
    steps += going_on
    return [*steps, *_leave(scene, old, info.name, warn), End(place, queue, ticket)]


def _move(
    sites: Connections,
    scene: ClusterState,
    info: NodeInfo,
    new: str,
    again: Sequence[Step],
    timeout: float,
    undo: str = "",
    undoing: Callable[[], Sequence[Step]] = tuple,
) -> list[Step]:
    place, queue = scene.place(info.name), scene.queue
    original.require_adopted(sites.at(scene.place(new).dsn), new)
    return [
        SetPaused(place, queue, info.worker, True, timeout),
        *again,
        _subscribe(sites, scene, info, new, timeout, undo, undoing),
        ChangeProvider(place, queue, info.worker, new),
    ]


def _locations(scene: ClusterState, name: str, new: str) -> list[Step]:
    """Registers the locations of a node and of its new provider at each other."""
    return [known_at(scene, name, new), known_at(scene, new, name)]


def known_at(scene: ClusterState, name: str, other: str) -> Step:
    """Registers the location of node ``other`` on node ``name``.

    Locations come through the queue, and a paused worker does not read it.
    """
    place, location = scene.place(name), scene.topology.views[other].member.location
    return RegisterLocation(place.name, place.dsn, scene.queue, other, location)


def _leave(scene: ClusterState, old: str, name: str, warn: Warn) -> list[Step]:
    """Unregisters the node on the old provider, unless that is marked as failed."""
    view = scene.topology.views.get(old)
    if view is None or (view.member.dead and view.info is None):
        return []
    return [Unsubscribe(scene.place(old), scene.queue, name, warn)]


def _subscribe(
    sites: Connections,
    scene: ClusterState,
    info: NodeInfo,
    provider: str,
    timeout: float,
    undo: str = "",
    undoing: Callable[[], Sequence[Step]] = tuple,
) -> Subscribe:
    place, queue = scene.place(info.name), scene.queue
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

    return Subscribe(
        scene.place(provider),
        queue,
        info.name,
        info.worker,
        tick,
        timeout,
        create_hint.again(
            info.type,
            info.name,
            location,
            provider=scene.topology.views[provider].member.location,
            merge=info.combined_queue,
        ),
        lambda: position_check.recall(sites.at(place.dsn), queue, info.worker),
        undo,
        undoing,
    )
