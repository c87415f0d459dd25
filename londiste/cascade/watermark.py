"""Watermarks: how far every node below has come, and the group of nodes that has one of its own.

A provider may forget a tick when all below it have finished it.  Each node reports its own position
upwards; the root sends the minimum of all, the global watermark, down: at that tick a node can be
attached anywhere.  So one node that lags keeps the events of all queues of the cascade.

A branch with the attribute ``sync_watermark=a,b`` stands in front of a group of nodes, say those of
another data centre.  It reports only itself upwards, so that the group keeps no events but its
own; and instead of the root's watermark it keeps the lowest of

    what its provider has as global watermark
    what it and everything below it have finished
    what each node of the list has finished, unless that is given up (tag-dead)

and hands that down in the place of the root's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade import topology
from londiste.cascade.attrs import decode_attrs, encode_attrs
from londiste.cascade.model import Member, NodeInfo, NodeType
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.db.connection import Connection
from londiste.errors import LondisteError, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step

log = logging.getLogger(__name__)

ATTR = "sync_watermark"


def group_of(info: NodeInfo) -> tuple[str, ...]:
    """The nodes whose watermark a node keeps apart; empty: it keeps none."""
    return _names(info.attrs)


def group_watermark(
    own: int | None, above: int | None, listed: Mapping[str, int | None]
) -> int | None:
    """Pure: the lowest; None when one of them is not known, so that nothing moves."""
    values = [own, above, *listed.values()]
    known = [value for value in values if value is not None]
    return min(known) if len(known) == len(values) else None


def publish_group(
    conn: Connection, provider: Connection, queue: str, group: Iterable[str], *, extra: str = ""
) -> int | None:
    """Finds out the watermark of this branch's group and moves the global watermark here.

    None, with a warning in the log, when a node of the group does not answer or is not known.
    """
    info = nodes.get_node_info(conn, queue)
    members = {m.name: m for m in nodes.get_queue_locations(conn, queue)}
    asked = []
    for name in group:
        member = members.get(name)
        if member is None:
            log.warning("%s names node %s, which is not known here: nothing moves", ATTR, name)
            return None
        if not member.dead and name != info.name:
            asked.append(member)

    asker = topology.Asker.one_of(info.name, members.values())

    def question(there: Connection, member: Member) -> int | None:
        return topology.own_info(there, queue, member, asker).local_watermark

    listed: dict[str, int | None] = {}
    for name, answer in topology.ask(asked, question, extra=extra).items():
        if isinstance(answer, LondisteError):
            log.warning("watermark of node %s is not known, nothing moves: %s", name, answer)
            return None
        listed[name] = answer
    above = nodes.get_node_info(provider, queue).global_watermark
    found = group_watermark(info.local_watermark, above, listed)
    if found is not None and found > (info.global_watermark or 0):
        nodes.set_global_watermark(conn, queue, found)
    return found


def rename_in_group(conn: Connection, queue: str, old: str, new: str) -> None:
    """A node of the group has another name now; in the caller's transaction."""
    info = nodes.get_node_info(conn, queue)
    if old in group_of(info):
        group = [new if name == old else name for name in group_of(info)]
        nodes.set_node_attrs(conn, queue, _with_group(info.attrs, group))


def plan(scene: ClusterState, name: str, group: Iterable[str]) -> list[Step]:
    """The steps that give branch ``name`` a group of nodes; none of them takes it away.

    Raises UnknownNode, NodeUnreachable; StateError when it is no branch.
    """
    info = scene.info(name)
    wanted = tuple(dict.fromkeys(group))
    if wanted and info.type is not NodeType.BRANCH:
        raise StateError(
            f"node {name} is a {info.type.value}: only a branch stands in front of a group",
            detail="a root has the watermark of all, a leaf has nobody below it",
            hint="give it to the branch that the nodes read from",
        )
    for other in wanted:
        scene.place(other)
    return [SetGroup(scene.place(name), scene.queue, info.worker, wanted)]


@dataclass(frozen=True)
class SetGroup:
    """A branch keeps the watermark of a group; its worker reads of it before its next batch."""

    at: NodeAddress
    queue: str
    worker: str
    group: tuple[str, ...]

    def describe(self) -> str:
        if not self.group:
            return f"{self.at.name}: the root's watermark holds for it"
        return f"{self.at.name}: keep a watermark of its own, of {', '.join(self.group)}"

    def done(self, sites: Connections) -> bool:
        return group_of(nodes.get_node_info(sites.at(self.at.dsn), self.queue)) == self.group

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.at.dsn) as conn:
            attrs = nodes.get_node_info(conn, self.queue).attrs
            nodes.set_node_attrs(conn, self.queue, _with_group(attrs, self.group))
            nodes.set_consumer_uptodate(conn, self.queue, self.worker, False)


def _names(attrs: str | None) -> tuple[str, ...]:
    return tuple(n.strip() for n in decode_attrs(attrs).get(ATTR, "").split(",") if n.strip())


def _with_group(attrs: str | None, group: Iterable[str]) -> str | None:
    pairs = decode_attrs(attrs)
    pairs.pop(ATTR, None)
    names = ",".join(group)
    return encode_attrs({**pairs, **({ATTR: names} if names else {})})
