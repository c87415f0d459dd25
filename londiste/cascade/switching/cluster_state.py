"""What a change of the cascade begins from: all nodes, who answers, and what is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from londiste.cascade import sqlapi as nodes
from londiste.cascade import topology
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.operation_log import Operation
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.cascade.topology import Asker, Topology
from londiste.errors import NodeUnreachable, StateError, UnknownNode
from londiste.orchestration.connections import Connections


@dataclass(frozen=True)
class ClusterState:
    """The cascade before a change.

    places -- how each node is reached.
    operations -- what is under way, by the node that has it noted; of those that answer.
    """

    topology: Topology
    places: Mapping[str, NodeAddress]
    operations: Mapping[str, Operation] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        """The queue."""
        return self.topology.queue

    def live(self) -> Iterator[NodeInfo]:
        """The nodes that answer."""
        for view in self.topology.views.values():
            if view.info is not None:
                yield view.info

    def replaced(self, name: str) -> bool:
        """Whether the node is a root that was given up, beside another one.

        It takes no news until it is back as a branch, and learns then what the others are.
        """
        view, roots = self.topology.views.get(name), self.topology.roots
        return view is not None and view.member.dead and name in roots and roots != [name]

    def listening(self) -> Iterator[NodeInfo]:
        """The nodes that answer and can be told news."""
        return (info for info in self.live() if not self.replaced(info.name))

    def info(self, name: str) -> NodeInfo:
        """A node that has to answer.  Raises UnknownNode, NodeUnreachable."""
        view = self.topology.views.get(name)
        if view is None:
            raise UnknownNode(
                f"queue {self.queue} has no node {name}",
                hint=f"the nodes are {', '.join(sorted(self.topology.views))}",
            )
        if view.info is None:
            raise NodeUnreachable(
                f"node {name} does not answer: {view.error}",
                hint=f"start its server; if it is lost: londiste takeover {name} --node NODE --dead"
                " with the NODE that is to take its place",
            )
        return view.info

    def answers(self, name: str) -> bool:
        """Whether there is such a node and it answers."""
        view = self.topology.views.get(name)
        return view is not None and view.info is not None

    def is_silent(self, name: str) -> bool:
        """Whether there is such a node, it does not answer, and nobody has given it up."""
        view = self.topology.views.get(name)
        return view is not None and view.info is None and not view.member.dead

    def silent(self) -> str:
        """The nodes that do not answer and that nobody has given up, with the reasons."""
        views = self.topology.views.items()
        return "; ".join(f"{n}: {v.error}" for n, v in views if self.is_silent(n))

    def place(self, name: str) -> NodeAddress:
        """How a node is reached.  Raises UnknownNode."""
        if name not in self.places:
            raise UnknownNode(
                f"queue {self.queue} has no node {name}",
                hint=f"the nodes are {', '.join(sorted(self.places))}",
            )
        return self.places[name]

    def providers(self, name: str) -> list[str]:
        """The nodes that ``name`` reads from, from the nearest to the last one that answers."""
        found: list[str] = []
        here: str | None = name
        while here is not None and self.answers(here):
            here = self.topology.views[here].provider
            if here is None or here in found:
                break
            found.append(here)
        return found

    def root(self) -> NodeInfo:
        """The only root.  Raises StateError; NodeUnreachable when it may be one that is silent."""
        roots = self.topology.roots
        if not roots and (silent := self.silent()):
            raise NodeUnreachable(
                f"no root of queue {self.queue} answers; silent is {silent}",
                hint="start its server, and give the command again; if the root is lost: londiste"
                " takeover NODE --dead",
            )
        if len(roots) != 1:
            raise StateError(
                f"queue {self.queue} has {len(roots)} roots that answer"
                + (f": {', '.join(roots)}" if roots else ""),
                hint="londiste status shows the nodes; if the root is lost: londiste takeover"
                " NODE --dead",
            )
        return self.info(roots[0])


def look(sites: Connections, dsn: str, queue: str, extra: str) -> ClusterState:
    """Asks all nodes.  Raises UnknownNode when ``dsn`` is no node, NodeUnreachable."""
    seen = _given_up(
        sites, _as_the_root_knows(sites, topology.read(dsn, queue, extra=extra), extra)
    )
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
    return ClusterState(seen, places, operations)


def _as_the_root_knows(sites: Connections, seen: Topology, extra: str) -> Topology:
    """The members as the root lists them: every node is registered there before anywhere else.

    The node that was asked may be behind: what is new it does not know yet, what is gone it does.
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
    """Of several roots one has the place of another and knows it; the other has not heard it."""
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


#: Where warnings go.
Warn = Callable[[str], None]


def refuse_replaced(scene: ClusterState, name: str, detail: str = "", way: str = "") -> None:
    """Raises StateError for a root in whose place another one is.

    way -- goes on the hint, which says how to bring it back.
    """
    if scene.replaced(name):
        raise StateError(
            f"another node has taken the place of root {name}",
            detail=detail,
            hint=f"first bring it back as a branch: londiste resurrect --node {name}{way}",
        )


def refuse_leaf(info: NodeInfo, what: str) -> None:
    """Raises StateError for a leaf."""
    if info.type is NodeType.LEAF:
        raise StateError(
            f"node {info.name} is a leaf: {what}",
            detail="a leaf keeps no queue that others could read",
            hint="choose a branch, or make one: londiste create-branch",
        )
