"""State of the cluster before a topology change: nodes, reachability, unfinished changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from londiste.cascade import copied_database, topology
from londiste.cascade import sqlapi as nodes
from londiste.cascade.copied_database import Astray
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.operation_log import Operation, OperationKind
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.cascade.topology import Asker, Silent, Topology
from londiste.db.names import argument, word
from londiste.errors import NodeUnreachable, StateError, UnknownNode
from londiste.orchestration.connections import Connections
from londiste.wording import did_you_mean


@dataclass(frozen=True)
class ClusterState:
    """The cascade before a change.

    places -- address of each node.
    operations -- unfinished changes, by the node that has them recorded; of nodes that answer.
    astray -- why the stored location of the node that was asked does not lead to it, if so.  The
        others are asked by their locations.
    """

    topology: Topology
    places: Mapping[str, NodeAddress]
    operations: Mapping[str, Operation] = field(default_factory=dict)
    astray: Astray | None = None

    @property
    def queue(self) -> str:
        """Name of the queue."""
        return self.topology.queue

    def live(self) -> Iterator[NodeInfo]:
        """The nodes that answer."""
        for view in self.topology.views.values():
            if view.info is not None:
                yield view.info

    def replaced(self, name: str) -> bool:
        """Whether the node is a root that was marked as failed and replaced.

        It gets no updates until it has rejoined as a branch, and receives all of them then.
        """
        view, roots = self.topology.views.get(name), self.topology.roots
        return view is not None and view.member.dead and name in roots and roots != [name]

    def listening(self) -> Iterator[NodeInfo]:
        """The nodes that answer and can be updated."""
        return (info for info in self.live() if not self.replaced(info.name))

    def info(self, name: str) -> NodeInfo:
        """A node that must answer.  Raises UnknownNode, NodeUnreachable."""
        view = self.topology.views.get(name)
        if view is None:
            raise self._unknown(name, self.topology.views)
        if view.info is None:
            raise NodeUnreachable(
                f"node {name} does not answer: {view.error}",
                hint="start its server; if it has another address: londiste move-node"
                f" {argument(name)} CONNECTION; or fail over: londiste takeover {argument(name)}"
                " --node NODE --failover with the NODE that replaces it",
            )
        return view.info

    def answers(self, name: str) -> bool:
        """Whether the node exists and answers."""
        view = self.topology.views.get(name)
        return view is not None and view.info is not None

    def is_silent(self, name: str) -> bool:
        """Whether the node exists, does not answer, and is not marked as failed."""
        view = self.topology.views.get(name)
        return view is not None and view.info is None and not view.member.dead

    def silent(self) -> str:
        """The nodes that do not answer and are not marked as failed, with the reasons."""
        views = self.topology.views.items()
        return "; ".join(f"{n}: {v.error}" for n, v in views if self.is_silent(n))

    def place(self, name: str) -> NodeAddress:
        """The address of a node.  Raises UnknownNode."""
        if name not in self.places:
            raise self._unknown(name, self.places)
        return self.places[name]

    def _unknown(self, name: str, known: Iterable[str]) -> UnknownNode:
        names = sorted(known)
        return UnknownNode(
            f"queue {self.queue} has no node {name}",
            hint=did_you_mean(name, names, f"the nodes are {', '.join(names)}"),
        )

    def providers(self, name: str) -> list[str]:
        """The providers above ``name``, from the nearest to the last one that answers."""
        found: list[str] = []
        here: str | None = name
        while here is not None and self.answers(here):
            here = self.topology.views[here].provider
            if here is None or here in found:
                break
            found.append(here)
        return found

    def root(self) -> NodeInfo:
        """The only root.  Raises StateError; NodeUnreachable when a silent node may be the root."""
        roots = self.topology.roots
        if not roots and (silent := self.silent()):
            raise NodeUnreachable(
                f"queue {self.queue}: no root answers; nodes without an answer: {silent}",
                hint="start its server and repeat the command; or fail over: londiste"
                " takeover NODE --failover",
            )
        if len(roots) != 1:
            raise StateError(
                f"queue {self.queue}: {len(roots)} roots answer"
                + (f": {', '.join(roots)}" if roots else ""),
                hint="londiste status shows the nodes; if the root has failed: londiste takeover"
                " NODE --failover",
            )
        return self.info(roots[0])


def look(
    sites: Connections, dsn: str, queue: str, extra: str, *, silent: Silent | None = None
) -> ClusterState:
    """Asks all nodes.  Raises UnknownNode when ``dsn`` is no node, NodeUnreachable.

    silent -- of a second look: nodes that did not answer a moment ago are not asked again, nor is
        the stored location of this one.

    The first look raises StateError in a copy of a node's database.
    """
    astray = None
    if silent is None:
        astray = copied_database.refuse(sites.at(dsn), queue, sites.reach)
    with sites.answering(topology.ANSWER_SECONDS + 2):
        told = topology.read(sites.at(dsn), queue, extra=extra, silent=silent or {})
    seen = _given_up(sites, _as_the_root_knows(sites, told, extra))
    places = {
        name: NodeAddress(name, dsn if name == seen.local else sites.reach(view.member.location))
        for name, view in seen.views.items()
    }
    sites.call_them({place.dsn: name for name, place in places.items()})
    operations = {}
    for name, view in seen.views.items():
        if view.info is None:
            continue
        found = operation_log.find(sites.at(places[name].dsn), queue)
        if found is not None:
            operations[name] = found
    return ClusterState(seen, places, operations, astray)


def _as_the_root_knows(sites: Connections, seen: Topology, extra: str) -> Topology:
    """The members as the root lists them: nodes are registered and dropped there first.

    The node that was asked may lag: it may miss new nodes and still list dropped ones.
    """
    if len(seen.roots) != 1 or seen.roots[0] == seen.local:
        return seen
    root = sites.at(sites.reach(seen.views[seen.roots[0]].member.location))
    members = {m.name: m for m in nodes.get_queue_locations(root, seen.queue)}
    asker = Asker.one_of(seen.local, members.values())
    if seen.local not in members:
        return seen
    views = {name: view for name, view in seen.views.items() if name in members}
    return Topology(
        seen.queue,
        seen.local,
        views
        | topology.views_of(
            [m for name, m in members.items() if name not in views], seen.queue, asker, extra=extra
        ),
    )


def _given_up(sites: Connections, seen: Topology) -> Topology:
    """The current root of several: it knows that it replaced the others."""
    if len(seen.roots) < 2:
        return seen
    gone: dict[str, set[str]] = {}
    for root in seen.roots:
        conn = sites.at(sites.reach(seen.views[root].member.location))
        known = nodes.get_queue_locations(conn, seen.queue)
        gone[root] = {m.name for m in known if m.dead and m.name in seen.roots}
    views = {
        name: replace(view, member=replace(view.member, dead=True))
        if any(name in gone[root] and root not in gone.get(name, ()) for root in gone)
        else view
        for name, view in seen.views.items()
    }
    return Topology(seen.queue, seen.local, views)


def without_end(scene: ClusterState, name: str, wanted: str = "") -> Operation | None:
    """The unfinished change at ``name``, of its provider or of that of a consumer, that has no end.

    It can be neither finished nor undone: its old and its new provider do not answer, are marked as
    failed, or are dropped.

    wanted -- a third provider, which replaces both.
    """
    noted = scene.operations.get(name)
    kinds = (OperationKind.CHANGE_PROVIDER, OperationKind.MOVE_CONSUMER)
    if noted is None or noted.kind not in kinds or wanted in (noted.new, noted.from_node):
        return None
    for provider in {noted.new, noted.from_node or noted.new}:
        view = scene.topology.views.get(provider)
        if view is not None and view.info is not None and not view.member.dead:
            return None
    return noted


#: Where warnings go.
Warn = Callable[[str], None]


def refuse_replaced(scene: ClusterState, name: str, detail: str = "", way: str = "") -> None:
    """Raises StateError for a root that was replaced.

    way -- continues the hint, which contains the command that rejoins it.
    """
    if scene.replaced(name):
        raise StateError(
            f"root {name} was replaced by another node",
            detail=detail,
            hint=f"first rejoin it as a branch: londiste resurrect --node {word(name)}{way}",
        )


def refuse_astray(scene: ClusterState, name: str) -> None:
    """Raises StateError for a new provider that others do not reach at its stored location."""
    found = scene.astray
    if found is None or name != scene.topology.local:
        return
    unsure = "; or --nocheck if only other hosts can use it" if found.silent else ""
    raise StateError(
        found.what,
        detail="nodes that read from it could not reach it; nothing was changed",
        hint=found.do + unsure,
    )


def refuse_leaf(info: NodeInfo, what: str) -> None:
    """Raises StateError for a leaf."""
    if info.type is NodeType.LEAF:
        raise StateError(
            f"node {info.name} is a leaf: {what}",
            detail="a leaf keeps no queue for other nodes",
            hint="choose a branch; or create one, with the settings of a new node: londiste"
            " create-branch NAME --provider DSN",
        )
