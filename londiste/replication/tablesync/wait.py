"""``wait-sync``, ``wait-root`` and ``wait-provider``: wait until a node has caught up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from londiste.cascade import daemons
from londiste.cascade import sqlapi as nodes
from londiste.cascade.daemons import Life
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.errors import LondisteError, StateError, TransientError
from londiste.pgq import queues
from londiste.replication import sqlapi as tables
from londiste.replication.apply import errors
from londiste.replication.model import ReplicatedTable
from londiste.replication.patterns import named
from londiste.wording import shortened

_POLL_SECONDS = 0.2
#: The same while only what another server tells is waited for.
_BEYOND_SECONDS = 1.0
#: Seconds in which a ticker that runs makes a tick it was asked for.
TICK_SECONDS = 10.0
#: The command that starts the worker of the node that a call is about.
START = "londiste worker"


def wait_sync(
    conn: Connection,
    queue: str,
    *,
    timeout: float | None,
    only: Sequence[TableName] = (),
    progress: Callable[[list[ReplicatedTable]], None] = lambda _: None,
    trouble: Callable[[str], None] = lambda _: None,
    start: str = START,
    beyond: Callable[[], NotCurrent | None] = lambda: None,
) -> list[ReplicatedTable]:
    """Waits until all local tables (or those of ``only``) are ok and current; returns them.

    timeout -- seconds, None for no limit.
    progress -- called with the tables at each poll.
    trouble -- called once with every error that blocks the worker or a copy during the wait, and
        with every change of a worker that is paused or does not run.
    start -- the command that starts the worker.
    beyond -- why the tables are not current although the worker applies what it gets.
    Raises UnknownTable, TransientError when the time is over.
    """
    began = time.monotonic()
    told: set[str] = set()
    idle: object = None
    while True:
        mine = [t for t in tables.get_table_list(conn, queue) if t.local]
        mine = named(mine, only)
        progress(mine)
        left = [t for t in mine if t.state != "ok"]
        waited = time.monotonic() - began
        # One that was started just now has not reported yet.
        never = bool(left) and waited >= daemons.RECONNECT
        stale = find(conn, queue, start=start, never=never) if mine else None
        pause = _POLL_SECONDS
        if mine and not left and stale is None:
            # It may ask another server.
            stale, pause = beyond(), _BEYOND_SECONDS
        if not left and stale is None:
            return mine
        if timeout is not None and waited >= timeout:
            if left or stale is None:
                raise _not_in_step(conn, queue, left, timeout, start)
            raise TransientError(
                f"the tables are not current after {timeout:g} s",
                detail=stale.reason,
                hint="londiste status",
            )
        now = stale.mark if stale is not None else None
        if stale is not None and now != idle and stale.state in _IDLE:
            trouble(stale.reason)
        idle = now
        halted = [stale.reason] if stale is not None and stale.state == "halted" else []
        for error in (*halted, *_errors(conn, queue)):
            if error not in told:
                told.add(error)
                trouble(error)
        time.sleep(pause)


def wait_tick(
    conn: Connection, queue: str, tick: int, *, timeout: float | None, what: str
) -> NodeInfo:
    """Waits until the worker of the node has finished ``tick``; returns the node.

    Raises TransientError when the time is over.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        info = nodes.get_node_info(conn, queue)
        if info.last_tick >= tick:
            return info
        if deadline is not None and time.monotonic() >= deadline:
            raise TransientError(
                f"node {info.name} did not reach tick {tick} of {what} within {timeout:g} s",
                detail=_why(conn, queue, info),
                hint="check londiste status and the log of its worker",
            )
        time.sleep(_POLL_SECONDS)


def _not_in_step(
    conn: Connection, queue: str, left: Sequence[ReplicatedTable], timeout: float, start: str
) -> TransientError:
    shown = shortened([f"{t.name} ({t.state or 'to be copied'})" for t in left])
    return TransientError(
        f"{len(left)} tables are not in sync after {timeout:g} s: {shown}",
        detail=_why(conn, queue, nodes.get_node_info(conn, queue), start),
        hint=f"start the worker if it does not run: {start}; check its log",
    )


def _why(conn: Connection, queue: str, info: NodeInfo, start: str = START) -> str:
    reasons = _errors(conn, queue)
    found = find(conn, queue, start=start, never=True)
    if found is not None and found.state in _IDLE:
        reasons.insert(0, found.reason)
    if reasons:
        return "; ".join(reasons)
    if found is not None:
        return found.reason
    return f"it is at tick {info.last_tick}"


def _errors(conn: Connection, queue: str) -> list[str]:
    return [f"{c.name}: {c.cur_error}" for c in nodes.get_consumer_info(conn, queue) if c.cur_error]


def tick_now(conn: Connection, queue: str, *, timeout: float = TICK_SECONDS) -> int:
    """Returns a tick of the root at ``conn`` that contains all commits before the call.

    Requests one from its ticker; raises StateError when none is created in time.
    """
    with conn.transaction():
        # Waits for a tick that is being made: its snapshot may be older than this call.
        queues.lock_ticks(conn, queue)
    before = queues.force_tick(conn, queue) or 0
    deadline = time.monotonic() + timeout
    while True:
        newest = max((i.last_tick_id or 0 for i in queues.get_queue_info(conn, queue)), default=0)
        if newest > before:
            return newest
        if time.monotonic() >= deadline:
            raise StateError(
                f"queue {queue}: no tick was created within {timeout:g} s",
                hint="start the ticker of that database: londiste ticker",
            )
        time.sleep(_POLL_SECONDS)


_STOPPED = (Life.GONE, Life.HUNG, Life.STOPPED)
#: States of a worker that does nothing although nothing is wrong with an event or a session.
_IDLE = ("paused", "stale")


@dataclass(frozen=True)
class NotCurrent:
    """Why a node applies nothing.

    state -- instead of ``ok`` for its tables: halted (an event), failing (another error), paused,
        or stale (no worker runs).
    mark -- of a worker that does not run: another value when another one has ended, or in
        another way; the reason also counts seconds.
    """

    state: str
    reason: str
    mark: tuple[object, ...] = ()


def find(
    conn: Connection, queue: str, *, start: str = START, never: bool = False
) -> NotCurrent | None:
    """Why the node of ``conn`` applies nothing; None: it does, or is the root.

    start -- the command that starts its worker.
    never -- a worker that has never reported counts as one that does not run; ``worker --once``
        does not report.
    """
    node = nodes.get_node_info(conn, queue)
    if node.type is NodeType.ROOT:
        return None
    failed = _halted(conn, queue, node)
    if failed is not None and failed.state != "failing":
        return failed
    ended = _ended(conn, queue, node, start, never)
    # The error of a worker that has ended is that of the past.
    return ended if failed is None or (ended is not None and ended.state == "stale") else failed


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


def _ended(
    conn: Connection, queue: str, node: NodeInfo, start: str, never: bool
) -> NotCurrent | None:
    if node.paused:
        resume = f"paused: londiste resume --node {argument(node.name)}"
        return NotCurrent("paused", resume, ("paused",))
    worker = daemons.worker(conn, queue, daemons.find(conn, queue), name=node.worker, start=start)
    if worker.life in _STOPPED or (never and worker.life is Life.NEVER):
        mark = (worker.life, worker.host, worker.pid, worker.started)
        return NotCurrent("stale", worker.text, mark)
    return None
