"""Consumer of a queue: a class to subclass, or a function decorated with ``consume``.

A subclass declares queue, name and delivery, and has ``process_event`` or ``process_batch``:

    class Greeter(londiste.Consumer):
        queue = "signups"
        name = "greeter"

        def process_event(self, event, ctx):
            print("hello", event.data)

    Greeter("dbname=shop").run()        until it gets a stop request
    Greeter.main()                      as a program with its own command line

``factory.py`` builds sessions, source and progress; ``runner.py`` has the body of the loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from londiste import settings as settings_module
from londiste.consumer import factory
from londiste.consumer.context import Context
from londiste.consumer.delivery import Delivery
from londiste.consumer.event_loop import ends_fail, format_error, raised_at
from londiste.consumer.event_stream import Events
from londiste.consumer.runner import Runner
from londiste.daemon.logcontext import bound
from londiste.daemon.loop import Loop, started
from londiste.daemon.signals import Signals
from londiste.db.connection import usable
from londiste.errors import (
    BadOption,
    EventError,
    InstallError,
    LondisteError,
    PositionLost,
    ServerStarting,
    Superseded,
    UnknownConsumer,
    UnknownQueue,
)
from londiste.pgq.consumers import ConsumerKind
from londiste.pgq.liveness import Beat
from londiste.pgq.types import Batch, Event
from londiste.settings import ConsumerSettings
from londiste.settings.loading import taken_over

#: What no further try can mend; the loop ends with it, the position stays.
FATAL = (
    Superseded,
    EventError,
    PositionLost,
    UnknownConsumer,
    UnknownQueue,
    BadOption,
    InstallError,
)


class Consumer:
    """Base class of consumers.

    queue, name -- the queue, and the consumer registered on it; the settings ``queue_name`` and
        ``consumer_name`` win.
    delivery -- delivery guarantee: docs/howto/write-a-consumer.md compares them.
    types -- only events of these types; the setting ``event_types`` wins.
    where -- only events that match this SQL condition over ``ev_type``, ``ev_data``, … holds.
    max_attempts -- an event whose function fails is delivered again, and becomes a dead letter
        after this number of attempts; None: the consumer stops at it.
    settings_class -- a subclass of ConsumerSettings with keys of your own.
    """

    queue: ClassVar[str] = ""
    name: ClassVar[str] = ""
    delivery: ClassVar[Delivery] = Delivery.AT_LEAST_ONCE
    types: ClassVar[Sequence[str]] = ()
    where: ClassVar[str | sql.Composable] = ""
    max_attempts: ClassVar[int | None] = None
    settings_class: ClassVar[type[ConsumerSettings]] = ConsumerSettings
    #: A second process of the same name ends at its start; False: only when it gets in the way.
    alone: ClassVar[bool] = True
    #: What lists of consumers call it.
    listed_as: ClassVar[ConsumerKind] = ConsumerKind.CONSUMER
    #: What makes source and progress.
    parts_class: ClassVar[type[factory.Parts]] = factory.Parts

    def __init__(
        self,
        db: str | None = None,
        *,
        settings: ConsumerSettings | Callable[[], ConsumerSettings] | None = None,
        **given: Any,
    ) -> None:
        """Opens no connection yet.

        db -- connection string of the queue's database.
        settings -- all settings, or a function that reads them, at the start and after SIGHUP.
        given -- or single settings by their names: ``target_db=…``, ``poll_interval=0.1``.

        Raises BadOption for settings that conflict with each other or with the class.
        """
        if isinstance(settings, ConsumerSettings):
            fixed = settings
            self._read: Callable[[], ConsumerSettings] = lambda: fixed
        else:
            chosen = given if db is None else {"db": db, **given}
            self._read = settings or (
                lambda: settings_module.load(
                    self.settings_class, None, chosen, defaults=self.defaults()
                )
            )
        self.settings = self._read()
        self.signals: Signals | None = None
        self._parts = self.parts_class(type(self), self.settings, self._stopping)
        self._runner: Runner | None = None
        self._started = False
        #: Called with the events and the seconds of each batch.
        self._observe: Callable[[int, float], None] | None = None
        self._beat = Beat(
            self.listed_as.value,
            self.settings.queue_name,
            self.settings.consumer,
            self.settings.subconsumer_name,
        )

    # -- to be overridden ------------------------------------------------------------------

    def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
        """Processes the events of a batch, in the order of their ids.

        The default calls ``process_event`` for each event.  Override it to process many at a time;
        the events are read while you take them, once.
        """
        ctx.each(events, self.process_event)

    def process_event(self, event: Event, ctx: Context) -> None:
        """Processes one event.

        Raise ``Retry(seconds)`` to get it again later, ``Dead(reason)`` to make it a dead
        letter.  Any other exception stops the consumer at the event (see max_attempts),
        unless the failure is temporary: then the batch is retried.
        """
        raise NotImplementedError(f"{type(self).__name__}: write process_event or process_batch")

    def startup(self) -> None:
        """Called once, connected and registered, before the first batch."""

    def shutdown(self) -> None:
        """Called once at the end, also after an error."""

    def reload(self) -> None:
        """Called after SIGHUP; ``self.settings`` are the new ones.

        After an error that it raises, they are the ones of before again.
        """

    # -- running ---------------------------------------------------------------------------

    def run(self, signals: Signals | None = None) -> None:
        """Processes batches until a stop request: SIGTERM, SIGINT, or ``signals.stop()``.

        Then it finishes the batch; a second signal breaks it off.  Errors at the start are raised
        at once: not registered, another process, a refused login.  It waits for a server that
        does not answer, starts or recovers; under a service manager also for one that refuses the
        login.  Later the loop retries temporary failures and raises
        the others: EventError, PositionLost, Superseded.
        """
        own = None
        if signals is None:
            signals = own = Signals(
                stop_timeout=self.settings.stop_timeout, break_off_on_second=True
            )
        self.signals = signals
        try:
            with signals.handled(), self._bound():
                if not started(self._start, signals, longest_pause=self.settings.max_retry_delay):
                    return
                Loop(
                    self.work,
                    signals=signals,
                    delay=self.settings.poll_interval,
                    longest_pause=self.settings.max_retry_delay,
                    on_reload=self._reload,
                    files=self._files,
                    recover=self._recover,
                    fatal=FATAL,
                ).run()
        finally:
            self.close()
            self.signals = None
            if own is not None:
                own.close()

    def run_once(self, signals: Signals | None = None) -> int:
        """Processes batches until there is none; their number.  Raises the first error."""
        count = 0
        self.signals = signals
        try:
            with self._bound():
                while not self._stopping() and self.work():
                    count += 1
        finally:
            self.close()
        return count

    def try_out(self) -> None:
        """Starts as ``run`` does, and ends: raises the errors of a start."""
        try:
            with self._bound(), contextlib.suppress(ServerStarting):
                self._parts.begin(self._running().source)
        finally:
            self.close()

    def work(self) -> bool:
        """Processes one batch, if there is one; whether there was one."""
        with self._bound():
            self._start()
            runner = self._running()
            # First: a node says here that the queue is elsewhere now, and the place of before may
            # be gone.
            paused = self._parts.paused(runner.source)
            # What arrives from here on is looked at after the batch.
            runner.source.wakened()
            if paused:
                runner.statistics.log_when_due()
                self._beat.beat(runner.source._conn)
                return False
            try:
                batch = runner.batch()
            except LondisteError:
                self._recover(None)
                raise
            runner.statistics.log_when_due()
            if batch is not None:
                self._beat.worked()
            self._beat.beat(runner.source._conn)
            return batch is not None or runner.source.wakened()

    def close(self) -> None:
        """Closes the sessions; ``work`` opens them again."""
        with self._bound():
            try:
                if self._started:
                    self._started = False
                    self.shutdown()
            finally:
                if self._runner is not None:
                    self._runner.statistics.log_when_due(now=True)
                    self._beat.stop(self._runner.source._conn)
                    self._runner.close()
                    self._runner = None

    # -- registration ----------------------------------------------------------------------

    def register(self, tick: int | None = None, *, like: str | None = None) -> bool:
        """Registers the consumer; False without a change if it is registered.

        tick -- its events are those after this tick; None: those after the newest.
        like -- start at the position of this other consumer of the queue.

        Raises UnknownQueue, StateError when the queue has not this tick, UnknownConsumer.
        """
        return self._parts.register(tick, like)

    def unregister(self) -> bool:
        """Unregisters the consumer and deletes its positions; False if it was not registered."""
        return self._parts.unregister()

    def pause(self, reason: str | None = None) -> bool:
        """Pauses every process of this consumer after its batch; False if it is paused.

        The pause is stored in the queue's database: a restarted process stays paused.
        """
        return self._parts.pause(reason)

    def resume(self) -> bool:
        """Resumes the consumer; False if it was not paused."""
        return self._parts.resume()

    def rewind(self) -> int:
        """Moves the queue to the position stored with the effects; the tick.

        For a queue and data that differ: a restored backup, a new registration.
        """
        return self._parts.rewind()

    def reset(self) -> int:
        """Stores the queue's position with the effects, replacing the stored one; the tick."""
        return self._parts.reset()

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> None:
        """Runs the consumer as a program with a command line of its own, and ends the process."""
        # The command line is above this package; the table of names in front leads there.
        import londiste

        londiste.run_program(cls, argv)

    @classmethod
    def defaults(cls) -> Mapping[str, Any]:
        """The settings that the class itself gives."""
        given = {
            "queue_name": cls.queue,
            "consumer_name": cls.name,
            "event_types": tuple(cls.types),
            "max_attempts": cls.max_attempts,
        }
        return {key: value for key, value in given.items() if value}

    def condition(self) -> sql.Composed | None:
        """Which events of a batch the settings ask for, as SQL over their columns; None: all."""
        return self._running().source.wish.where

    # -- inside ----------------------------------------------------------------------------

    def _bound(self) -> Any:
        settings = self.settings
        return bound(
            job=settings.job_name or settings.consumer,
            queue=settings.queue_name,
            consumer=settings.consumer,
        )

    def _stopping(self) -> bool:
        return self.signals is not None and self.signals.stopping

    def _running(self) -> Runner:
        if self._runner is None:
            self._runner = self._parts.runner(self.process_batch)
            self._runner.statistics.observe = self._observe
        return self._runner

    def _start(self) -> None:
        runner = self._running()
        if not usable(runner.source._conn):
            self._parts.begin(runner.source)
        if not self._started:
            self._startup()
            self._started = True

    def _startup(self) -> None:
        try:
            with ends_fail():
                self.startup()
        except (LondisteError, psycopg.Error):
            raise
        except Exception as error:
            raise LondisteError(
                f"consumer {self.settings.consumer}: startup failed: {format_error(error)}",
                detail=raised_at(error).removeprefix("; "),
                hint="correct startup() and start the consumer again: no batch was taken",
            ) from error

    def _reload(self) -> None:
        fixed = ("db", "queue_name", "job_name", "consumer_name", "subconsumer_name")
        before = self.settings, self._parts
        new = taken_over(self.settings, self._read(), fixed)
        self._parts = self.parts_class(type(self), new, self._stopping)
        self.settings = new
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        try:
            self.reload()
        except BaseException:
            self.settings, self._parts = before
            raise

    def _files(self) -> Sequence[int]:
        listener = self._runner.source.listener if self._runner is not None else None
        return [listener.fileno()] if listener is not None else []

    def _recover(self, error: LondisteError | None) -> None:
        """A transaction that was left open ends with its session; the next batch has new ones."""
        if self._runner is not None:
            self._runner.close()
