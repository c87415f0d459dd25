"""Steps that wait until a node reaches a tick, with a timeout."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.steps.notes import AtNode, NodeAddress
from londiste.daemon.waiting import wait_until
from londiste.db.connection import Connection
from londiste.db.names import word
from londiste.errors import StateError, TransientError
from londiste.orchestration.connections import Connections
from londiste.pgq import queues
from londiste.wording import at_node, hint_in

#: Seconds between polls.
POLL_SECONDS = 0.02
#: A node that catches up within this time is close to the other one.
_CLOSE_SECONDS = 0.25
#: Maximum seconds to wait for that, and the seconds of it without ticks of the root at a time.
_CLOSER_SECONDS, _HOLD_SECONDS = 30.0, 0.9
#: A node whose wait shrinks by less than this factor does not get closer any more.
_NEARER = 0.7


@dataclass(frozen=True)
class WaitTick(AtNode):
    """Waits until a node has reached a tick: in its tables and, on a branch, in its queue."""

    tick: Callable[[], int]
    timeout: float
    why: str

    def describe(self) -> str:
        return f"{self.at.name}: wait up to {self.timeout:g} s until it has {self.why}"

    def done(self, sites: Connections) -> bool:
        try:
            tick = self.tick()
        except StateError:
            # There is no such tick yet.
            return False
        conn = sites.at(self.at.dsn)
        return reached(conn, nodes.get_node_info(conn, self.queue), tick)

    def run(self, sites: Connections) -> None:
        wait_tick(sites.at(self.at.dsn), self.queue, self.tick(), self.timeout, self.why)


@dataclass(frozen=True)
class CatchUp:
    """Reduces the lag of a node, so that the last tick of the root takes little time.

    Waits up to ``timeout`` seconds for the present ticks of the root.  Then waits a few times for
    the events that came during the last wait.  The root creates no ticks for that time: a branch
    applies each of them separately, and a busy root creates them faster than a busy branch applies
    them.  Writing continues; the events come with the next tick.  A node that does not get close
    enough is accepted; the caller's time limit applies to it.
    """

    at: NodeAddress
    of: NodeAddress
    queue: str
    timeout: float

    def describe(self) -> str:
        what = f"the present ticks of {self.of.name}"
        return f"{self.at.name}: wait up to {self.timeout:g} s until it has {what}"

    def done(self, sites: Connections) -> bool:
        # What was close a moment ago may be far now.
        return False

    def run(self, sites: Connections) -> None:
        tick = newest_tick(sites.at(self.of.dsn), self.queue)
        why = f"the present ticks of {self.of.name}"
        wait_tick(sites.at(self.at.dsn), self.queue, tick, self.timeout, why)
        found = operation_log.find(sites.at(self.of.dsn), self.queue)
        if found is not None and found.last_tick is not None:
            # It is closed already, and there is nothing to come.
            return
        deadline = time.monotonic() + min(self.timeout, _CLOSER_SECONDS)
        before = math.inf
        while (began := time.monotonic()) < deadline:
            if not drained(sites, self.at, self.of, self.queue):
                continue
            took = time.monotonic() - began
            if took <= _CLOSE_SECONDS or took > _NEARER * before:
                return
            before = took


def drained(sites: Connections, at: NodeAddress, of: NodeAddress, queue: str) -> bool:
    """Whether ``at`` reaches the newest tick of ``of`` while that creates no other one.

    Takes ``_HOLD_SECONDS`` at most; a ticker skips the queue during that time.
    """
    try:
        # The lock is on the row of the queue; producers do not need it.
        with sites.transaction(of.dsn) as conn:
            tick = queues.lock_ticks(conn, queue)
            wait_tick(sites.at(at.dsn), queue, tick or 0, _HOLD_SECONDS, f"all ticks of {of.name}")
    except TransientError:
        return False
    return True


def reached(conn: Connection, info: NodeInfo, tick: int) -> bool:
    """Whether tables and queue of a node have reached ``tick``."""
    if info.last_tick < tick:
        return False
    return info.type is NodeType.LEAF or newest_tick(conn, info.queue) >= tick


def newest_tick(conn: Connection, queue: str) -> int:
    """The newest tick of the queue in a database; 0 without one."""
    return max((i.last_tick_id or 0 for i in queues.get_queue_info(conn, queue)), default=0)


def wait_tick(conn: Connection, queue: str, tick: int, timeout: float, why: str) -> NodeInfo:
    """Waits until the node has reached ``tick``; returns it.  TransientError after ``timeout``."""
    info = nodes.get_node_info(conn, queue)

    def arrived() -> bool:
        nonlocal info
        info = nodes.get_node_info(conn, queue)
        return reached(conn, info, tick)

    if not wait_until(arrived, timeout, poll=POLL_SECONDS):
        errors = {
            c.name: c.cur_error for c in nodes.get_consumer_info(conn, info.queue) if c.cur_error
        }
        hint = hint_in(errors.get(info.worker, ""))
        if info.paused:
            hint = f"londiste resume --node {word(info.name)}"
        elif hint:
            hint = at_node(hint, info.name)
        raise TransientError(
            f"node {info.name} does not have {why} after {timeout:g} s",
            detail=_position(info, tick, errors),
            hint=hint or f"check the log of worker {info.worker}, and londiste status",
        )
    return info


def _position(info: NodeInfo, tick: int, errors: Mapping[str, str]) -> str:
    words = [f"it is at tick {info.last_tick} of {tick}"]
    if info.paused:
        words.append("its worker is paused")
    return "; ".join([*words, *(f"{name}: {error}" for name, error in errors.items())])
