"""Opens the worker's sessions: on its node with the worker lock, and on the provider."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import replace

import psycopg

from londiste.cascade import copied_database
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import WorkerState
from londiste.cascade.progress import (
    POSITION_LOST_HINT,
    STOP_WORKER,
    NodeProgress,
    register_again,
)
from londiste.db import call
from londiste.db.advisory_lock import acquire_singleton_lock, job_holder
from londiste.db.connection import Connection, ask_backend, connect, describe_dsn, limit_silence
from londiste.db.ddl import literal
from londiste.db.names import argument
from londiste.db.notify import Listener
from londiste.db.queries import query
from londiste.db.server_text import AdvisoryHolder, named
from londiste.errors import NodeBusy, PositionLost, StateError
from londiste.install import owners
from londiste.orchestration.connections import reach
from londiste.pgq import batches, position_check
from londiste.pgq.types import Batch
from londiste.settings import WorkerSettings

log = logging.getLogger(__name__)

TICK_CHANNEL = "pgq_tick"

#: By this a session on the provider is known to be of this process, and not of a copy of its node.
_PROCESS = uuid.uuid4().hex[:12]


def own_node(settings: WorkerSettings) -> Connection:
    """Opens the session on the node, with the replica role and the worker lock.

    It breaks when the database sends nothing for ``answer_seconds``, and does not work.

    Raises NodeBusy naming the other worker's session, NotTrusted when another role could
    replace the functions that the worker calls, StateError in a copy of the node's database.
    """
    dsn = settings.db
    name = f"londiste worker {settings.job_name}"[:40] + f" {os.getpid()}@{socket.gethostname()}"
    with named(f"node database {describe_dsn(dsn)}"):
        conn = connect(
            dsn,
            name=name,
            autocommit=True,
            lock_timeout_ms=round(settings.lock_timeout * 1000),
            replica=True,
            synchronous=True,
            silent_seconds=settings.answer_seconds,
        )
    try:
        # The server notices a killed worker while it still works for it, where it can.
        with contextlib.suppress(psycopg.Error):
            conn.execute("set client_connection_check_interval = '1s'")
        owners.require(conn)
        _require_alone(conn, settings.queue_name)
        copied_database.refuse(
            conn, settings.queue_name, lambda at: reach(at, settings.remote_extra_connstr)
        )
    except BaseException:
        conn.close()
        raise
    return conn


class WorkerProgress(NodeProgress):
    """The position of a worker, which moves only while the worker has the lock of its node.

    Code of a table's owner that has run in its session may have released the lock.  So it is taken
    again with each batch: one session may take it any number of times.
    """

    def completing(self, batch: Batch) -> Callable[[], None]:
        """As of the base class.  The returned function also raises NodeBusy."""
        check = super().completing(batch)
        if not call.had_code(self.conn):
            return check
        taken = self.conn.execute(query("job_lock"), [_job(self.queue)])

        def both() -> None:
            check()
            if taken.fetchone() != (True,):
                other = acquire_singleton_lock(self.conn, _job(self.queue), patience=0)
                _refuse_beside(self.conn, self.queue, other)

        return both


def provider(
    location: str,
    extra: str,
    *,
    name: str,
    queue: str,
    node: str,
    answer_seconds: float | None = None,
) -> Connection:
    """Opens a session on the provider.

    extra -- connection parameters that are added to the stored location.
    node -- the expected name of the provider.  Raises StateError when another node answers.
    answer_seconds -- a provider that sends nothing for this time, and runs no query, is
        disconnected.
    """
    place = f"provider {node} ({describe_dsn(location)})"
    with named(place, replaced="londiste change-provider --provider NODE", provider=node):
        conn = connect(
            reach(location, extra, node=node),
            name=f"londiste worker {name}"[:50] + f" {_PROCESS}",
            autocommit=True,
            idle_timeout_ms=10 * 60 * 1000,
            answer_seconds=answer_seconds,
        )
    try:
        limit_silence(conn, answer_seconds)
        ask_backend(conn)
        owners.require(conn)
        answers = nodes.get_node_info(conn, queue)
        if answers.name != node:
            raise StateError(
                f"provider {node}: its stored location connects to node {answers.name}",
                detail=f"queue {queue}, {describe_dsn(location)}",
                hint="correct the location on the root: create the node again, or drop it",
            )
    except BaseException:
        conn.close()
        raise
    return conn


def be_the_one_reader(source: Connection, state: WorkerState) -> None:
    """Makes this session the node's only reader on the provider.

    A node that was copied as files has the name, the keys and the position of the original; only
    one of the two can hold the lock on the provider.  A session that this process has lost, and the
    provider still has, is terminated.

    Raises NodeBusy naming the other session.
    """
    job = f"reader {state.queue}\n{state.worker}"
    with contextlib.suppress(psycopg.Error):
        source.execute(query("end_own_reader"), {"job": job})
    other = acquire_singleton_lock(source, job)
    if other is not None:
        holder = job_holder(source, job)
        if holder is not None and holder.own:
            raise _lost(holder, f"node {state.name}", state.provider)
        end = "" if holder is None else f", or at once, on {state.provider}: {holder.ending}"
        raise NodeBusy(
            f"node {state.name}: another worker reads queue {state.queue} from {state.provider}",
            detail=f"{other}; a copy of this node, or a second worker of it",
            # The command drop-node would unregister the original, which has the same name.
            hint="stop one of the two; to make the copy a separate node, in the database of the"
            f" copy only: select pgq_node.drop_node({literal(state.queue)},"
            f" {literal(state.name)}), then, with settings of another name and job_name:"
            f" londiste create-{state.type.value}; if the host of the other worker is gone, the"
            f" server ends its session within 20 minutes{end}",
        )


def unregistered(state: WorkerState) -> PositionLost:
    """Returns the error for a node that its provider does not know any more."""
    return PositionLost(
        f"queue {state.queue}: node {state.provider} does not know worker {state.worker}",
        detail=position_check.UNREGISTERED,
        hint=register_again(state.provider),
    )


def refuse_lost_root(source: Connection, target: Connection, queue: str, provider: str) -> None:
    """Refuses to read from a failed root, which may have events that no other node gets.

    source, target -- sessions on the provider and on this node, which knows that the root has
    failed.  Raises StateError.
    """
    given_up = any(m.dead for m in nodes.get_queue_locations(target, queue) if m.name == provider)
    if given_up and nodes.is_root_node(source, queue):
        raise StateError(
            f"root {provider} was marked as failed, but responds",
            detail="its events since then may differ from those of the new root; the worker"
            " reads nothing from it",
            hint="finish or undo the takeover that londiste status shows; if there is none and"
            f" {provider} is the root: londiste tag-alive {argument(provider)}",
        )


def prove_continuity(
    source: Connection, target: Connection, state: WorkerState, *, stands: int | None = None
) -> None:
    """Verifies that the provider's queue is the one this node has read so far.

    A provider that crashed may have lost the end of finished batches: its registered position is
    corrected.  For a leaf that merges it stays, because the leaf follows messages from there.

    stands -- the registered position, when that of the node comes from elsewhere.

    Raises PositionLost when the provider was restored or created again, or the worker registered
    again; and from then on until an operator decides, even if later batches fit.
    """
    queue, worker = state.queue, state.worker
    lost = position_check.lost(target, queue, worker)
    if lost is not None and lost.source == state.provider:
        raise PositionLost(
            f"queue {queue}: consumer {worker} has lost its position at {state.provider}",
            detail=f"since {lost.since:%F %T%z}: {lost.reason}",
            hint=POSITION_LOST_HINT,
        )
    tick = state.completed_tick if stands is None else stands
    known = position_check.recall(target, queue, worker)
    facts = position_check.look(source, queue, worker, known, tick)
    hint = register_again(state.provider) if facts.registration is None else POSITION_LOST_HINT
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
                "registered position at node %s was %s, expected %d: corrected",
                state.provider,
                facts.finished_tick,
                told,
            )
            batches.register_consumer_at(source, queue, worker, told)


def listen(conn: Connection) -> Listener:
    """Listens to the ticks of the provider."""
    return Listener(conn, [TICK_CHANNEL])


def _job(queue: str) -> str:
    return f"worker {queue}"


def _lost(holder: AdvisoryHolder, what: str, where: str) -> NodeBusy:
    return NodeBusy(
        f"{what}: a lost session of this worker still holds its lock in {where}",
        detail=holder.text,
        hint=f"in that database: {holder.ending_lost}",
    )


def _require_alone(conn: Connection, queue: str) -> None:
    _refuse_beside(conn, queue, acquire_singleton_lock(conn, _job(queue)))


def _refuse_beside(conn: Connection, queue: str, other: str | None) -> None:
    """Raises NodeBusy if another session, described by ``other``, has the lock of the worker."""
    holder = None if other is None else job_holder(conn, _job(queue))
    if holder is not None and not holder.entitled:
        raise NodeBusy(
            f"queue {queue}: a session of role {holder.role} holds the lock of the worker",
            detail=f"{holder.text}; no worker: not a member of pgq_admin, not the SQL's owner",
            hint=f"end that session: select pg_terminate_backend({holder.pid})",
        )
    if holder is not None and holder.own:
        raise _lost(holder, f"queue {queue}", describe_dsn(conn.info.dsn))
    if other is not None:
        raise NodeBusy(
            f"queue {queue}: another worker runs in {describe_dsn(conn.info.dsn)}",
            detail=other,
            hint=f"stop it first: {STOP_WORKER}",
        )
