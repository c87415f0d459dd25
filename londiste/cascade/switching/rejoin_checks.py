"""Checks before a failed root rejoins: the last common tick, its provider and subscribers.

Since the failover the new root keeps its queue from its first tick on (the consumer
``<node>.gravestone``).  That tick is the last one that both have: up to it the old root equals the
others, after it are events that only the old root has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade import create_hint
from londiste.cascade import sqlapi as nodes
from londiste.cascade.fencing import combined_anew
from londiste.cascade.model import Member, NodeInfo, NodeType
from londiste.cascade.own_consumers import GRAVESTONE
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.cascade.switching.steps.notes import AtNode
from londiste.cascade.switching.steps.readers import refuse_taken_name
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import argument, word
from londiste.db.queries import first
from londiste.errors import NodeBusy, NodeUnreachable, StateError
from londiste.orchestration.connections import Connections
from londiste.pgq import queues


@dataclass(frozen=True)
class Returned:
    """The old root and the point at which it rejoins.

    provider -- the node that keeps events for it and will be its provider.
    tick -- the last one that both have.
    subscribers -- nodes that still read from it.
    noted -- the rejoin is under way.
    """

    node: NodeInfo
    provider: NodeInfo
    tick: int
    subscribers: tuple[str, ...]
    noted: Operation | None

    @property
    def back(self) -> bool:
        """It is a branch already; only the other nodes have to be updated."""
        return self.node.type is NodeType.BRANCH


def find(sites: Connections, scene: ClusterState, name: str) -> Returned | None:
    """The rejoin of node ``name``; None when nothing is to be done.

    Raises UnknownNode, NodeUnreachable, StateError, NodeBusy; UsageError when another program has
    the name of its worker.
    """
    info = scene.info(name)
    noted = scene.operations.get(name)
    if noted is not None and noted.kind is not OperationKind.RESURRECT:
        raise noted.busy(name)
    if info.type is not NodeType.ROOT:
        if noted is None:
            return None
        return Returned(info, scene.info(info.provider), info.last_tick, (), noted)
    if info.target_for:
        raise StateError(
            f"node {name}: queue {scene.queue} is a combined queue and cannot rejoin",
            detail="events that its parts have written since the failover cannot be undone alone",
            hint=combined_anew(sites.at(scene.place(name).dsn), scene.queue),
        )
    keeper, tick = _keeper(sites, scene, info, noted)
    busy = scene.operations.get(keeper.name)
    if busy is not None and busy.node == name and busy.kind is OperationKind.TAKEOVER:
        raise NodeBusy(
            f"node {keeper.name}: {busy.describe()} is under way",
            hint=f"finish it first: londiste takeover {word(name)} --node {word(keeper.name)}"
            " --failover",
        )
    _same_tick(sites, scene, info, keeper, tick)
    at = sites.at(scene.place(keeper.name).dsn)
    refuse_taken_name(at, scene.queue, keeper.name, name, info.worker)
    return Returned(info, keeper, tick, _subscribers(scene, info, keeper, tick), noted)


def _keeper(
    sites: Connections, scene: ClusterState, info: NodeInfo, noted: Operation | None
) -> tuple[NodeInfo, int]:
    """The node that keeps events for the old root, and the tick from which it keeps them."""
    found: dict[str, tuple[NodeInfo, int]] = {}
    workers = {GRAVESTONE.format(info.name), info.worker}
    for other in scene.live():
        if other.name == info.name or other.type is NodeType.LEAF:
            continue
        conn = sites.at(scene.place(other.name).dsn)
        for subscriber in nodes.get_subscriber_info(conn, scene.queue):
            if subscriber.name == info.name and subscriber.worker in workers:
                for consumer in queues.get_consumer_info(conn, scene.queue, subscriber.worker):
                    if consumer.last_tick is not None:
                        found[other.name] = (other, consumer.last_tick)
    others = [n for n in scene.topology.roots if n != info.name]
    if noted is not None and noted.new in found:
        return found[noted.new]
    chosen = next((found[n] for n in others if n in found), None)
    if chosen is None and len(found) == 1:
        chosen = next(iter(found.values()))
    if chosen is not None:
        return chosen
    if not found and (silent := scene.silent()):
        raise NodeUnreachable(
            f"no node that answers keeps events for {info.name}; nodes without an answer: {silent}",
            hint="start its server and repeat the command",
        )
    if not others and not found:
        raise StateError(
            f"node {info.name} is the root, and no node that answers has replaced it",
            hint="londiste status shows the nodes; start those that do not answer",
        )
    raise StateError(
        f"no node keeps events for {info.name} from the tick of the failover on"
        if not found
        else f"several nodes keep events for {info.name}: {', '.join(sorted(found))}",
        detail="so its last common tick is ambiguous",
        hint=_anew(scene, info.name, others[0] if len(others) == 1 else ""),
    )


def _same_tick(
    sites: Connections, scene: ClusterState, old: NodeInfo, new: NodeInfo, tick: int
) -> None:
    """Raises StateError when the tick is not on both nodes, or is not the same."""
    here = _facts(sites.at(scene.place(old.name).dsn), scene.queue, tick)
    there = _facts(sites.at(scene.place(new.name).dsn), scene.queue, tick)
    if here is not None and here == there:
        return
    why = (
        f"node {old.name} has no tick {tick}, at which {new.name} replaced it"
        if here is None
        else f"tick {tick} of {old.name} differs from that of {new.name}"
    )
    raise StateError(
        why,
        detail="its database is older than what others have read from it: it was restored, or has"
        " lost transactions in a crash",
        hint=_anew(scene, old.name, new.name),
    )


def _anew(scene: ClusterState, name: str, provider: str) -> str:
    """How a root that cannot rejoin becomes a branch; provider -- '' where it is not known."""
    where = {name: view.member.location for name, view in scene.topology.views.items()}
    way = create_hint.again(
        NodeType.BRANCH, name, where.get(name, ""), provider=where.get(provider, "")
    )
    return f"create it again: {way}"


def _facts(conn: Connection, queue: str, tick: int) -> object:
    row = first(conn, "tick_facts", queue=queue, tick=tick)
    return None if row is None else row[0]


def _subscribers(scene: ClusterState, old: NodeInfo, new: NodeInfo, tick: int) -> tuple[str, ...]:
    """The nodes that still read from the old root.  StateError: one has read diverged events."""
    below = [n for n in scene.live() if n.provider == old.name and n.name != old.name]
    for node in below:
        if node.last_tick > tick:
            raise StateError(
                f"node {node.name} has read from {old.name} up to tick {node.last_tick}, the"
                f" other nodes only up to tick {tick}",
                detail="the later events are on no other node and cannot be undone there",
                hint=_below_anew(scene, node, new),
            )
    return tuple(sorted(n.name for n in below))


def _below_anew(scene: ClusterState, node: NodeInfo, new: NodeInfo) -> str:
    """How a node with diverged events is made again, as a hint; the old root rejoins between."""
    members = {name: view.member for name, view in scene.topology.views.items()}
    create = create_hint.create(
        node.type,
        node.name,
        members[node.name].location,
        provider=members[new.name].location,
        merge=node.combined_queue,
    )
    return (
        f"create it again: londiste drop-node {argument(node.name)}; then repeat the command; and,"
        f" with the settings of {node.name}: {create}"
    )


@dataclass(frozen=True)
class Readmit(AtNode):
    """Registers the old root as subscriber of its provider, from the last common tick on."""

    node: str
    worker: str
    tick: int

    def describe(self) -> str:
        return (
            f"{self.at.name}: register {self.node} as subscriber from tick {self.tick} on,"
            f" with worker {self.worker}"
        )

    def done(self, sites: Connections) -> bool:
        subscribers = nodes.get_subscriber_info(sites.at(self.at.dsn), self.queue)
        return any(s.name == self.node and s.worker == self.worker for s in subscribers)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            # Both in one transaction: the events are kept all the time.
            nodes.unregister_subscriber(conn, self.queue, self.node)
            nodes.register_subscriber(conn, self.queue, self.node, self.worker, self.tick)


@dataclass(frozen=True)
class MembershipChange:
    """Changes of the member list while a node was offline.

    gone -- names that no node has any more, or that another node has now.
    renamed -- (old name, new name) of members at the same location.
    others -- the present members, without the node itself.
    """

    gone: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    others: tuple[Member, ...]


def news(known: Sequence[Member], now: Sequence[Member], own: str) -> MembershipChange:
    """Pure: the changes that node ``own``, which knows these members, has to apply."""
    lives = {m.location: m.name for m in now}
    kept = {m.name for m in now}
    before = [m for m in known if m.name != own]
    renamed = {
        m.name: lives[m.location] for m in before if m.name not in kept and m.location in lives
    }
    gone = [
        m.name
        for m in before
        if m.name in renamed.values() or (m.name not in kept and m.name not in renamed)
    ]
    others = tuple(m for m in now if m.name != own)
    return MembershipChange(tuple(gone), tuple(renamed.items()), others)


def learn(conn: Connection, provider: Connection, queue: str, own: str) -> None:
    """Copies the member list from the provider to node ``own``, in the caller's transaction.

    Events with these changes are before the tick at which the node continues, or come again.
    """
    now = nodes.get_queue_locations(provider, queue)
    changes = news(nodes.get_queue_locations(conn, queue), now, own)
    for name in changes.gone:
        nodes.unregister_location(conn, queue, name)
    for old, new in changes.renamed:
        call.ret(conn, "pgq_node.rename_node", queue, old, new)
    for member in changes.others:
        nodes.register_location(conn, queue, member.name, member.location, dead=member.dead)
