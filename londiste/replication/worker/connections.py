"""The worker's sessions: on its own node, which makes it the only worker, and on the provider."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import psycopg
from psycopg import conninfo

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import WorkerState
from londiste.cascade.progress import POSITION_LOST_HINT
from londiste.db.advisory_lock import acquire_singleton_lock
from londiste.db.connection import Connection, ask_backend, connect, describe_dsn, limit_answers
from londiste.db.notify import Listener
from londiste.db.queries import query
from londiste.errors import BadOption, NodeBusy, PositionLost, StateError
from londiste.pgq import batches, position_check

log = logging.getLogger(__name__)

TICK_CHANNEL = "pgq_tick"

#: By this a session on the provider is known to be of this process, and not of a copy of its node.
_PROCESS = uuid.uuid4().hex[:12]


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
        name=f"londiste worker {name}"[:50] + f" {_PROCESS}",
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
                detail=f"queue {queue}, {describe_dsn(location)}",
                hint="correct it on the root: create the node again, or take it out of the way",
            )
    except BaseException:
        conn.close()
        raise
    return conn


def be_the_one_reader(source: Connection, state: WorkerState) -> None:
    """Makes this session the only one on the provider that reads for the node.

    A node that was copied as files has the name, the keys and the position of the other one; the
    lock of a session on the provider is what the two cannot share.  A session that this process
    has lost, and the provider has not noticed, is ended.

    Raises NodeBusy naming the other session.
    """
    job = f"reader {state.queue}\n{state.worker}"
    with contextlib.suppress(psycopg.Error):
        source.execute(query("end_own_reader"), {"job": job})
    other = acquire_singleton_lock(source, job)
    if other is not None:
        raise NodeBusy(
            f"another worker reads queue {state.queue} from node {state.provider} for node"
            f" {state.name}",
            detail=f"{other}; it is a copy of this node, or this node was started twice",
            hint="stop one of the two for good; a copy that is to be a node of its own:"
            " londiste drop-node there, then londiste create-leaf with another name",
        )


def unregistered(state: WorkerState) -> PositionLost:
    """The error of a node that its provider does not know any more."""
    return PositionLost(
        f"node {state.provider} does not know worker {state.worker} of queue {state.queue}",
        detail="the consumer is not registered any more",
        hint=_register_again(state),
    )


def _register_again(state: WorkerState) -> str:
    # A node that was taken for lost: its provider has forgotten it.
    return (
        f"londiste change-provider --provider {state.provider} registers it again, where it"
        " stands; if its tick is gone: londiste drop-node, and make it anew"
    )


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

    Raises PositionLost when it was restored or made anew, or the worker registered anew; and again
    until somebody has decided, although later batches fit.
    """
    queue, worker = state.queue, state.worker
    lost = position_check.lost(target, queue, worker)
    if lost is not None and lost.source == state.provider:
        raise PositionLost(
            f"consumer {worker} of queue {queue} has lost its position at {state.provider}",
            detail=f"since {lost.since:%F %T%z}: {lost.reason}",
            hint=POSITION_LOST_HINT,
        )
    tick = state.completed_tick if stands is None else stands
    known = position_check.recall(target, queue, worker)
    facts = position_check.look(source, queue, worker, known, tick)
    hint = _register_again(state) if facts.registration is None else POSITION_LOST_HINT
    compared = facts
    if state.combined_queue is not None and (facts.finished_tick or 0) > tick:
        # A leaf that merges puts itself back to where its rows are.
        compared = replace(facts, finished_tick=tick)
    try:
        found = position_check.prove(
            queue, worker, state.provider, tick, known, compared, hint=hint
        )
    except PositionLost as error:
        if facts.registration is not None:
            # Later batches may fit again, and the rows that are missing would not come.
            position_check.note_lost(target, queue, worker, state.provider, error.detail)
        raise
    if found is not None and found != known:
        position_check.note(target, queue, worker, found)
    if state.combined_queue is None and position_check.forgotten(
        known, facts, state.provider, tick
    ):
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
    other = acquire_singleton_lock(conn, f"worker {queue}")
    if other is not None:
        raise NodeBusy(
            f"another worker works for queue {queue} in {describe_dsn(conn.info.dsn)}",
            detail=other,
            hint="stop it first: londiste -c FILE worker -s",
        )
