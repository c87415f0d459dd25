"""The worker's sessions: on its own node, which makes it the only worker, and on the provider."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from datetime import timedelta

import psycopg
from psycopg import conninfo

from londiste.cascade import nodes
from londiste.cascade.progress import POSITION_LOST_HINT
from londiste.cascade.types import WorkerState
from londiste.db.alone import become_the_one
from londiste.db.connection import Connection, ask_backend, connect, limit_answers, place
from londiste.db.notify import Listener
from londiste.errors import BadOption, NodeBusy, StateError
from londiste.pgq import batches, continuity

log = logging.getLogger(__name__)

TICK_CHANNEL = "pgq_tick"


def own_node(dsn: str, *, queue: str, job: str, lock_timeout: float) -> Connection:
    """A session with the replica role on this node, as its one worker.

    Raises NodeBusy naming the other worker's session.
    """
    name = f"londiste worker {job}"[:40] + f" {os.getpid()}@{socket.gethostname()}"
    conn = connect(
        dsn,
        name=name,
        autocommit=True,
        lock_timeout_ms=round(lock_timeout * 1000),
        replica=True,
        synchronous=True,
    )
    try:
        # The server notices a killed worker while it still works for it, where it can.
        with contextlib.suppress(psycopg.Error):
            conn.execute("set client_connection_check_interval = '1s'")
        _require_alone(conn, queue)
    except BaseException:
        conn.close()
        raise
    return conn


def with_extra(location: str, extra: str) -> str:
    """A stored location with connection parameters added to it."""
    if not extra:
        return location
    return conninfo.make_conninfo(location, **conninfo.conninfo_to_dict(extra))


def provider(
    location: str,
    extra: str,
    *,
    name: str,
    queue: str,
    node: str,
    answer_seconds: float | None = None,
) -> Connection:
    """A session on the provider.

    extra -- connection parameters that are added to the stored location.
    node -- what the provider has to be called.  Raises StateError when another node answers.
    answer_seconds -- a provider that is silent for so long, and is not at work, is given up.
    """
    conn = connect(
        with_extra(location, extra),
        name=f"londiste worker {name}",
        autocommit=True,
        idle_timeout_ms=10 * 60 * 1000,
        answer_seconds=answer_seconds,
    )
    try:
        limit_answers(conn, answer_seconds, unless_busy=True)
        ask_backend(conn)
        answers = nodes.get_node_info(conn, queue)
        if answers.name != node:
            raise StateError(
                f"the location of provider {node} leads to node {answers.name}",
                detail=f"queue {queue}, {place(location)}",
                hint="correct it on the root: create the node again, or take it out of the way",
            )
    except BaseException:
        conn.close()
        raise
    return conn


def refuse_lost_root(source: Connection, target: Connection, queue: str, provider: str) -> None:
    """A root that was given up and answers has perhaps events that are to be on no other node.

    source, target -- sessions on the provider and on this node, which has heard of that.
    Raises StateError.
    """
    given_up = any(m.dead for m in nodes.get_queue_locations(target, queue) if m.name == provider)
    if given_up and nodes.is_root_node(source, queue):
        raise StateError(
            f"root {provider} was given up, and answers",
            detail="what it has taken since may not be what the others go on with: nothing is read"
            " from there",
            hint="finish the takeover that londiste status shows, or undo it; without one, and if"
            f" {provider} is the root: londiste tag-alive {provider}",
        )


def prove_continuity(
    source: Connection, target: Connection, state: WorkerState, *, stands: int | None = None
) -> None:
    """Makes sure that the provider's queue is still the one that this node has read so far.

    A provider that has crashed may have forgotten batches that were finished: it is told again
    where this node stands; one that a leaf that merges reads from is not, because the leaf has
    messages to follow from where the provider takes it to be.

    stands -- where the node stands at the provider, when its position comes from elsewhere.

    Raises PositionLost when it was restored or made anew, or the worker registered anew.
    """
    queue, worker = state.queue, state.worker
    tick = state.completed_tick if stands is None else stands
    known = continuity.recall(target, queue, worker)
    facts = continuity.look(source, queue, worker, known, tick)
    hint = POSITION_LOST_HINT
    if facts.registration is None:
        # A node that was taken for lost: its provider has forgotten it.
        hint = (
            f"londiste change-provider --provider {state.provider} registers it again, where it"
            " stands; if its tick is gone: londiste drop-node, and make it anew"
        )
    found = continuity.prove(queue, worker, state.provider, tick, known, facts, hint=hint)
    if found is not None and found != known:
        continuity.note(target, queue, worker, found)
    if state.combined_queue is None and continuity.forgotten(known, facts, state.provider, tick):
        # A branch may still have to make the tick of its last batch, which then comes again.
        told = tick if state.queue_top is None else min(tick, state.queue_top)
        if told > (facts.finished_tick or 0):
            log.info(
                "node %s takes this node to be at tick %s, it is at tick %d: told again",
                state.provider,
                facts.finished_tick,
                told,
            )
            batches.register_consumer_at(source, queue, worker, told)


def listen(conn: Connection) -> Listener:
    """Hears of every tick that the provider makes."""
    return Listener(conn, [TICK_CHANNEL])


def interval(conn: Connection, text: str | None) -> timedelta | None:
    """An interval as PostgreSQL writes it, for instance ``2 minutes``.  Raises BadOption."""
    if text is None or not text.strip():
        return None
    try:
        row = conn.execute("select %s::text::interval", [text]).fetchone()
    except psycopg.DataError as error:
        raise BadOption(
            f"not an interval: {text}", hint="write it as PostgreSQL does: 30 seconds, 2 minutes"
        ) from error
    return row[0] if row is not None else None


@contextlib.contextmanager
def closing(conn: Connection) -> Iterator[Connection]:
    """Closes it at the end."""
    try:
        yield conn
    finally:
        conn.close()


def _require_alone(conn: Connection, queue: str) -> None:
    other = become_the_one(conn, f"worker {queue}")
    if other is not None:
        raise NodeBusy(
            f"another worker works for queue {queue} in {place(conn.info.dsn)}",
            detail=other,
            hint="stop it first: londiste -c FILE worker -s",
        )
