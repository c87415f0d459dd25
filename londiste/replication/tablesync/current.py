"""Whether the tables of a node are current: a node that applies nothing has old rows."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.cascade import daemons
from londiste.cascade import sqlapi as nodes
from londiste.cascade.daemons import Life
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.errors import LondisteError
from londiste.replication.apply import errors

_STOPPED = (Life.GONE, Life.HUNG, Life.STOPPED)


@dataclass(frozen=True)
class NotCurrent:
    """Why a node applies nothing.

    state -- instead of ``ok`` for its tables: halted (an event), failing (another error), paused,
        or stale (no worker runs).
    """

    state: str
    reason: str


def find(conn: Connection, queue: str) -> NotCurrent | None:
    """Why the node of ``conn`` applies nothing; None: it does, or is the root."""
    node = nodes.get_node_info(conn, queue)
    if node.type is NodeType.ROOT:
        return None
    return _halted(conn, queue, node) or _ended(conn, queue, node)


def _halted(conn: Connection, queue: str, node: NodeInfo) -> NotCurrent | None:
    try:
        found = errors.get_apply_errors(conn, queue, every=False)
    except LondisteError:
        found = []
    for one in found:
        if one.state == "halted" and one.consumer == node.worker:
            return NotCurrent(
                "halted", f"halted at event {one.address} of {one.table}: londiste events show"
            )
    for consumer in nodes.get_consumer_info(conn, queue):
        if consumer.name == node.worker and consumer.cur_error:
            return NotCurrent("failing", f"{consumer.name}: {consumer.cur_error.splitlines()[0]}")
    return None


def _ended(conn: Connection, queue: str, node: NodeInfo) -> NotCurrent | None:
    if node.paused:
        return NotCurrent("paused", f"paused: londiste resume --node {node.name}")
    worker = daemons.running(
        daemons.find(conn, queue), "worker", name=node.worker, start="londiste -c FILE worker"
    )
    return NotCurrent("stale", worker.text) if worker.life in _STOPPED else None
