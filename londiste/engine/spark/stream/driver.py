"""Stream driver: position, batch ends, and the consumer that keeps events.

Each running query has one session in the driver.  It holds the lock of the consumer, so two
queries cannot move one position concurrently.  The consumer of the queue stays at the newest tick
up to which Spark has finished: rotation keeps all later events.

Spark calls ``commit(end)`` of a batch only when the next one starts, and never for the last one.
But it requests the next batch only after the previous one is finished, so the start of that request
is the position.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn, TypeAlias
from uuid import UUID

from londiste.db.advisory_lock import acquire_singleton_lock
from londiste.db.connection import Connection, connect, describe_dsn, usable
from londiste.db.names import TableName
from londiste.engine.spark.stream import bounds, offsets
from londiste.engine.spark.stream.offsets import BEFORE_SNAPSHOT, Offset, TickRange, Types
from londiste.engine.spark.stream.options import GapPolicy, Mode, Options
from londiste.engine.spark.stream.snapshot import SnapshotSession, TablePart, table_parts
from londiste.errors import LondisteError, NodeBusy, PositionLost, StateError
from londiste.pgq import admin, batches, position_check, queues, ticks
from londiste.pgq.consumers import (
    ConsumerKind,
    get_consumer_kinds,
    get_paused_consumers,
    note_consumer_kind,
)
from londiste.pgq.liveness import Beat
from londiste.pgq.types import Tick

log = logging.getLogger(__name__)

#: Checks a table of a queue before its rows are the start of a stream.
RequireRows: TypeAlias = Callable[[Connection, str, TableName], None]


def no_check(conn: Connection, queue: str, table: TableName) -> None:
    """For queues that are no cascade's."""


class Driver:
    """Positions and batches of a query; every method may raise database errors as LondisteError."""

    def __init__(
        self, options: Options, types: Types | None = None, require: RequireRows = no_check
    ) -> None:
        """types -- columns of the rows, whose types must stay; None: any.

        require -- raises StateError where the rows of a table are not those of its events.
        """
        self._require_rows = require
        self.options = options
        self._types = types
        self._conn: Connection | None = None
        self._beat = Beat(options.kind.value, options.queue, options.consumer)
        self._begun = False
        self._is_new = False
        self._noted = False
        #: Up to where the query may go at most; None: no limit.
        self._target: Tick | None = None
        #: The snapshot whose rows come first, until Spark has them.
        self._held: SnapshotSession | None = None

    def close(self) -> None:
        """Gives the session back, and the lock with it."""
        self._let_go()
        conn, self._conn = self._conn, None
        self._beat.stop(conn)
        if conn is not None:
            conn.close()

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    # -- what Spark asks --------------------------------------------------------------------------

    def initial(self) -> Offset:
        """Where a query without a checkpoint begins; the consumer is registered there."""
        options, conn = self.options, self.conn
        known = next(iter(queues.get_consumer_info(conn, options.queue, options.consumer)), None)
        if known is not None and known.current_batch is not None:
            raise StateError(
                f"queue {options.queue}: consumer {options.consumer} has an open batch",
                detail="another program uses this consumer",
                hint="use a separate consumer: .option('consumer', …)",
            )
        self._warn_of_target()
        if options.mode is Mode.SNAPSHOT_THEN_CHANGES:
            self._require_rows(conn, options.queue, options.table)
        if options.mode is Mode.SNAPSHOT_THEN_CHANGES:
            tick = self._newest()
        elif known is not None and known.last_tick is not None and self._continues:
            (tick,) = ticks.between(conn, options.queue, known.last_tick, known.last_tick) or (
                self._lost(known.last_tick)
            )
        else:
            tick = self._start()
        batches.register_consumer_at(conn, options.queue, options.consumer, tick.id)
        self._is_new = known is None
        self._begin_with(is_first=options.mode is Mode.SNAPSHOT_THEN_CHANGES)
        if options.mode is Mode.SNAPSHOT_THEN_CHANGES:
            return BEFORE_SNAPSHOT
        return self._offset(tick)

    def _warn_of_target(self) -> None:
        """Logs a warning when a consumer had a query before.

        It may be this one, stopped before its first batch.  A file sink skips the batches of
        another checkpoint whose numbers it has in ``_spark_metadata``.
        """
        options = self.options
        kinds = get_consumer_kinds(self.conn, options.queue)
        kind = kinds.get((options.queue, options.consumer))
        if options.kind is ConsumerKind.STREAM and kind == ConsumerKind.STREAM:
            log.warning(
                "queue %s: consumer %s has had a query; another checkpoint needs another target:"
                " Spark omits batches whose numbers the target has, such as a directory of files",
                options.queue,
                options.consumer,
            )

    def abandon(self) -> None:
        """Unregisters a consumer that ``initial`` has registered: a failed start."""
        options = self.options
        self._let_go()
        if self._is_new:
            with contextlib.suppress(LondisteError):
                batches.unregister_consumer(self.conn, options.queue, options.consumer)
            self._begun = self._is_new = self._noted = False

    def latest(self, start: Offset | None, *, limited: bool) -> Offset:
        """Where the batch that begins at ``start`` ends; ``start`` itself when nothing came.

        limited -- whether the limits of the options count.
        start -- None: not known (Spark before 4.2); then there are no limits.
        """
        options = self.options
        if start is None:
            if options.mode is Mode.SNAPSHOT_THEN_CHANGES:
                raise StateError(
                    "mode=snapshot-then-changes: requires Spark 4.2 or later",
                    hint="upgrade Spark, or read the rows with spark.read and mode=snapshot",
                )
            return self._offset(self._newest())
        if start.is_before_snapshot:
            return self._hold()
        self._check_types(start)
        start = self.proved(start)
        assert start.tick is not None
        self.finished(start)
        self._beat.beat(self.conn)
        if get_paused_consumers(self.conn, options.queue, options.consumer):
            return start
        first = next(iter(ticks.between(self.conn, options.queue, start.tick, start.tick)), None)
        if first is None:
            self._lost(start.tick)
        end = self._target or self._newest()
        if end.id <= first.id:
            return start
        if limited:
            end = bounds.batch_end(self.conn, options, first, end)
        # What was between is at the sink when this is asked again.
        self._beat.worked()
        return offsets.at(end, self._generation(), start, self._types)

    def newest(self) -> Offset | None:
        """The newest tick, for the progress that Spark shows."""
        tick = ticks.newest(self.conn, self.options.queue)
        return None if tick is None else self._offset(tick)

    def stop_at_newest(self) -> None:
        """The query ends where the queue is now."""
        self._target = self._newest()

    def parts(self, start: Offset, end: Offset) -> Sequence[TickRange | TablePart]:
        """The parts of the batch between two offsets."""
        self._check_types(start, end)
        if start.is_before_snapshot:
            return self._table_parts(end)
        start = self.proved(start)
        assert start.tick is not None and end.tick is not None
        if start.tick >= end.tick:
            return []
        found = bounds.parts(self.conn, self.options, start.tick, end.tick, start.seen)
        if found is None:
            self._lost(start.tick)
        _, last, parts = found
        if end.time is not None and last.time != end.time:
            reason = f"tick {end.tick} was created at {last.time}, not at {end.time}"
            raise self._other(start, reason)
        return parts

    def finished(self, offset: Offset) -> None:
        """Spark is done with all up to the offset; the queue may forget what lies before."""
        if offset.tick is None:
            return
        self._let_go()
        self._is_new = False
        queue, consumer = self.options.queue, self.options.consumer
        found = queues.get_consumer_info(self.conn, queue, consumer)
        if not found:
            raise self._unregistered(offset)
        known = found[0]
        if known.last_tick is None or known.last_tick < offset.tick:
            batches.register_consumer_at(self.conn, queue, consumer, offset.tick)
        self._note()

    # -- what that needs --------------------------------------------------------------------------

    @property
    def conn(self) -> Connection:
        """The session of this query; it has the lock of the consumer."""
        if self._conn is None or not usable(self._conn):
            self.close()
            options = self.options
            conn = connect(
                options.conninfo, name=f"londiste-spark {options.consumer}", autocommit=True
            )
            try:
                admin.find_queue(conn, options.queue)
                holder = acquire_singleton_lock(conn, f"spark {options.queue} {options.consumer}")
                if holder is not None:
                    stream = options.kind is ConsumerKind.STREAM
                    raise NodeBusy(
                        f"queue {options.queue}: consumer {options.consumer} is in use by another"
                        f" {'query' if stream else 'process'}",
                        detail=holder,
                        hint="stop the other query, or set another consumer for this one"
                        if stream
                        else "stop the other process: one process writes the files of a table",
                    )
            except BaseException:
                conn.close()
                raise
            self._conn = conn
        return self._conn

    def proved(self, offset: Offset) -> Offset:
        """Returns the offset if it belongs to this queue and all events after it exist.

        The first call in a program registers a missing consumer at the offset.
        With failOnDataLoss=false, returns the next offset after which events are complete.
        """
        assert offset.tick is not None
        options, conn = self.options, self.conn
        row, reason = self._facts(offset)
        if row.registration is None and self._begun:
            raise self._unregistered(offset)
        if reason is not None:
            raise self._other(offset, reason)
        if row.tick_time is None:
            return self._skipped(offset)
        if not self._begun:
            if row.finished_tick is None or row.finished_tick > offset.tick:
                batches.register_consumer_at(conn, options.queue, options.consumer, offset.tick)
            self._begin_with()
        return offset

    def foreign(self, offset: Offset) -> str | None:
        """Why the offset is not one of this queue; None: it may be."""
        return self._facts(offset)[1]

    def _facts(self, offset: Offset) -> tuple[position_check.PositionFacts, str | None]:
        assert offset.tick is not None
        options, known = self.options, None
        if offset.generation is not None and offset.time is not None:
            known = position_check.KnownPosition(
                describe_dsn(options.dsn), offset.generation, 0, offset.tick, offset.time
            )
        row = position_check.look(self.conn, options.queue, options.consumer, known, offset.tick)
        if known is None:
            return row, None
        # The events after an offset are the proof, not what the queue knows of the consumer.
        facts = replace(row, registration=0, finished_tick=offset.tick)
        reason = position_check.decide(known, facts, offset.tick)
        if reason and facts.generation != known.generation and facts.valid_until is None:
            # Files and offsets may have been given to a job of another queue.
            reason += ", or this is another queue"
        return row, reason

    def _hold(self) -> Offset:
        """Takes the snapshot whose rows come first; returns the offset after its rows."""
        self._require_rows(self.conn, self.options.queue, self.options.table)
        self._begin()
        self._let_go()
        held = self._held = SnapshotSession(self.options)
        tick = held.tick
        return Offset(tick.id, tick.time, self._generation(), held.seen, tick.seq, self._types)

    def _begin(self) -> None:
        """The consumer is at or before the newest tick, so later events are kept."""
        if not self._begun:
            options = self.options
            batches.register_consumer_at(self.conn, options.queue, options.consumer, None)
            self._begin_with(is_first=True)

    def _begin_with(self, *, is_first: bool = False) -> None:
        """The consumer is registered.  is_first -- none of its rows have arrived yet."""
        # A lake reads its first rows again until its kind is recorded.
        if not is_first or self.options.kind is ConsumerKind.STREAM:
            self._note()
        self._begun = True

    def _note(self) -> None:
        """Records the kind of the consumer, once."""
        if not self._noted:
            options = self.options
            note_consumer_kind(self.conn, options.queue, options.consumer, options.kind)
            self._noted = True

    def _table_parts(self, end: Offset) -> Sequence[TablePart]:
        if self._held is None or self._held.seen != end.seen or not self._held.is_alive:
            if self.options.lost is GapPolicy.FAIL:
                raise StateError(
                    f"the snapshot at tick {end.tick} no longer exists, its rows are not confirmed",
                    detail="it ended with the program or session that held it; the target may"
                    " or may not contain its rows",
                    hint="truncate the target and start with another checkpoint, or read the"
                    " current rows with onSnapshotLost=again, followed by changes that they"
                    " already contain",
                )
            self.proved(end)
            log.warning(
                "queue %s: the snapshot at tick %s no longer exists, reading the rows of table"
                " %s again",
                self.options.queue,
                end.tick,
                self.options.table,
            )
            self._let_go()
            self._held = SnapshotSession(self.options)
        return table_parts(self.conn, self.options, self._held.name)

    def _skipped(self, offset: Offset) -> Offset:
        if self.options.fail_on_loss:
            assert offset.tick is not None
            self._lost(offset.tick)
        tick = ticks.oldest_complete(self.conn, self.options.queue)
        if tick is None:
            raise bounds.no_tick(self.options.queue)
        log.warning(
            "queue %s: skipped lost events from tick %s to tick %s (failOnDataLoss=false)",
            self.options.queue,
            offset.tick,
            tick.id,
        )
        batches.register_consumer_at(self.conn, self.options.queue, self.options.consumer, tick.id)
        self._begin_with()
        return self._offset(tick)

    @property
    def _continues(self) -> bool:
        """Whether a registered consumer continues at its position."""
        # The start of a lake applies to a new consumer: its settings stay as they are.
        return not self.options.start.given or self.options.kind is not ConsumerKind.STREAM

    def _start(self) -> Tick:
        return bounds.starting_tick(self.conn, self.options, otherwise="latest")

    def _newest(self) -> Tick:
        tick = ticks.newest(self.conn, self.options.queue)
        if tick is None:
            raise bounds.no_tick(self.options.queue)
        return tick

    def _offset(self, tick: Tick) -> Offset:
        return offsets.at(tick, self._generation(), BEFORE_SNAPSHOT, self._types)

    def _generation(self) -> UUID | None:
        return queues.queue_generation(self.conn, self.options.queue)

    def _lost(self, tick: int) -> NoReturn:
        raise bounds.lost(self.conn, self.options.queue, tick)

    def _check_types(self, *known: Offset) -> None:
        """Raises StateError if a column of the rows before has another type now."""
        for offset in known if self.options.types is GapPolicy.FAIL else ():
            changed = offsets.changed_types(offset.types, self._types)
            if changed:
                name, before, now = changed[0]
                raise StateError(
                    f"checkpoint: column {name} was {before}, and is {now} now",
                    detail="files with two types of one column cannot be read together",
                    hint="set stringColumns and unsupportedValues as before; or start with another"
                    f" checkpoint and target, and startingTick={offset.tick}; or continue with"
                    " onTypeChange=ignore, if the target accepts both types",
                )

    def _unregistered(self, offset: Offset) -> PositionLost:
        return self._other(
            offset,
            "the consumer is no longer registered",
            "restart the query: it registers the consumer again if all later events exist",
        )

    def _other(self, offset: Offset, reason: str, hint: str = "") -> PositionLost:
        return PositionLost(
            f"queue {self.options.queue}: consumer {self.options.consumer} cannot resume after"
            f" tick {offset.tick}",
            detail=reason,
            hint=hint or "start with another checkpoint, and reload the target",
        )
