"""``create-root``, ``create-branch``, ``create-leaf``: the steps that create a node.

    root            register its location, create the node

    leaf that       as below, in a database that is root or branch of the combined queue; then the
    merges          root of that queue publishes in it the positions of its parts, for stand-bys

    branch, leaf    register its location on the root      (the root informs all nodes)
                    register its location on the provider
                    register it as subscriber there        (at the global watermark)
                    register all locations locally
                    create the node                        (at the position of its subscription)

All checks precede the first step.  A step that an interrupted run has done is recognised, so
repeating the command finishes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg
from psycopg import conninfo

from londiste.cascade import copied_database, create_hint, original
from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import location_check, node_name, queue_settings
from londiste.cascade.commands.upstream import Upstream, upstream
from londiste.cascade.model import Member, NodeInfo, NodeType
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.operation_log import OperationKind
from londiste.db.connection import describe_dsn, masked
from londiste.db.names import argument, word
from londiste.errors import BadOption, LondisteError, NodeBusy, StateError, UsageError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import NodeStep, Step
from londiste.pgq import position_check, queues

#: How soon a change is in a tick, where a root makes its queue itself: a tick and what follows
#: from it take about as long.
TICKER_MAX_LAG = "5 milliseconds"


@dataclass(frozen=True)
class NewNode:
    """The node to create.

    dsn -- how this process reaches the database; may hold a password, is not stored.
    location -- how other nodes reach it; stored on every node, holds no password.
    worker -- consumer name of its worker, unique on the provider.
    combined -- of a leaf: the queue of this database that it merges into.
    """

    queue: str
    type: NodeType
    name: str
    dsn: str = field(repr=False)
    location: str
    worker: str
    combined: str | None = None


def create_root(sites: Connections, node: NewNode, *, check: bool = True) -> list[Step]:
    """The steps that create a root.

    check -- that the location leads to the database.
    Raises BadOption (location), StateError (the database is another node), NodeUnreachable.
    """
    _look_at(sites, node, check)
    return [
        RegisterLocation(node.name, node.dsn, node.queue, node.name, node.location),
        CreateRoot(node),
    ]


def create_branch(
    sites: Connections, node: NewNode, provider: str, *, check: bool = True
) -> list[Step]:
    """The steps that create a branch below the node at the connection string ``provider``.

    check -- that the locations of this node and of its provider lead to their databases.
    """
    existing = _look_at(sites, node, check)
    if existing is None and queues.get_queue_info(sites.at(node.dsn), node.queue):
        raise StateError(
            f"{describe_dsn(node.dsn)}: queue {node.queue} exists already",
            detail="a branch creates its own queue, with the ids and ticks of its provider",
            hint="choose another database, or drop the queue if no consumer needs it",
        )
    return _below(sites, node, provider, existing, check)


def create_leaf(
    sites: Connections, node: NewNode, provider: str, *, check: bool = True
) -> list[Step]:
    """The steps that create a leaf below the node at the connection string ``provider``.

    Raises StateError also when the combined queue is not in this database, when the leaf merges
    into another one, or when the combined root has no leaf of the queue.
    """
    existing = _look_at(sites, node, check)
    root = _combined_root(sites, node, existing)
    steps = _below(sites, node, provider, existing, check)
    if root is not None and node.combined is not None:
        steps.append(AnnounceParts(*root, node.combined))
    return steps


def _look_at(sites: Connections, node: NewNode, check: bool) -> NodeInfo | None:
    """The node that the database is now.  Raises StateError when it cannot become ``node``."""
    if not node.worker:
        raise BadOption("the worker has no name", hint="set job_name")
    location_check.check_location(node.location)
    local = sites.at(node.dsn)
    existing = nodes.find_node_info(local, node.queue)
    if existing is None:
        node_name.check_name(node.name)
    elif (existing.name, existing.type) != (node.name, node.type):
        raise StateError(
            f"{describe_dsn(node.dsn)} is already node {existing.name} ({existing.type.value})"
            f" of queue {node.queue}",
            detail="a database is one node per queue",
            hint="londiste node-info shows it; choose another database, or another queue_name",
        )
    if existing is not None:
        # It would register the copy under the name of the original.
        copied_database.refuse(local, node.queue, sites.reach)
    if check:
        location_check.check_same_database(
            local, sites.reach(node.location), answer_seconds=sites.answer_seconds
        )
    return existing


def _below(
    sites: Connections, node: NewNode, provider: str, existing: NodeInfo | None, check: bool
) -> list[Step]:
    way = upstream(sites, node.queue, provider)
    original.require_adopted(sites.at(provider), way.provider.name)
    astray = copied_database.refuse(sites.at(provider), node.queue, sites.reach)
    if check and astray is not None:
        raise StateError(
            astray.what,
            detail="the worker of the new node could not reach its provider; nothing was changed",
            hint=f"with the settings of {way.provider.name}: {astray.do}"
            + ("; or --nocheck if only other hosts can use it" if astray.silent else ""),
        )
    if existing is not None and existing.provider != way.provider.name:
        raise StateError(
            f"node {node.name} exists already, with provider {existing.provider}",
            hint=f"give the connection string of {existing.provider} to --provider",
        )
    _refuse_unfinished_drop(sites, node, way)
    if existing is None:
        _refuse_taken_names(sites, node, way)
    locations = {m.name: m for m in way.members}
    locations[node.name] = Member(node.name, node.location)
    steps: list[Step] = [
        RegisterLocation(way.root.name, way.root_dsn, node.queue, node.name, node.location)
    ]
    if way.provider.name != way.root.name:
        # It would hear of it by an event, but the subscriber needs it now.
        steps.append(
            RegisterLocation(way.provider.name, provider, node.queue, node.name, node.location)
        )
    return [
        *steps,
        RegisterSubscriber(
            way.provider.name, provider, node.queue, node.name, node.worker, way.root_dsn
        ),
        RegisterLocations(node.name, node.dsn, node.queue, tuple(locations.values())),
        CreateNode(node, way.provider.name, provider),
    ]


def _refuse_unfinished_drop(sites: Connections, node: NewNode, way: Upstream) -> None:
    """Raises NodeBusy while a node of this name is being dropped."""
    for at, dsn in ((way.root.name, way.root_dsn), (way.provider.name, way.provider_dsn)):
        noted = operation_log.find(sites.at(dsn), node.queue)
        if noted is None or (noted.kind, noted.node) != (OperationKind.DROP_NODE, node.name):
            continue
        raise NodeBusy(
            f"node {at}: {noted.describe()} is under way",
            detail="the rest of it would drop the new node",
            hint=f"finish it, with the settings of {at}: {noted.command()}",
        )


def _refuse_taken_names(sites: Connections, node: NewNode, way: Upstream) -> None:
    for member in way.members:
        # The same name at the same place is what an interrupted run has left: that place is
        # this database, and it is no node yet.
        if member.name == node.name and not _same(member.location, node.location):
            raise UsageError(
                f"queue {node.queue} has a node {node.name} already",
                detail=f"its location is {masked(member.location)}",
                hint="choose another name"
                + (
                    f"; or, if it is no longer needed, with the settings of root {way.root.name}:"
                    f" londiste drop-node {argument(node.name)}"
                    if _removable(sites, way, member)
                    else ""
                ),
            )
    conn = sites.at(way.provider_dsn)
    subscribers = nodes.get_subscriber_info(conn, node.queue)
    mine = any(s.name == node.name and s.worker == node.worker for s in subscribers)
    if not mine and queues.get_consumer_info(conn, node.queue, node.worker):
        raise UsageError(
            f"consumer {node.worker} is registered on node {way.provider.name} already",
            detail="the worker would move the position of another program",
            hint="give every worker its own job_name",
        )


def _removable(sites: Connections, way: Upstream, member: Member) -> bool:
    """Whether a member of the cascade can be dropped: it answers, and no node reads from it."""
    if member.name == way.root.name:
        return False
    try:
        conn = sites.at(sites.reach(member.location, member.name))
        info = nodes.find_node_info(conn, way.root.queue)
        return info is not None and not nodes.get_subscriber_info(conn, way.root.queue)
    except (LondisteError, psycopg.Error):
        return False


def _combined_root(
    sites: Connections, node: NewNode, existing: NodeInfo | None
) -> tuple[str, str] | None:
    """Name and connection string of the root of the combined queue; None without one."""
    queue, combined = node.queue, node.combined
    if existing is not None and existing.combined_queue != combined:
        raise StateError(
            f"leaf {node.name} of queue {queue} merges into {existing.combined_queue or 'no queue'}"
            + (f", not into {combined}" if combined else ""),
            detail="the combined queue is chosen when the leaf is created",
            hint=f"give --merge {existing.combined_queue}"
            if existing.combined_queue
            else "omit --merge; or create the leaf again: londiste drop-node"
            f" {argument(node.name)}, then"
            f" {create_hint.create(NodeType.LEAF, node.name, merge=combined)}",
        )
    if combined is None:
        return None
    if combined == queue:
        raise BadOption(
            f"queue {queue} cannot merge into itself", hint="give the combined queue to --merge"
        )
    local = sites.at(node.dsn)
    here = nodes.find_node_info(local, combined)
    if here is None or here.type is NodeType.LEAF:
        raise StateError(
            f"{describe_dsn(node.dsn)} is not a root or branch of queue {combined}",
            detail=f"queue {queue} can merge only into a queue of its own database",
            hint=f"first, with the settings of queue {combined} (queue_name = {combined}):"
            " londiste create-root NAME, or on a stand-by londiste create-branch NAME --provider"
            " DSN",
        )
    if here.type is NodeType.ROOT:
        return here.name, node.dsn
    way = upstream(sites, combined, sites.reach(here.provider_location, here.provider))
    if queue not in way.root.target_for:
        raise StateError(
            f"root {way.root.name} of queue {combined} has no leaf of queue {queue}",
            detail=f"queue {combined} carries no events of queue {queue}",
            hint=f"first, on node {way.root.name} with the settings of queue {queue}: londiste"
            f" create-leaf NAME --provider DSN --merge {word(combined)}",
        )
    return way.root.name, way.root_dsn


def _same(one: str, other: str) -> bool:
    return conninfo.conninfo_to_dict(one) == conninfo.conninfo_to_dict(other)


@dataclass(frozen=True)
class RegisterLocation(NodeStep):
    """Registers the location of ``name`` on ``node``."""

    name: str
    location: str

    def describe(self) -> str:
        return f"{self.node}: register location of {self.name}: {masked(self.location)}"

    def done(self, sites: Connections) -> bool:
        known = nodes.get_queue_locations(sites.at(self.dsn), self.queue)
        return Member(self.name, self.location) in known

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            nodes.register_location(conn, self.queue, self.name, self.location)


@dataclass(frozen=True)
class RegisterLocations(NodeStep):
    """Registers the locations of all members on ``node``."""

    members: tuple[Member, ...]

    def describe(self) -> str:
        return f"{self.node}: register locations of {', '.join(m.name for m in self.members)}"

    def done(self, sites: Connections) -> bool:
        known = nodes.get_queue_locations(sites.at(self.dsn), self.queue)
        return set(self.members) <= set(known)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            for member in self.members:
                nodes.register_location(
                    conn, self.queue, member.name, member.location, dead=member.dead
                )


@dataclass(frozen=True)
class RegisterSubscriber:
    """Registers ``name`` as subscriber of ``provider``, at the global watermark."""

    provider: str
    dsn: str = field(repr=False)
    queue: str
    name: str
    worker: str
    root_dsn: str = field(repr=False)

    def describe(self) -> str:
        return f"{self.provider}: register {self.name} as subscriber, with worker {self.worker}"

    def done(self, sites: Connections) -> bool:
        return any(
            s.name == self.name and s.worker == self.worker
            for s in nodes.get_subscriber_info(sites.at(self.dsn), self.queue)
        )

    def run(self, sites: Connections) -> None:
        newest = queues.newest_event(sites.at(self.root_dsn), self.queue)
        with sites.transaction(self.dsn) as conn:
            nodes.register_subscriber(conn, self.queue, self.name, self.worker)
            # The provider may yet hear that an earlier node of this name was dropped.
            nodes.set_subscriber_since(conn, self.queue, self.name, newest)


@dataclass(frozen=True)
class CreateRoot:
    """Makes the database the root: queue, watermarks and the worker's position."""

    node: NewNode

    def describe(self) -> str:
        return f"{self.node.name}: create root of queue {self.node.queue}"

    def done(self, sites: Connections) -> bool:
        return nodes.find_node_info(sites.at(self.node.dsn), self.node.queue) is not None

    def run(self, sites: Connections) -> None:
        node = self.node
        with sites.transaction(node.dsn) as conn:
            # An existing queue keeps its settings.
            is_new = not queues.get_queue_info(conn, node.queue)
            nodes.create_node(conn, node.queue, node.type, node.name, node.worker)
            if is_new:
                queues.set_queue_config(conn, node.queue, "ticker_max_lag", TICKER_MAX_LAG)


@dataclass(frozen=True)
class CreateNode:
    """Makes the database a branch or leaf at the position of its subscription."""

    node: NewNode
    provider: str
    provider_dsn: str = field(repr=False)

    def describe(self) -> str:
        return (
            f"{self.node.name}: create {self.node.type.value} of queue {self.node.queue},"
            f" provider {self.provider}"
            + (f", merging into {self.node.combined}" if self.node.combined else "")
        )

    def done(self, sites: Connections) -> bool:
        return nodes.find_node_info(sites.at(self.node.dsn), self.node.queue) is not None

    def run(self, sites: Connections) -> None:
        node = self.node
        source = sites.at(self.provider_dsn)
        # Not the global watermark of this moment: it may have moved since an interrupted run
        # has registered the subscriber, the subscription has not.
        consumers = queues.get_consumer_info(source, node.queue, node.worker)
        start = consumers[0].last_tick if consumers else None
        if start is None:
            raise StateError(
                f"node {self.provider}: consumer {node.worker} is no longer registered",
                hint="repeat the command",
            )
        with sites.transaction(node.dsn) as conn:
            nodes.create_node(
                conn,
                node.queue,
                node.type,
                node.name,
                node.worker,
                provider=self.provider,
                global_watermark=start,
                combined_queue=node.combined,
            )
            if node.type is NodeType.BRANCH:
                facts = position_check.look(source, node.queue, node.worker, None, start)
                if facts.tick_time is not None:
                    nodes.set_start_tick(conn, node.queue, facts.tick_time)
                # As quick as its provider, should it become the root.
                queue_settings.take_over(source, conn, node.queue)


@dataclass(frozen=True)
class AnnounceParts:
    """Publishes the positions of the parts of a combined queue in that queue.

    A leaf on a stand-by has no position of its own before it receives them.
    """

    root: str
    dsn: str = field(repr=False)
    combined: str

    def describe(self) -> str:
        return f"{self.root}: publish the positions of its parts in queue {self.combined}"

    def done(self, sites: Connections) -> bool:
        # Saying it again changes nothing.
        return False

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.dsn) as conn:
            nodes.announce_parts(conn, self.combined)
