"""Builds source, progress and sessions from a consumer's settings; changes its position.

Only registration and position are changed in this module.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from londiste.consumer import filters, source
from londiste.consumer.declaration import (
    BY_NUMBER,
    KEEPING,
    POSITIONED,
    ConsumerClass,
    check,
    local_file,
    name_of,
)
from londiste.consumer.delivery import Delivery
from londiste.consumer.event_loop import FailurePolicy
from londiste.consumer.progress import (
    POSITION_HINT,
    BatchProgress,
    FileProgress,
    Progress,
    TickProgress,
)
from londiste.consumer.runner import BatchFunction, Effects, Runner
from londiste.consumer.source import CoopSource, QueueSource, Wish
from londiste.daemon.statistics import BatchStatistics
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.queries import interval
from londiste.db.server_text import connected_to
from londiste.errors import BadOption, PositionLost, StateError
from londiste.pgq import consumers as pausing
from londiste.pgq import position_check, queues
from londiste.pgq.consumers import ConsumerKind, note_consumer_kind
from londiste.pgq.ext import KnownSource
from londiste.pgq.position_check import KnownPosition
from londiste.settings import ConsumerSettings

log = logging.getLogger(__name__)

#: Seconds between looks whether somebody has paused the consumer.
PAUSE_PERIOD = 1.0


class Parts:
    """The parts of one consumer.  Raises BadOption if settings and contract conflict."""

    def __init__(
        self, kind: ConsumerClass, settings: ConsumerSettings, stopping: Callable[[], bool]
    ) -> None:
        self.kind = kind
        self.settings = settings
        self.delivery = kind.delivery
        self.stopping = stopping
        self.effects_dsn = settings.target_db or settings.db
        self._paused = False
        self._ask_again = 0.0
        if self.delivery is Delivery.CASCADE_NODE and type(self) is Parts:
            raise BadOption(
                f"{name_of(kind)}: delivery {self.delivery.value!r} needs a cascade node",
                hint="make it a subclass of londiste.CascadedConsumer",
            )
        check(kind, settings)

    # -- for the loop ----------------------------------------------------------------------

    def runner(self, function: BatchFunction) -> Runner:
        """A loop body with its own sessions."""
        settings = self.settings
        return Runner(
            source=self.source(),
            effects=Effects(self.effects_dsn, settings.consumer, settings.lock_timeout),
            delivery=self.delivery,
            function=function,
            policy=FailurePolicy(settings.max_attempts, settings.retry_seconds),
            statistics=BatchStatistics(settings.stats_period, settings.keepalive_stats),
            progress=self.progress() if self.delivery in KEEPING else None,
            key=(settings.consumer, settings.subconsumer_name),
            stopping=self.stopping,
        )

    def source(self, **options: bool) -> QueueSource:
        """The source of batches.  Connects to read the intervals of the settings, if any."""
        settings = self.settings
        wish = Wish(
            where=filters.condition(
                types=settings.event_types,
                tables=settings.table_filter,
                where=self.kind.where,
                setting=settings.consumer_filter,
            ),
            fetch=settings.pgq_lazy_fetch,
            min_lag=self._interval("pgq_keep_lag", settings.pgq_keep_lag),
            min_count=settings.pgq_batch_collect_events,
            min_interval=self._interval(
                "pgq_batch_collect_interval", settings.pgq_batch_collect_interval
            ),
        )
        options = {"alone": self.kind.alone, "notify": settings.notify, **options}
        if settings.subconsumer_name:
            return CoopSource(
                self.queue_dsn(),
                settings.queue_name,
                settings.consumer,
                settings.subconsumer_name,
                wish,
                dead_interval=self._interval("subconsumer_timeout", settings.subconsumer_timeout),
                lock_timeout=settings.lock_timeout,
                own_names=self.delivery is Delivery.EXACTLY_ONCE_HERE,
                **options,
            )
        return QueueSource(
            self.queue_dsn(),
            settings.queue_name,
            settings.consumer,
            wish,
            lock_timeout=settings.lock_timeout,
            own_names=self.delivery is Delivery.EXACTLY_ONCE_HERE,
            **options,
        )

    def queue_dsn(self) -> str:
        """Where the queue is."""
        return self.settings.db

    def begin(self, on: QueueSource) -> None:
        """Connects, and raises the errors that would stop the loop."""
        conn = on.conn
        log.info("connected to %s", connected_to(conn))
        tick = source.position(conn, on.queue, on.consumer, on.dsn)
        if self.kind.listed_as is not ConsumerKind.CONSUMER:
            note_consumer_kind(conn, on.queue, on.consumer, self.kind.listed_as)
        if self.delivery in POSITIONED:
            with self._stored() as stored:
                self._prove(on, stored)
        if self.delivery is Delivery.LOCAL_FILE:
            self._follow_file(on, tick)

    def paused(self, on: QueueSource) -> bool:
        """Whether the consumer is paused; asks the database once per second."""
        now = time.monotonic()
        if now < self._ask_again:
            return self._paused
        self._ask_again = now + min(PAUSE_PERIOD, self.settings.poll_interval)
        pause = self.asked_to_pause(on)
        if pause is not None and not self._paused:
            log.warning("paused%s", pause)
        elif self._paused and pause is None:
            log.info("resumed after a pause")
        self._paused = pause is not None
        return self._paused

    def asked_to_pause(self, on: QueueSource) -> str | None:
        """Start and reason of the pause; None if the consumer is not paused."""
        found = pausing.get_paused_consumers(on.conn, on.queue, on.consumer)
        if not found:
            return None
        reason = f": {found[0].reason}" if found[0].reason else ""
        return f" since {found[0].since:%F %T%z}{reason}"

    # -- registration and position ---------------------------------------------------------

    def register(self, tick: int | None, like: str | None) -> bool:
        """``Consumer.register``."""
        if tick is not None and like is not None:
            raise BadOption("a tick and another consumer", hint="give one of them")
        on = self.source()
        if like is not None:
            with session(on.dsn, name="londiste consumer", autocommit=True) as conn:
                tick = source.position(conn, on.queue, like, on.dsn)
        if self.delivery not in POSITIONED:
            return on.register(tick)
        with self._stored() as stored:
            # Before the queue: a target that lacks something leaves no consumer that holds events.
            before = stored.tick()
            new = on.register(tick)
            if new or before is None:
                self._set(on, stored)
        return new

    def unregister(self) -> bool:
        """``Consumer.unregister``."""
        there = self.source().unregister()
        if self.delivery is Delivery.EXACTLY_ONCE_ELSEWHERE:
            with self._stored() as stored:
                stored.forget()
        elif self.delivery in BY_NUMBER:
            self._forget_batches("")
        elif self.delivery is Delivery.LOCAL_FILE:
            self._file().forget()
        return there

    def pause(self, reason: str | None) -> bool:
        """``Consumer.pause``."""
        settings = self.settings
        with session(settings.db, name="londiste consumer", autocommit=True) as conn:
            return pausing.pause_consumer(conn, settings.queue_name, settings.consumer, reason)

    def resume(self) -> bool:
        """``Consumer.resume``."""
        settings = self.settings
        with session(settings.db, name="londiste consumer", autocommit=True) as conn:
            return pausing.resume_consumer(conn, settings.queue_name, settings.consumer)

    def rewind(self) -> int:
        """``Consumer.rewind``."""
        with self._stored() as stored:
            tick = stored.tick()
        if tick is None:
            raise PositionLost(
                f"consumer {self.settings.consumer} has no stored position",
                detail=f"in {self._stored_place()}",
                hint="accept the position of the queue: --reset",
            )
        on = self.source()
        self._compare(on, tick)
        on.register(tick)
        if self.delivery in POSITIONED:
            with self._stored() as stored:
                self._prove(on, stored)
        return tick

    def _noted(self, on: QueueSource) -> tuple[KnownPosition | None, str]:
        """The stored identity of the queue, and the place of the queue now."""
        if self.delivery not in POSITIONED:
            return None, on.queue
        with self._stored() as stored:
            return _known(stored.known()), on.queue

    def _compare(self, on: QueueSource, tick: int) -> None:
        """Raises PositionLost if the queue has another tick under this id."""
        known, place_now = self._noted(on)
        if known is None or known.tick != tick:
            # Moved by hand, or by an earlier version: the number is all there is.
            return
        with on.administering() as conn:
            facts = position_check.look(conn, on.queue, on.consumer, known, tick)
        reason = position_check.rewind_obstacle(known, facts, place_now, tick)
        if reason is not None:
            raise PositionLost(
                f"consumer {on.consumer} of queue {on.queue}: cannot start at tick {tick}",
                detail=f"{reason}; events would be skipped; nothing was changed",
                hint=(
                    "bring the data to the position of the queue, then accept that position:"
                    " --reset"
                ),
            )

    def reset(self) -> int:
        """``Consumer.reset``."""
        if self.delivery in BY_NUMBER:
            tick = some(self.source().tick())
            self._forget_batches(self.settings.subconsumer_name)
            return tick
        with self._stored() as stored:
            return self._set(self.source(), stored)

    def _forget_batches(self, subconsumer: str) -> None:
        """Deletes what is stored of batches that are done: the next one is processed."""
        with session(self.effects_dsn, name="londiste consumer", autocommit=True) as conn:
            BatchProgress(lambda: conn, self.settings.consumer, subconsumer).forget()

    # -- inside ----------------------------------------------------------------------------

    def progress(self) -> Callable[[Callable[[], Connection]], Progress]:
        settings = self.settings

        def make(db: Callable[[], Connection]) -> Progress:
            if self.delivery is Delivery.LOCAL_FILE:
                return self._file()
            if self.delivery is Delivery.EXACTLY_ONCE_ELSEWHERE:
                return TickProgress(db, settings.consumer)
            return BatchProgress(db, settings.consumer, settings.subconsumer_name)

        return make

    def _set(self, on: QueueSource, stored: TickProgress | FileProgress) -> int:
        """Stores the queue's position and identity."""
        tick = some(on.tick())
        stored.set(tick)
        if self.delivery in POSITIONED:
            self._prove(on, stored)
        return tick

    def _prove(self, on: QueueSource, stored: TickProgress | FileProgress) -> None:
        """Checks that the stored position belongs to this queue, and records the queue's identity.

        Raises PositionLost if the queue was created again or restored since.
        """
        tick = stored.tick()
        if tick is None:
            return
        settings = self.settings
        noted = stored.known()
        known = _known(noted)
        if noted is not None and noted.queue_name != on.queue:
            raise PositionLost(
                f"consumer {on.consumer}: its position in {self._stored_place()} does not belong to"
                f" queue {on.queue}",
                detail=f"it belongs to queue {noted.queue_name}",
                hint=POSITION_HINT,
            )
        with on.administering() as conn:
            facts = position_check.look(conn, on.queue, on.consumer, known, tick)
        if self.delivery is Delivery.LOCAL_FILE and known is not None:
            # The queue follows the file, so neither a new registration nor a file of before is a
            # reason to stop.
            known = replace(known, registration=facts.registration or known.registration)
            facts = replace(facts, finished_tick=tick)
        found = position_check.prove(
            on.queue, on.consumer, on.queue, tick, known, facts, hint=POSITION_HINT
        )
        if found is not None and found != _known(noted):
            stored.note(
                KnownSource(
                    settings.queue_name,
                    found.generation,
                    found.registration,
                    found.tick,
                    found.tick_time,
                )
            )

    def _file(self) -> FileProgress:
        settings = self.settings
        return FileProgress(local_file(settings), settings.queue_name, settings.consumer)

    @contextmanager
    def _stored(self) -> Iterator[TickProgress | FileProgress]:
        """The stored position.  Raises StateError if only the queue has one."""
        if self.delivery is Delivery.LOCAL_FILE:
            yield self._file()
        elif self.delivery is Delivery.EXACTLY_ONCE_ELSEWHERE:
            with session(
                self.effects_dsn, name="londiste consumer", autocommit=True, synchronous=True
            ) as conn:
                yield TickProgress(lambda: conn, self.settings.consumer)
        else:
            raise StateError(
                f"delivery {self.delivery.value!r} stores no position beside the queue's",
                hint="move the consumer on the queue: register(tick=…)",
            )

    def _stored_place(self) -> str:
        if self.delivery is Delivery.LOCAL_FILE:
            return str(local_file(self.settings))
        return describe_dsn(self.effects_dsn)

    def _follow_file(self, on: QueueSource, tick: int | None) -> None:
        """Moves the queue to the position of the file, if it has that tick."""
        stored = self._file().tick()
        if stored is None or stored == tick:
            return
        (info,) = queues.get_consumer_info(on.conn, on.queue, on.consumer)
        if info.next_tick == stored:
            # The process died before it finished the batch: that is all that is missing.
            return
        try:
            on.register(stored)
        except StateError as error:
            raise PositionLost(
                f"{local_file(self.settings)} is at tick {stored}, which queue {on.queue}"
                " does not have",
                detail=f"consumer {on.consumer} is at tick {tick} on the queue; {error.message}",
                hint=(
                    "restore the file of this queue; or accept the queue's position, which"
                    " skips or repeats the events between: --reset"
                ),
            ) from error
        log.warning("moved to tick %d of the file from tick %s of the queue", stored, tick)

    def _interval(self, key: str, text: str | None) -> timedelta | None:
        if text is None or not text.strip():
            return None
        with session(self.settings.db, name="londiste consumer", autocommit=True) as conn:
            return interval(conn, text, key)


def _known(noted: KnownSource | None) -> KnownPosition | None:
    """The recorded identity, as it is compared; None if it was never compared."""
    if noted is None or noted.generation is None or noted.registration is None:
        return None
    return KnownPosition(
        noted.queue_name, noted.generation, noted.registration, noted.tick_id, noted.tick_time
    )


def some(tick: int | None) -> int:
    if tick is None:
        raise StateError("a cooperative consumer has no position of its own")
    return tick
