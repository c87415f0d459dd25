"""``drop-node``: remove a node from its cascade."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade import watermark
from londiste.cascade.model import NodeType
from londiste.cascade.own_consumers import GRAVESTONE, consumer_kind
from londiste.cascade.switching import failover as lost
from londiste.cascade.switching import operation_log, release
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cascade.switching.steps.notes import AtNode, Begin, NodeAddress, Ticket
from londiste.db.connection import Connection
from londiste.db.names import argument, word
from londiste.db.queries import records
from londiste.errors import AccessDenied, LondisteError, NodeUnreachable, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import retry_locked
from londiste.orchestration.steps import Step
from londiste.pgq import batches, consumers, counting, queues, spark_epochs
from londiste.wording import identifier, shortened


def drop(
    sites: Connections,
    scene: ClusterState,
    name: str,
    *,
    force: bool,
    drop_consumers: bool = False,
    note: bool = True,
) -> list[Step]:
    """The steps that remove a node from the cascade, and drop its queue on the node itself.

    force -- proceed if the node does not answer: only the other nodes forget it.
    drop_consumers -- proceed if consumers and sinks lose their positions in its queue.
    note -- False for a command that drops the whole cascade and reports its own progress.

    The drop is recorded at one of the other nodes, the root if that is free, until the node is
    dropped there: so an interrupted drop is visible.  The node itself is dropped first; where the
    command runs there, the others forget it inside that transaction.

    Raises UnknownNode; StateError while others read from it, consumers or sinks have a position
    there, or a change is under way in which it takes part; NodeUnreachable without ``force``, also
    for nodes that read from it; AccessDenied if the triggers of its tables cannot be dropped.
    """
    noted = {
        at: Ticket(o.token)
        for at, o in scene.operations.items()
        if (o.kind, o.node) == (OperationKind.DROP_NODE, name)
    }
    if noted and name not in scene.places:
        # The root knows it no more, and did not answer when the drop was noted elsewhere.
        return [
            DropNode(scene.place(n.name), scene.queue, name, noted.get(n.name))
            for n in scene.listening()
        ]
    place = scene.place(name)
    below = scene.topology.children(name)
    if below and scene.topology.roots != [name]:
        if not scene.topology.roots and not scene.answers(name):
            hint = (
                "no root answers; make another node the root first: londiste takeover"
                f" {word(name)} --node {word(_next_root(scene, name))} --failover"
            )
        else:
            hint = (
                "switch them to another provider first: londiste change-provider"
                f" --node {word(below[0])} --provider {word(_next_provider(scene, name))}"
            )
        raise StateError(f"node {name} is the provider of {', '.join(sorted(below))}", hint=hint)
    if not force:
        _refuse_silent_readers(sites, scene, name)
    if scene.topology.roots == [name] and len(scene.topology.views) > 1:
        raise StateError(
            f"node {name} is the root",
            hint="make another node the root first: londiste switchover --to"
            f" {word(_next_root(scene, name))}; or drop all other nodes",
        )
    for at, other in scene.operations.items():
        # A rejoin that is not possible ends with the node.
        rejoin = (other.kind, other.node) == (OperationKind.RESURRECT, name)
        if name in (other.node, other.new) and at not in noted and not rejoin:
            raise StateError(
                f"node {at}: {other.describe()} is under way, and node {name} takes part",
                hint=other.way_out(at),
            )
    view = scene.topology.views[name]
    gone = view.info is None and _is_dropped(sites, place, scene.queue, begun=bool(noted))
    if view.info is None and not (gone or force or view.member.dead):
        raise NodeUnreachable(
            f"node {name} does not answer: {view.error}",
            hint=f"start its server; or, if it will not return: londiste drop-node {word(name)}"
            f" --ignore-unreachable,"
            " which drops it on the other nodes only",
        )
    if view.info is not None and view.info.target_for:
        parts = ", ".join(view.info.target_for)
        raise StateError(
            f"node {name}: queues merge into queue {scene.queue}: {parts}",
            hint="drop their leaves there first: londiste drop-node, with the settings of each",
        )
    if view.info is not None and view.info.type is not NodeType.LEAF and not drop_consumers:
        _refuse_readers(sites.at(place.dsn), scene.queue, name)
        if not noted:
            _refuse_keeper(sites, scene, name)
    if view.info is not None:
        refuse_rights(name, _tables_of_others(sites.at(place.dsn), scene.queue))
    others = [scene.place(n.name) for n in scene.listening() if n.name != name]
    roots = [p for p in others if p.name in scene.topology.roots]
    rest = [p for p in others if p.name not in scene.topology.roots]
    steps: list[Step] = []
    if view.info is not None and release.copies_left(sites.at(place.dsn), scene.queue):
        # It may be refused for the rows: before anybody forgets the node.
        steps.append(EndCopies(place, scene.queue))
    # A note goes with the node: it is made where the node is known.
    free = [
        p
        for p in (*roots, *rest)
        if p.name not in scene.operations
        and _knows(sites.at(p.dsn), scene.queue, name)
        and operation_log.can_note(sites.at(p.dsn))
    ]
    if note and free and not noted:
        noted = {free[0].name: Ticket()}
        steps.append(
            Begin(free[0], scene.queue, OperationKind.DROP_NODE, name, name, noted[free[0].name])
        )
    worker = view.info.worker if view.info is not None else ""
    rest.sort(key=lambda p: p.name in noted)
    forget = [DropNode(p, scene.queue, name, noted.get(p.name), worker) for p in (*rest, *roots)]
    # The command can be given again while the node at which that is done knows the cascade.
    inside = tuple(forget) if name == scene.topology.local else ()
    itself = [DropNode(place, scene.queue, name, inside=inside)] if view.info is not None else []
    return [*steps, *itself, *forget]


@dataclass(frozen=True)
class TableOfOther:
    """A table whose triggers the drop may not drop.

    role -- with whose rights the node is dropped; owns -- it has those of the owner.
    """

    name: str
    schema: str
    owner: str
    role: str
    owns: bool


def _tables_of_others(conn: Connection, queue: str) -> list[TableOfOther]:
    return records(conn, TableOfOther, "tables_of_others", queue=queue)


def refuse_rights(node: str, found: Sequence[TableOfOther]) -> None:
    """Pure: raises AccessDenied if the drop of a node would be refused for these tables."""
    if not found:
        return
    role = found[0].role
    grants = [
        f"grant usage on schema {identifier(table.schema)} to {identifier(role)}"
        if table.owns
        else f"grant {identifier(table.owner)} to {identifier(role)}"
        for table in found
    ]
    raise AccessDenied(
        f"node {node}: role {role}, with whose rights it is dropped, may not drop the triggers of"
        f" {shortened([table.name for table in found])}",
        detail="the role owns the SQL of Londiste there; nothing was changed",
        hint=f"as an administrator there: {'; '.join(dict.fromkeys(grants))}",
    )


def _next_provider(scene: ClusterState, name: str) -> str:
    """The provider of a branch, or another branch; for a hint to the nodes below it."""
    above = scene.topology.views[name].provider
    if above is not None and scene.answers(above):
        return above
    other = _next_root(scene, name)
    return "NODE" if other in (name, *scene.topology.children(name)) else other


def _next_root(scene: ClusterState, root: str) -> str:
    """A branch that can become the root, for a hint; NODE: there is none."""
    views = scene.topology.views
    branches = [
        n for n, v in views.items() if n != root and v.info and v.info.type is NodeType.BRANCH
    ]
    below = scene.topology.children(root)
    return min(branches, key=lambda n: (n not in below, n), default="NODE")


def _refuse_silent_readers(sites: Connections, scene: ClusterState, name: str) -> None:
    """Raises NodeUnreachable for nodes that do not answer and are registered subscribers."""
    if not scene.answers(name) or scene.replaced(name):
        return
    known = nodes.get_subscriber_info(sites.at(scene.place(name).dsn), scene.queue)
    left = [s.name for s in known if scene.is_silent(s.name)]
    if left:
        raise NodeUnreachable(
            f"node {name} is the provider of {', '.join(left)}, which does not answer",
            detail="it would have no provider when it returns",
            hint="start its server; or use --ignore-unreachable, and when it returns: londiste"
            f" change-provider --node {argument(left[0])} --provider NODE",
        )


def _refuse_keeper(sites: Connections, scene: ClusterState, name: str) -> None:
    """Raises StateError for the only node that keeps events for a failed root."""
    known = nodes.get_subscriber_info(sites.at(scene.place(name).dsn), scene.queue)
    kept = [s.name for s in known if s.worker == GRAVESTONE.format(s.name)]
    for lost_root in kept:
        if lost_root in scene.topology.views and lost.keepers(sites, scene, lost_root) == [name]:
            raise StateError(
                f"node {name} keeps events for the failed root {lost_root}",
                detail=f"without them {lost_root} cannot rejoin, nor its diverged events be found",
                hint=f"first: londiste resurrect --node {word(lost_root)}; or, if it will not"
                f" return: londiste drop-node {word(lost_root)}; or --drop-consumers",
            )


def _knows(conn: Connection, queue: str, name: str) -> bool:
    return any(m.name == name for m in nodes.get_queue_locations(conn, queue))


def _refuse_readers(conn: Connection, queue: str, node: str) -> None:
    """Raises StateError when other consumers or sinks have a position in the node's queue."""
    below = nodes.get_subscriber_info(conn, queue)
    noted = consumers.get_consumer_kinds(conn, queue)
    lost = [
        f"{noted.get((queue, one.consumer_name), 'consumer')} {one.consumer_name} is at tick"
        f" {one.last_tick}, with {counting.words(one.pending_events)} pending"
        for one in counting.consumers(conn, queue)
        if not consumer_kind(one.consumer_name, below).is_of_cascade
    ]
    lost += [
        f"Spark sink {one.sink} has written into the queue up to epoch {one.epoch}"
        for one in spark_epochs.sinks_of(conn, queue)
    ]
    if lost:
        raise StateError(
            f"queue {queue} is dropped with node {node}, and "
            + (f"{len(lost)} positions" if len(lost) > 1 else "a position")
            + " with it",
            detail="; ".join(lost),
            hint="move them to another node first (docs/howto/move-consumers.md), or londiste"
            f" queue unregister {word(queue)} CONSUMER; or drop them: londiste drop-node"
            f" {word(node)} --drop-consumers",
        )


def _is_dropped(sites: Connections, place: NodeAddress, queue: str, *, begun: bool) -> bool:
    """Whether the database answers and is no node, which an earlier run has done.

    begun -- this drop is recorded: the node was not renamed since, so a node of another name there
        was created afterwards.
    """
    try:
        found = nodes.find_node_info(sites.at(place.dsn), queue)
    except LondisteError:
        return False
    return found is None or (begun and found.name != place.name)


def _without_copies(
    sites: Connections, step: AtNode, work: Callable[[Connection], list[release.ReleasedKey]]
) -> None:
    """Ends the copies of a node, and reports the keys that ``work`` could not restore."""
    conn = sites.at(step.at.dsn)
    before = functools.partial(release.stop_copies, conn, step.queue)
    release.report(retry_locked(sites, step.at.dsn, work, before=before))


@dataclass(frozen=True)
class EndCopies(AtNode):
    """Ends the copies of a node that is to be dropped, and restores what they have dropped."""

    def describe(self) -> str:
        return f"{self.at.name}: end the copies of tables, restore their indexes and keys"

    def done(self, sites: Connections) -> bool:
        return not release.copies_left(sites.at(self.at.dsn), self.queue)

    def run(self, sites: Connections) -> None:
        _without_copies(sites, self, lambda conn: release.release_tables(conn, self.queue))


@dataclass(frozen=True)
class DropNode(AtNode):
    """Drops a node on another one, or on itself with its queue.

    ticket -- of the record at this node, which is removed in the same transaction.
    worker -- of the node, if known: consumers of its copies are unregistered, too, also on nodes
        that it only copies from.
    inside -- steps at other nodes, run before the commit: with the locks nothing else can fail.
    """

    name: str
    ticket: Ticket | None = None
    worker: str = ""
    inside: tuple[DropNode, ...] = ()

    def describe(self) -> str:
        if self.at.name == self.name:
            return f"{self.at.name}: drop the node, its queue and the triggers on its tables"
        return f"{self.at.name}: forget node {self.name}"

    def done(self, sites: Connections) -> bool:
        conn = sites.at(self.at.dsn)
        if self.at.name == self.name:
            return nodes.find_node_info(conn, self.queue) is None
        known = _knows(conn, self.queue, self.name) or self._copies(conn)
        return not known and not self._noted(conn)

    def _copies(self, conn: Connection) -> list[str]:
        if not self.worker:
            return []
        prefix = f"{self.worker}.copy."
        every = (one.consumer_name for one in queues.get_consumer_info(conn, self.queue))
        return [name for name in every if name.startswith(prefix)]

    def run(self, sites: Connections) -> None:
        if self.at.name == self.name:
            # It locks every table of the node, and its queue: writers go first.
            with sites.at_length():
                _without_copies(sites, self, functools.partial(self._drop, sites))
        else:
            with sites.transaction(self.at.dsn) as conn:
                self._forget(conn)

    def _drop(self, sites: Connections, conn: Connection) -> list[release.ReleasedKey]:
        release.lock_tables(conn, self.queue, sites.lock_timeout)
        for sink in spark_epochs.sinks_of(conn, self.queue):
            spark_epochs.forget_sink(conn, sink.sink)
        keys = release.release_tables(conn, self.queue)
        nodes.drop_node(conn, self.queue, self.name)
        self._end_note(conn)
        for step in self.inside:
            if not step.done(sites):
                step.run(sites)
        return keys

    def _forget(self, conn: Connection) -> None:
        for copying in self._copies(conn):
            batches.unregister_consumer(conn, self.queue, copying)
        if _knows(conn, self.queue, self.name):
            nodes.drop_node(conn, self.queue, self.name)
        watermark.drop_from_group(conn, self.queue, self.name)
        self._end_note(conn)

    def _end_note(self, conn: Connection) -> None:
        if self._noted(conn) and self.ticket is not None:
            operation_log.end(conn, self.queue, self.ticket.get())

    def _noted(self, conn: Connection) -> bool:
        found = operation_log.find(conn, self.queue) if self.ticket is not None else None
        return found is not None and self.ticket is not None and found.token == self.ticket.token
