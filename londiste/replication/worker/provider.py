"""The worker's session on its provider: opens and finishes batches.

Finishing a batch waits for no disk and shares a round trip with opening the next one.  A provider
that lost it in a crash returns the batch again, and the node's position shows that it is applied.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from londiste.cascade.forward import Combiner, Forwarder
from londiste.cascade.model import WorkerState
from londiste.cascade.worker_role import BatchActions, Forward
from londiste.daemon import crash
from londiste.db.connection import Connection, usable
from londiste.db.notify import Listener
from londiste.db.queries import interval
from londiste.errors import LondisteError
from londiste.orchestration.connections import reach
from londiste.pgq import batches
from londiste.pgq.batches import Opened
from londiste.pgq.types import Batch
from londiste.replication.apply.batch import BatchApplier
from londiste.replication.apply.control_messages import SystemEvents
from londiste.replication.apply.prefetch import FIRST_JOIN, ReadAhead, Sizes
from londiste.replication.apply.proofs import Proofs
from londiste.replication.ddl.apply import Scripts
from londiste.replication.forwarding import combined_queue
from londiste.replication.forwarding.combined_queue import MergeLag
from londiste.replication.parallel.coordinator import LargeBatches
from londiste.replication.registration_filter import RegistrationFilter
from londiste.replication.tablesync.handover import Handover
from londiste.replication.worker import connections
from londiste.settings import WorkerSettings
from londiste.standby import server
from londiste.standby.reader import StandbyReader


@dataclass
class Source:
    """The session on the provider, and the objects that use it.

    keep_lag -- how long the worker delays batches; None: no delay.
    ahead -- reads the next batch in advance; knows the number of events up to which ticks are
        joined.
    duty -- the role of the worker; a change of it needs another source.
    behind -- of a leaf that merges: follows the messages up to the position of its rows; None when
        the worker applies the batches itself.
    done -- the batch that is applied but not finished at the provider; the next poll does that.
    standing -- the position, when the next batch may be opened before the node's state is read.
    """

    queue: str
    worker: str
    location: str
    conn: Connection
    listener: Listener
    handover: Handover
    runner: BatchApplier
    keep_lag: timedelta | None
    ahead: ReadAhead
    duty: BatchActions
    behind: MergeLag | None = None
    done: Batch | None = None
    standing: int | None = None

    @property
    def may_join(self) -> bool:
        """Whether a batch may have more than one tick."""
        return self.ahead.sizes.max_count is not None or self.collects

    @property
    def collects(self) -> bool:
        """Whether batches have a minimum size."""
        return self.ahead.sizes.collects

    def join_up_to(self, tick: int | None) -> None:
        """Joins ticks only up to this one, because a copy waits for the worker there.

        None: no limit.
        """
        self.ahead.sizes = self.ahead.sizes.up_to(tick)

    def next_batch(self, from_tick: int) -> Opened | None:
        """The batch after ``from_tick``, or None."""
        sizes = self.ahead.sizes
        return batches.finish_and_next(
            self.conn,
            self.queue,
            self.worker,
            min_lag=self.keep_lag,
            min_count=sizes.min_count if sizes.collects else None,
            min_interval=sizes.min_interval if sizes.collects else None,
            from_tick=from_tick,
            max_count=sizes.max_count,
            max_tick=sizes.max_tick,
            # Whoever forgets it hands it out again.
            durable=False,
        )

    @contextlib.contextmanager
    def asking(self, standing: int) -> Iterator[Sequence[Opened]]:
        """Finishes the last batch and opens the one after ``standing`` while the block runs.

        Afterwards the list holds the batch, or nothing.
        """
        # What arrives from here on is looked at after the batch.
        self.listener.drain()
        # After an error nothing is taken for granted: a batch that is open is handed out again.
        done, self.done = self.done, None
        self.standing = None
        if done is not None:
            crash.point("worker.before-finish")
        with batches.opening(
            self.conn,
            self.queue,
            self.worker,
            None if done is None else done.id,
            min_lag=self.keep_lag,
            from_tick=standing,
            max_count=self.ahead.sizes.max_count,
            max_tick=self.ahead.sizes.max_tick,
        ) as found:
            yield found
        if done is not None:
            crash.point("worker.after-finish")
        if self.ahead.sizes.max_tick is None:
            self.standing = standing

    def finish(self, batch: Batch) -> None:
        """Finishes the batch at the provider when the next one is opened.

        The next one is opened in the same call, unless it has a minimum size: whether the worker
        may wait for that is known only after the node's state is read.
        """
        if self.collects:
            self._finish_now(batch)
            return
        self.done = batch
        self.standing = batch.tick_id

    def heard(self) -> bool:
        """Whether a tick notification has arrived since the last call."""
        return any(name == self.queue for _, name in self.listener.drain())

    def close(self) -> None:
        """Finishes the last batch, if possible, and closes the session."""
        if self.done is not None and usable(self.conn):
            # Otherwise it is handed out again, and seen to be done.
            with contextlib.suppress(LondisteError):
                self._finish_now(self.done)
        self.conn.close()

    def _finish_now(self, batch: Batch) -> None:
        crash.point("worker.before-finish")
        batches.finish_batch(self.conn, batch.id)
        crash.point("worker.after-finish")


def open_source(
    target: Connection,
    settings: WorkerSettings,
    state: WorkerState,
    duty: BatchActions,
    large: LargeBatches,
    standby: StandbyReader | None = None,
) -> Source:
    """Opens a session on the provider of the node in ``target``, with all objects that use it.

    standby -- where batches are read, if it proves to be a standby of this provider.

    Raises connection errors, and PositionLost when the provider is not the one that this node has
    read from (``links.prove_continuity``).
    """
    conn = connections.provider(
        state.provider_location,
        settings.remote_extra_connstr,
        name=settings.job_name,
        queue=state.queue,
        node=state.provider,
        # Who pauses this worker, or leads it to another node, does not wait for ever.
        answer_seconds=settings.answer_seconds,
    )
    try:
        connections.be_the_one_reader(conn, state)
        connections.refuse_lost_root(conn, target, state.queue, state.provider)
        stands = None
        if duty.wait_behind:
            stands = combined_queue.position(conn, state.queue, state.worker)
        connections.prove_continuity(conn, target, state, stands=stands)
        if standby is not None:
            standby.of_provider(server.look(conn), state.provider)
    except BaseException:
        conn.close()
        raise
    # Whoever reads from a branch finds there the ticks of its provider, every one.
    joins = None if duty.forward is Forward.ALL else FIRST_JOIN
    keep_lag = interval(target, settings.pgq_keep_lag)
    ahead = ReadAhead(
        conn,
        state.queue,
        state.worker,
        # Whoever stays behind has nothing to hurry for.
        limit=settings.read_ahead_bytes if keep_lag is None else 0,
        sizes=Sizes(
            settings.pgq_batch_collect_events,
            interval(target, settings.pgq_batch_collect_interval),
            joins,
        ),
        standby=standby,
    )
    system = SystemEvents(
        target,
        state.queue,
        state.type,
        wanted=RegistrationFilter.of(settings),
        own_watermark=duty.own_watermark,
    )
    proofs = Proofs(
        conn,
        state.queue,
        reach(state.provider_location, settings.remote_extra_connstr, node=state.provider),
        settings.answer_seconds,
    )
    behind = None
    if state.combined_queue is not None:
        behind = MergeLag(conn, target, state.queue, state.worker, system, proofs)
    runner = BatchApplier(
        node=state.name,
        queue=state.queue,
        source=conn,
        target=target,
        progress=connections.WorkerProgress(target, state.queue, state.worker),
        forwarder=_forwarder(target, state, duty),
        system=system,
        scripts=Scripts(target, state.queue, state.name, settings.execute_lock_timeout),
        ahead=ahead,
        large=large,
        keep=settings.conflict_log_rows,
        proofs=proofs,
        standby=standby,
    )
    return Source(
        queue=state.queue,
        worker=state.worker,
        location=state.provider_location,
        conn=conn,
        listener=connections.listen(conn),
        handover=Handover(
            conn,
            target,
            state.queue,
            parallel=settings.parallel_copies,
            # As the copy process sees it (copy/group_plan.py).
            small=settings.copy_chunk_bytes // 8,
        ),
        runner=runner,
        keep_lag=keep_lag,
        ahead=ahead,
        duty=duty,
        behind=behind,
    )


def _forwarder(target: Connection, state: WorkerState, duty: BatchActions) -> Forwarder | None:
    if duty.forward is Forward.ALL:
        return Forwarder(target, state.queue, own_watermark=duty.own_watermark)
    if duty.forward is Forward.DATA and state.combined_queue is not None:
        return Combiner(target, state.combined_queue, state.queue)
    return None
