"""Watermarks: the ticks that all nodes below have finished, and watermarks of groups.

A provider may forget a tick when all below it have finished it.  Each node reports its own position
upwards; the root sends the minimum of all, the global watermark, down: at that tick a node can be
attached anywhere.  So one node that lags keeps the events of all queues of the cascade.

A branch with the attribute ``sync_watermark=a,b`` leads a group of nodes, such as those of another
data centre.  It reports only itself upwards, so that a slow node of the group keeps events only on
the branch.  Instead of the root's watermark the branch keeps the lowest of

    the global watermark of its provider
    the tick that it and all nodes below have finished
    the tick of each node of the list, unless that is marked as failed (tag-dead) or was dropped

and sends that down instead of the root's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade import topology
from londiste.cascade.model import Member, NodeInfo, NodeType, decode_attrs, encode_attrs
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cascade.switching.steps.notes import AtNode
from londiste.db.connection import Connection
from londiste.errors import LondisteError, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step

log = logging.getLogger(__name__)

ATTR = "sync_watermark"


def group_of(info: NodeInfo) -> tuple[str, ...]:
    """The nodes of the watermark group of a node; empty without one."""
    return group_names(decode_attrs(info.attrs))


def group_names(attrs: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes of the watermark group by the attributes of its branch."""
    return tuple(n.strip() for n in attrs.get(ATTR, "").split(",") if n.strip())


def group_watermark(
    own: int | None, above: int | None, listed: Mapping[str, int | None]
) -> int | None:
    """Pure: the lowest; None when one of them is unknown, so that nothing moves."""
    values = [own, above, *listed.values()]
    known = [value for value in values if value is not None]
    return min(known) if len(known) == len(values) else None


def publish_group(
    conn: Connection, provider: Connection, queue: str, group: Iterable[str], *, extra: str = ""
) -> int | None:
    """Computes the watermark of this branch's group and moves the branch's global watermark.

    None, with a warning in the log, when a node of the group does not answer.  Unknown nodes are
    ignored: they were dropped while this one was offline.
    """
    info = nodes.get_node_info(conn, queue)
    members = {m.name: m for m in nodes.get_queue_locations(conn, queue)}
    asked = []
    for name in group:
        member = members.get(name)
        if member is None:
            log.warning("%s names the unknown node %s, which is ignored", ATTR, name)
            continue
        if not member.dead and name != info.name:
            asked.append(member)

    asker = topology.Asker.one_of(info.name, members.values())

    def question(there: Connection, member: Member) -> int | None:
        return topology.own_info(there, queue, member, asker).local_watermark

    listed: dict[str, int | None] = {}
    for name, answer in topology.ask(asked, question, extra=extra).items():
        if isinstance(answer, LondisteError):
            log.warning(
                "watermark of node %s is unknown, the group's watermark does not move: %s",
                name,
                answer,
            )
            return None
        listed[name] = answer
    above = nodes.get_node_info(provider, queue).global_watermark
    found = group_watermark(info.local_watermark, above, listed)
    if found is not None and found > (info.global_watermark or 0):
        nodes.set_global_watermark(conn, queue, found)
    return found


def rename_in_group(conn: Connection, queue: str, old: str, new: str) -> None:
    """Renames a node of the group, in the caller's transaction."""
    _replace_in_group(conn, queue, old, (new,))


def drop_from_group(conn: Connection, queue: str, name: str) -> None:
    """Removes a node from the group, in the caller's transaction; the last one ends the group."""
    _replace_in_group(conn, queue, name, ())


def _replace_in_group(conn: Connection, queue: str, old: str, new: tuple[str, ...]) -> None:
    info = nodes.find_node_info(conn, queue)
    if info is not None and old in group_of(info):
        group = [one for name in group_of(info) for one in (new if name == old else (name,))]
        _set_group(conn, info, group)


def _set_group(conn: Connection, info: NodeInfo, group: Iterable[str]) -> None:
    """Stores the group; the worker reads it before the next batch."""
    nodes.set_node_attrs(conn, info.queue, _with_group(info.attrs, group))
    nodes.set_consumer_uptodate(conn, info.queue, info.worker, False)


def plan(scene: ClusterState, name: str, group: Iterable[str]) -> list[Step]:
    """The steps that set the watermark group of branch ``name``; an empty group removes it.

    Raises UnknownNode, NodeUnreachable; StateError when it is no branch.
    """
    info = scene.info(name)
    wanted = tuple(dict.fromkeys(group))
    if wanted and info.type is not NodeType.BRANCH:
        raise StateError(
            f"node {name} is a {info.type.value}: only a branch can keep a watermark of its own",
            detail="a root has the watermark of all nodes, a leaf has no nodes below it",
            hint="name the branch that the nodes read from",
        )
    for other in wanted:
        scene.place(other)
    return [SetGroup(scene.place(name), scene.queue, wanted)]


@dataclass(frozen=True)
class SetGroup(AtNode):
    """Stores the watermark group of a branch."""

    group: tuple[str, ...]

    def describe(self) -> str:
        if not self.group:
            return f"{self.at.name}: use the root's watermark"
        return f"{self.at.name}: keep its own watermark, of {', '.join(self.group)}"

    def done(self, sites: Connections) -> bool:
        return group_of(nodes.get_node_info(sites.at(self.at.dsn), self.queue)) == self.group

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            _set_group(conn, nodes.get_node_info(conn, self.queue), self.group)


def _with_group(attrs: str | None, group: Iterable[str]) -> str | None:
    pairs = decode_attrs(attrs)
    pairs.pop(ATTR, None)
    names = ",".join(group)
    return encode_attrs({**pairs, **({ATTR: names} if names else {})})
