"""Alignment of both sides of a comparison at one tick, without locks on tables.

The root's rows are read in a snapshot that is itself made a tick of the queue; the node is
held when it has applied exactly this tick, and its rows are read in a snapshot of that moment:

    root                     lock_ticks ── snapshot S exported ── tick T with snapshot S ── commit
    node    hold at an older tick ──┘    hold at T … worker reaches T ── snapshot exported
                                                                       └─ hold released

While ticks are locked no other session can tick the queue (a few milliseconds); writers never wait,
and nothing is asked of the node, which may have fallen silent.  A hold is stored before T can be
seen, so the worker cannot run past it unnoticed; if a worker that joins ticks does, the alignment
starts again with a new tick.
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

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.compare.standby_side import StandbySide
from londiste.db.connection import IDLE_SECONDS, Connection, session
from londiste.db.queries import translated
from londiste.errors import StateError, TransientError
from londiste.pgq import queues, ticks
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
    answer_seconds -- for sessions that read them: a server that sends nothing for this time and
        does not work is lost.
    """

    tick_id: int
    root_dsn: str
    root_snapshot: str
    node_dsn: str
    node_snapshot: str
    answer_seconds: float | None = None


@contextlib.contextmanager
def aligned(
    queue: str,
    consumer: str,
    root_dsn: str,
    node_dsn: str,
    *,
    timeout: float,
    answer_seconds: float | None,
    progress: Callable[[str], None],
    hold: bool = False,
    standby: StandbySide | None = None,
) -> Iterator[Aligned]:
    """Both sides at one tick for the length of the with block.

    consumer -- the node's worker.
    timeout -- seconds to wait for the worker to reach the tick.
    answer_seconds -- of the sessions of both sides, see ``Aligned``.
    hold -- the worker stays at the tick until the block ends, some seconds at most.
    standby -- of the root: the root's rows are read there, as far as it is usable.
    Raises StateError with the known reason when the worker does not reach the tick in time.
    """
    with contextlib.ExitStack() as stack:
        opened = functools.partial(_session, answer_seconds=answer_seconds)
        root = stack.enter_context(opened(root_dsn, idle_timeout_ms=IDLE_SECONDS * 1000))
        reader = stack.enter_context(opened(root_dsn))
        node = stack.enter_context(opened(node_dsn))
        hold_on = stack.enter_context(opened(node_dsn)) if hold else node
        halt = functools.partial(_halt, root, node, queue, consumer)
        for _ in range(_ATTEMPTS):
            stack.callback(_release, opened, node_dsn, queue, consumer)
            taken = None
            if standby is not None:
                stack.callback(standby.release)
                taken = standby.tick(root, queue, halt)
            place = root_dsn if standby is None or taken is None else standby.dsn
            root_snapshot, tick = taken or _tick_with_snapshot(root, reader, queue, halt)
            progress(f"waiting for tick {tick}")
            node_snapshot = _node_at(node, queue, consumer, tick, timeout)
            if hold and node_snapshot is not None:
                _held(hold_on, queue, consumer, tick)
            else:
                _release(opened, node_dsn, queue, consumer)
            if node_snapshot is not None:
                yield Aligned(tick, place, root_snapshot, node_dsn, node_snapshot, answer_seconds)
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


@contextlib.contextmanager
def _session(
    dsn: str, *, answer_seconds: float | None, idle_timeout_ms: int = 0
) -> Iterator[Connection]:
    with session(
        dsn,
        name="londiste compare",
        autocommit=True,
        idle_timeout_ms=idle_timeout_ms,
        silent_seconds=answer_seconds,
    ) as conn:
        yield conn
        with contextlib.suppress(psycopg.Error):
            # Its server keeps the snapshot of a lost connection: without an answer it is told.
            conn.rollback()


def _holder() -> str:
    """Name of the pause's owner: distinguishes comparisons that run at the same time."""
    return f"compare pid {os.getpid()} on {socket.gethostname()}"


def _release(
    opened: Callable[[str], contextlib.AbstractContextManager[Connection]],
    dsn: str,
    queue: str,
    consumer: str,
) -> None:
    """Resumes the worker after any error; the pause also expires."""
    with contextlib.suppress(TransientError), opened(dsn) as conn:
        nodes.clear_consumer_hold(conn, queue, consumer, _holder())


def _tick_with_snapshot(
    root: Connection, reader: Connection, queue: str, halt: Callable[[], None]
) -> tuple[str, int]:
    halt()
    with translated(root), root.transaction():
        queues.lock_ticks(root, queue)
        exported, seen = _export(reader)
        tick = queues.tick_at_snapshot(root, queue, seen)
    return exported, tick


def _halt(root: Connection, node: Connection, queue: str, consumer: str) -> None:
    """Pauses the worker before ticks are locked: nobody waits for the node while they are.

    So the worker does not pass the tick that comes, and is led on to it afterwards.
    """
    for _ in range(_ATTEMPTS):
        newest = ticks.newest(root, queue)
        # It may have reached a tick that was created since.
        if newest is None or _held(node, queue, consumer, newest.id):
            return


def _held(node: Connection, queue: str, consumer: str, tick: int) -> bool:
    """Pauses the worker at a tick; False when it went past it."""
    try:
        nodes.set_consumer_hold(node, queue, consumer, tick, _HOLD_SECONDS, _holder())
    except StateError:
        if nodes.get_consumer_state(node, queue, consumer).completed_tick <= tick:
            raise
        return False
    return True


def _export(conn: Connection) -> tuple[str, str]:
    """Opens a REPEATABLE READ transaction and exports its snapshot; (name, txid snapshot)."""
    conn.execute("begin isolation level repeatable read, read only")
    row = conn.execute("select pg_export_snapshot(), txid_current_snapshot()::text").fetchone()
    assert row is not None
    return str(row[0]), str(row[1])


def _node_at(node: Connection, queue: str, consumer: str, tick: int, timeout: float) -> str | None:
    """The node's snapshot at exactly this tick; None when the worker went past it."""
    deadline = time.monotonic() + timeout
    renew = time.monotonic()
    looked = -_LOOK_SECONDS
    while True:
        if time.monotonic() >= renew:
            if not _held(node, queue, consumer, tick):
                return None
            renew += _HOLD_SECONDS / 3
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
        time.sleep(0.02)
