"""Alignment of both sides of a comparison at one tick, without locks on tables.

The root's rows are read in a snapshot that is itself made a tick of the queue; the node is
held when it has applied exactly this tick, and its rows are read in a snapshot of that moment:

    root    lock_ticks ── snapshot S exported ── tick T with snapshot S ── commit
    node                         hold at T ──┘          … worker reaches T ── snapshot exported
                                                                            └─ hold released

While ticks are locked no other session can tick the queue (a few milliseconds); writers never wait.
The hold is stored before T can be seen, so the worker cannot run past it unnoticed; if a worker
that joins ticks does, the alignment starts again with a new tick.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.compare.standby_side import StandbySide
from londiste.db.connection import Connection, connect
from londiste.db.queries import translated
from londiste.errors import StateError, TransientError
from londiste.pgq import queues
from londiste.replication.tablesync import wait

log = logging.getLogger(__name__)

#: Maximum seconds that a killed process pauses the worker; a waiting process renews the pause.
_HOLD_SECONDS = 15
_ATTEMPTS = 5
#: Seconds between two looks for an event that halts the worker.
_LOOK_SECONDS = 2.0


@dataclass(frozen=True)
class Aligned:
    """Two transactions that are kept open, each seeing its side at the same tick.

    root_dsn -- where the root's rows are read: the root, or a standby of it.
    """

    tick_id: int
    root_dsn: str
    root_snapshot: str
    node_dsn: str
    node_snapshot: str


@contextlib.contextmanager
def aligned(
    queue: str,
    consumer: str,
    root_dsn: str,
    node_dsn: str,
    *,
    timeout: float,
    progress: Callable[[str], None],
    hold: bool = False,
    standby: StandbySide | None = None,
) -> Iterator[Aligned]:
    """Both sides at one tick for the length of the with block.

    consumer -- the node's worker.
    timeout -- seconds to wait for the worker to reach the tick.
    hold -- the worker stays at the tick until the block ends, some seconds at most.
    standby -- of the root: the root's rows are read there, as far as it is usable.
    Raises StateError with the known reason when the worker does not reach the tick in time.
    """
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(_session(root_dsn))
        reader = stack.enter_context(_session(root_dsn))
        node = stack.enter_context(_session(node_dsn))
        hold_on = stack.enter_context(_session(node_dsn)) if hold else node
        for _ in range(_ATTEMPTS):
            stack.callback(_release, node_dsn, queue, consumer)
            taken = None
            if standby is not None:
                stack.callback(standby.release)
                held = functools.partial(_hold, node, queue, consumer)
                taken = standby.tick(root, queue, held)
            place = root_dsn if standby is None or taken is None else standby.dsn
            root_snapshot, tick = taken or _tick_with_snapshot(root, reader, node, queue, consumer)
            progress(f"waiting for tick {tick}")
            node_snapshot = _node_at(node, queue, consumer, tick, timeout)
            if hold and node_snapshot is not None:
                nodes.set_consumer_hold(hold_on, queue, consumer, tick, _HOLD_SECONDS, _holder())
            else:
                _release(node_dsn, queue, consumer)
            if node_snapshot is not None:
                yield Aligned(tick, place, root_snapshot, node_dsn, node_snapshot)
                return
            log.info("worker passed tick %d, retrying with a new tick", tick)
            reader.rollback()
            if standby is not None:
                standby.release()
        raise StateError(
            f"queue {queue}: the worker does not pause at a tick",
            detail=f"it passed {_ATTEMPTS} requested ticks",
            hint="run a worker of this program's version, or unset pgq_batch_collect_*",
        )


def _session(dsn: str) -> contextlib.closing[Connection]:
    return contextlib.closing(connect(dsn, name="londiste compare", autocommit=True))


def _holder() -> str:
    """Name of the pause's owner: distinguishes comparisons that run at the same time."""
    return f"compare pid {os.getpid()} on {socket.gethostname()}"


def _release(dsn: str, queue: str, consumer: str) -> None:
    """Resumes the worker after any error; the pause also expires."""
    with contextlib.suppress(TransientError), _session(dsn) as conn:
        nodes.clear_consumer_hold(conn, queue, consumer, _holder())


def _tick_with_snapshot(
    root: Connection, reader: Connection, node: Connection, queue: str, consumer: str
) -> tuple[str, int]:
    with translated(root), root.transaction():
        queues.lock_ticks(root, queue)
        exported, seen = _export(reader)
        tick = queues.tick_at_snapshot(root, queue, seen)
        _hold(node, queue, consumer, tick)
    return exported, tick


def _hold(node: Connection, queue: str, consumer: str, tick: int) -> None:
    """Pauses the worker at a tick to come: committed before the tick is, so it cannot miss it."""
    nodes.set_consumer_hold(node, queue, consumer, tick, _HOLD_SECONDS, _holder())


def _export(conn: Connection) -> tuple[str, str]:
    """Opens a REPEATABLE READ transaction and exports its snapshot; (name, txid snapshot)."""
    conn.execute("begin isolation level repeatable read, read only")
    row = conn.execute("select pg_export_snapshot(), txid_current_snapshot()::text").fetchone()
    assert row is not None
    return str(row[0]), str(row[1])


def _node_at(node: Connection, queue: str, consumer: str, tick: int, timeout: float) -> str | None:
    """The node's snapshot at exactly this tick; None when the worker went past it."""
    deadline = time.monotonic() + timeout
    renew = time.monotonic() + _HOLD_SECONDS / 3
    looked = -_LOOK_SECONDS
    while True:
        exported, _ = _export(node)
        state = nodes.get_consumer_state(node, queue, consumer)
        if state.completed_tick == tick:
            return exported
        node.execute("rollback")
        if state.completed_tick > tick:
            return None
        if time.monotonic() > looked + _LOOK_SECONDS:
            looked = time.monotonic()
            cause = wait.find(node, queue)
            if cause is not None and cause.state == "halted":
                raise StateError(
                    f"queue {queue}: worker {consumer} is {cause.reason.partition(': ')[0]}",
                    detail="rows can be compared at a tick only, which the worker does not reach",
                    hint="decide about the event first: londiste events show",
                )
        if time.monotonic() > deadline:
            raise StateError(
                f"queue {queue}: worker {consumer} did not reach tick {tick} in {timeout:g} s",
                detail=state.cur_error
                or f"it is at tick {state.completed_tick}"
                + (" and is paused" if state.paused else ""),
                hint="resume it: londiste resume"
                if state.paused
                else "start it: londiste worker; or check it: londiste status",
            )
        if time.monotonic() > renew:
            renew += _HOLD_SECONDS / 3
            _hold(node, queue, consumer, tick)
        time.sleep(0.02)
