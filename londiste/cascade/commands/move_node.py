"""``move-node``: the node has another connection string; each node of the cascade learns it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.create_node import RegisterLocation
from londiste.cascade.commands.location_check import check_location
from londiste.cascade.model import Member
from londiste.db.advisory_lock import same_database
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import argument
from londiste.errors import LondisteError, NodeUnreachable, StateError, UnknownNode, UsageError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.pgq import position_check
from londiste.wording import did_you_mean


@dataclass(frozen=True)
class Move:
    """What is to do.

    steps -- for the nodes that answer; silent -- the others, which are not marked as failed.
    lost -- the subscribers that cannot continue at the node, with the reason and what helps.
    """

    steps: Sequence[Step]
    silent: tuple[str, ...]
    lost: tuple[str, ...]


def plan(sites: Connections, dsn: str, queue: str, name: str, location: str) -> Move:
    """The steps that store the new location of node ``name`` on every node that answers.

    dsn -- of any node of the queue; location -- how other nodes reach the node now, no password.

    Raises BadOption for the location, UnknownNode, UsageError if it leads to another node,
    NodeUnreachable, and StateError for a copy of a node that still answers, or a node that is
    marked as failed.
    """
    check_location(location)
    here = sites.at(dsn)
    nodes.get_node_info(here, queue)
    known = {m.name: m for m in nodes.get_queue_locations(here, queue)}
    if name not in known:
        names = sorted(known)
        raise UnknownNode(
            f"queue {queue} has no node {name}",
            hint=did_you_mean(name, names, f"the nodes are {', '.join(names)}"),
        )
    new = sites.reach(location)
    found = nodes.find_node_info(sites.at(new), queue)
    if found is None or found.name != name:
        what = "no node" if found is None else f"node {found.name}"
        raise UsageError(
            f"{describe_dsn(new)} is {what} of queue {queue}, not node {name}",
            hint="correct the connection string; for the name of a node: londiste rename-node",
        )
    # The node itself may know nodes that are not known here.
    known |= {m.name: m for m in nodes.get_queue_locations(sites.at(new), queue)}
    if known[name].dead:
        raise StateError(
            f"node {name} is marked as failed",
            hint=f"if nothing has replaced it: londiste tag-alive {argument(name)}",
        )
    _refuse_copy(sites, queue, known[name], location, new)
    reached, silent, lost = {name: new}, [], []
    for member in known.values():
        if member.name == name or member.dead:
            continue
        try:
            at = sites.reach(member.location, member.name)
        except StateError:
            silent.append(member.name)
            continue
        if not _is_node(sites, at, queue, member.name):
            silent.append(member.name)
            continue
        reached[member.name] = at
        if reason := _lost(sites.at(at), sites.at(new), queue, name):
            lost.append(reason)
    steps = [
        RegisterLocation(node, at, queue, name, location) for node, at in sorted(reached.items())
    ]
    return Move(steps, tuple(sorted(silent)), tuple(sorted(lost)))


def _lost(conn: Connection, provider: Connection, queue: str, name: str) -> str | None:
    """Why the node of ``conn`` cannot continue at the moved node; None if it can.

    A root may have come back by a dump that ends before the positions of its subscribers.
    """
    info = nodes.get_node_info(conn, queue)
    if info.provider != name:
        return None
    known = position_check.recall(conn, queue, info.worker)
    if known is None:
        return None
    facts = position_check.look(provider, queue, info.worker, known, info.last_tick)
    reason = position_check.rewind_obstacle(known, facts, name, info.last_tick)
    return reason and (
        f"node {info.name} cannot continue at tick {info.last_tick}: {reason}; stop its worker,"
        f" and with the settings of node {info.name}: londiste worker --rewind"
    )


def _is_node(sites: Connections, dsn: str, queue: str, name: str) -> bool:
    """Whether the database answers and is this node."""
    try:
        info = nodes.find_node_info(sites.at(dsn), queue)
    except (LondisteError, psycopg.Error):
        return False
    return info is not None and info.name == name


def _refuse_copy(sites: Connections, queue: str, old: Member, location: str, new: str) -> None:
    """Raises StateError when the node answers at its old location, and that is another database."""
    if old.location == location:
        return
    try:
        before = sites.reach(old.location)
    except StateError:
        # Of such a location the command gets rid.
        return
    if not _is_node(sites, before, queue, old.name):
        return
    if same_database(sites.at(before), sites.at(new)):
        return
    raise StateError(
        f"node {old.name} still answers at its old location: {describe_dsn(old.location)}",
        detail=f"{describe_dsn(new)} is a copy of it, and both would take part in the cascade",
        hint="stop the old server for good, and repeat the command",
    )


def refuse_silent(move: Move, name: str, location: str) -> None:
    """Raises NodeUnreachable when a node still has the old location."""
    if move.silent:
        raise NodeUnreachable(
            f"node {', '.join(move.silent)} did not answer and may have the old location of {name}",
            detail="the other nodes have the new one",
            hint="repeat the command when they answer, or run it with their settings: londiste"
            f" move-node {argument(name)} {argument(location)}",
        )
