"""Fencing: a failed root that returns refuses writes once it finds its successor.

The worker of a root asks the other nodes when it starts and periodically afterwards: those that it
knows, and those that they name.  The root fences itself when one of them, which does not read from
it, shows that another node has replaced it:

    a gravestone     the node keeps events for the failed root, since it has replaced it
    the failed mark  of a node that is the root now (tag-dead, a step of every failover of a root)
    was dropped      the node has dropped the root while that was marked as failed

A branch may have missed that a mark was cleared.  So what it says counts only if its root does not
know the failed one, or does not answer and is unknown to it.  The old root has not marked the new
one, which therefore continues.  Another cascade whose queue has the same name has no mark.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from londiste.cascade import create_hint, topology
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import Member, NodeInfo, NodeType
from londiste.cascade.own_consumers import GRAVESTONE
from londiste.cascade.switching import operation_log
from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import argument, word
from londiste.errors import StateError

#: Seconds between looks of a root whether another one has taken its place.
PERIOD = 10.0


@dataclass(frozen=True)
class Report:
    """What another node knows of a root.

    provider -- the node that it reads from; empty for a root.
    listed -- it has the root in its list, at its location.
    dead -- the root is marked as failed.
    keeps -- it keeps events for the root, to rejoin it.
    dropped -- it has dropped the root while that was marked as failed.
    members -- the nodes that it knows.
    """

    name: str
    provider: str = ""
    listed: bool = True
    dead: bool = False
    keeps: bool = False
    dropped: bool = False
    members: tuple[Member, ...] = ()


@dataclass(frozen=True)
class Successor:
    """The node that has replaced a root; ``keeps``: a node keeps events to rejoin that."""

    name: str
    keeps: bool


def successor(name: str, known: Collection[str], found: Mapping[str, Report]) -> Successor | None:
    """Pure: the successor of root ``name`` by the answers of other nodes; None without one.

    known -- the nodes that the root knows itself.
    """
    kept = any(one.keeps for one in found.values())
    for one in sorted(found.values(), key=lambda one: (one.provider, one.name)):
        top = _top(one.name, found)
        if top in (None, name):
            continue
        root = found.get(top)
        counts = root is one or (not root.listed if root is not None else top not in known)
        if one.keeps or (counts and (one.dead or one.dropped)):
            return Successor(top, kept)
    return None


def _top(name: str, found: Mapping[str, Report]) -> str | None:
    """The root above a node, or the first node on the way that does not answer; None: a circle."""
    seen: set[str] = set()
    while name in found and found[name].provider:
        if name in seen:
            return None
        seen.add(name)
        name = found[name].provider
    return name


def replaced_by(conn: Connection, queue: str, name: str, *, extra: str = "") -> Successor | None:
    """What has replaced root ``name``, as far as other nodes answer; or None.

    conn -- on the database of ``name``.
    A node that does not answer delays the result by some seconds.
    """
    members = {m.name: m for m in nodes.get_queue_locations(conn, queue)}
    known, location = frozenset(members), members[name].location
    found: dict[str, Report] = {}
    asked = {name}

    def question(there: Connection, member: Member) -> Report:
        info = topology.own_info(
            there, queue, member, topology.Asker.one_of(name, members.values())
        )
        return _report(there, info, name, location)

    while waiting := [m for m in members.values() if m.name not in asked]:
        asked.update(m.name for m in waiting)
        for answer in topology.ask(waiting, question, extra=extra).values():
            if isinstance(answer, Report):
                found[answer.name] = answer
                asked.add(answer.name)
                members = {m.name: m for m in answer.members} | members
    return successor(name, known, found)


def _report(conn: Connection, info: NodeInfo, name: str, location: str) -> Report:
    """What a node knows of root ``name`` at ``location``."""
    queue = info.queue
    listed = nodes.get_queue_locations(conn, queue)
    provider = "" if info.type is NodeType.ROOT else info.provider
    dropped = nodes.was_dropped(conn, queue, name, location)
    if dropped and provider == name and info.provider_location != location:
        # A node of that name was made elsewhere.
        provider = f"another node {name}"
    subscribers = () if info.type is NodeType.LEAF else nodes.get_subscriber_info(conn, queue)
    return Report(
        info.name,
        provider,
        listed=any(m.name == name and m.location == location for m in listed),
        dead=any(m.name == name and m.dead for m in listed),
        keeps=any(s.worker == GRAVESTONE.format(name) for s in subscribers),
        dropped=dropped,
        members=tuple(listed),
    )


def combined_anew(conn: Connection, queue: str) -> str:
    """How a combined root that was replaced becomes a stand-by, as a hint; empty for other nodes.

    conn -- on its database.
    """
    info = nodes.get_node_info(conn, queue)
    leaves = {part: nodes.get_node_info(conn, part) for part in info.target_for}
    if not leaves:
        return ""
    drops = [
        f"with the settings of queue {part}: londiste drop-node {argument(leaf.name)}"
        for part, leaf in leaves.items()
    ]
    creates = [
        f"with the settings of queue {part}: {create_hint.like(conn, leaf)}, and londiste"
        " add-table TABLE"
        for part, leaf in leaves.items()
    ]
    where = create_hint.location_of(conn, queue, info.name)
    stand_by = create_hint.create(NodeType.BRANCH, info.name, where)
    return (
        f"{'; '.join(drops)}; with the settings of queue {queue}: londiste drop-node"
        f" {argument(info.name)}, and {stand_by}; {'; '.join(creates)}"
    )


class Fence:
    """Checks periodically whether a root was replaced."""

    def __init__(self) -> None:
        self._next = time.monotonic()

    def look(self, conn: Connection, queue: str, name: str, *, extra: str = "") -> None:
        """Makes root ``name`` refuse events when another root has replaced it; checks when due.

        conn -- on its database.  Raises StateError then, each time, until an operator acts.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PERIOD
        other = replaced_by(conn, queue, name, extra=extra)
        if other is None:
            return
        # Check again at once: the finding holds until an operator acts.
        self._next = 0.0
        operation_log.fence_root(conn, queue)
        ours, kept = argument(name), f"events that only {name} has are kept"
        if anew := combined_anew(conn, queue):
            raise StateError(
                f"root {name} of queue {queue} was replaced by {other.name}: writes are refused",
                detail=f"{kept} until it is dropped; a combined root cannot rejoin with them",
                hint=anew,
            )
        if not other.keeps:
            # The command drop-node would drop a new node of that name everywhere.
            where, above = (create_hint.location_of(conn, queue, one) for one in (name, other.name))
            create = create_hint.create(NodeType.BRANCH, name, where, provider=above)
            raise StateError(
                f"root {name} of queue {queue} was replaced by {other.name}: writes are refused",
                detail=f"{kept}; {name} cannot rejoin, because it was dropped from the cascade",
                hint="save these events; then, in its database: select pgq_node.drop_node"
                f"({literal(queue)}, {literal(name)}), and {create}",
            )
        raise StateError(
            f"root {name} of queue {queue} was replaced by {other.name}: writes are refused",
            detail=kept,
            hint=f"londiste resurrect --node {word(ours)} exports them and makes the node a branch"
            f" below {other.name}",
        )
