"""Consumer classes of earlier versions, which differ in where effects and position are.

Events that are not tagged done are delivered again.  A batch is committed after the method has
returned; an exception rolls it back, and it is repeated after a pause.
"""

from __future__ import annotations

import contextlib
import optparse
from collections.abc import Sequence
from typing import Any, ClassVar

from londiste import settings
from londiste.compat.dbapi import Connection
from londiste.compat.engine import Engine, NodeEngine
from londiste.compat.events import EV_DONE, EV_RETRY, Event, EventList, settle
from londiste.compat.script import DBScript, failed
from londiste.consumer import Batch, Context, Delivery, Events
from londiste.consumer.event_loop import require_done
from londiste.daemon.signals import Signals
from londiste.errors import BadOption, ServerStarting, Superseded
from londiste.settings.earlier import OTHER_NAMES

#: Settings that have another meaning or another default here.
_OWN = frozenset(
    {
        "db",
        "target_db",
        "job_name",
        "consumer_name",
        "queue_name",
        "pgq_lazy_fetch",
        "poll_interval",
    }
)
_TAGS = {"retry": EV_RETRY, "done": EV_DONE}


class Consumer(DBScript):
    """Effects in the queue's own database, committed together with the position.

    service_name -- section of the file.
    db_name -- setting with the connection string of the queue's database.
    """

    delivery: ClassVar[Delivery] = Delivery.EXACTLY_ONCE_HERE
    engine_class: ClassVar[type[Engine]] = Engine
    #: What becomes of events without a tag: ``retry``, or ``done`` as in generation 3.
    untagged: ClassVar[str] = "retry"

    def __init__(self, service_name: str, db_name: str, args: Sequence[str]) -> None:
        self.db_name = db_name
        self.remote_db: str | None = None
        self.batch_info: dict[str, Any] = {}
        self._engine: Engine | None = None
        super().__init__(service_name, args)

    def _prepare(self, args: list[str]) -> None:
        super()._prepare(args)
        self.pgq_queue_name = self.queue_name = self.cf.get(
            "queue_name", self.cf.get("pgq_queue_name", "")
        )
        if not self.queue_name:
            self.cf.get("pgq_queue_name")
        name = self.cf.get("consumer_name", self.cf.get("pgq_consumer_id", self.job_name))
        self.consumer_id = self.consumer_name = name
        self._tag = self.cf.get("untagged_events", self.untagged)
        if self._tag not in _TAGS:
            raise BadOption(
                f"untagged_events is {self._tag!r}, not retry or done",
                hint="set untagged_events = retry",
            )
        self._lazy = self.cf.getint("pgq_lazy_fetch", 0) > 0

    def init_optparse(self, parser: optparse.OptionParser | None = None) -> optparse.OptionParser:
        """The options; a subclass adds its own to what this returns."""
        parser = super().init_optparse(parser)
        parser.add_option("--register", action="store_true", help="register the consumer and exit")
        parser.add_option("--unregister", action="store_true", help="unregister it and exit")
        return parser

    # -- to be overridden ------------------------------------------------------------------

    def process_event(self, db: Connection, event: Event) -> object:
        """Processes one event."""
        raise NotImplementedError(
            f"{type(self).__name__}: write process_event() or process_batch()"
        )

    def process_batch(self, db: Connection, batch_id: int, event_list: EventList) -> object:
        """Processes the events of a batch; the default calls ``process_event`` for each."""
        for event in event_list:
            require_done(self.process_event(db, event))
        return None

    def work(self) -> Any:
        """Processes one batch; whether there was one."""
        return self.engine.one_batch()

    # -- registration ----------------------------------------------------------------------

    def register_consumer(self) -> bool:
        """Registers the consumer; False if it is registered."""
        return self.engine.register()

    def unregister_consumer(self) -> bool:
        """Unregisters the consumer; False if it is not registered."""
        return self.engine.unregister()

    # -- inside ----------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        """The consumer of the framework that delivers to this one."""
        if self._engine is None:
            kind = type(
                type(self).__name__,
                (self.engine_class,),
                {"script": self, "delivery": self.delivery},
            )
            self._engine = kind(settings=self._settings)
        return self._engine

    def _settings(self) -> settings.ConsumerSettings:
        known = settings.ConsumerSettings.model_fields
        given: dict[str, Any] = {}
        for key in self.cf.options():
            name = OTHER_NAMES.get(key, key)
            if name in known and name not in _OWN and self.cf.get(key, ""):
                given[name] = self.cf.get(key)
        given |= {
            "db": self.cf.get(self.db_name),
            "queue_name": self.queue_name,
            "job_name": self.job_name,
            "consumer_name": self.consumer_id,
            "poll_interval": self.loop_delay if self.loop_delay > 0 else 1.0,
        }
        if self.remote_db is not None:
            given["target_db"] = self.cf.get(self.remote_db)
        return settings.load(settings.ConsumerSettings, None, given)

    def _start(self) -> None:
        if self.options.register or self.options.unregister:
            if self.options.register:
                done = "registered" if self.register_consumer() else "is already registered"
            else:
                done = "unregistered" if self.unregister_consumer() else "is not registered"
            self.log.info("consumer %s of queue %s %s", self.consumer_id, self.queue_name, done)
            return
        super()._start()

    def try_out(self) -> None:
        """Raises what is wrong at the start, before a daemon goes into the background."""
        with contextlib.suppress(ServerStarting):
            self.register_consumer()
            self.engine.try_out()
        self._engine = None

    def _run(self, signals: Signals) -> None:
        if self.single:
            self.engine.run_once(signals)
        else:
            self.engine.run(signals)

    def reload_own(self) -> None:
        """Reads the settings again."""
        self._own(self.reload)

    def take(self, batch: Batch, events: Events, ctx: Context) -> None:
        """Processes a batch of the framework."""
        self.batch_info = _info(batch)
        own = EventList(batch.queue, events, lazy=self._lazy)
        try:
            self._process(batch, own, ctx)
            settle(own, ctx, untagged=_TAGS[self._tag])
        except Superseded:
            raise
        except Exception as error:
            raise failed(self.job_name, error) from error
        finally:
            self._bound.clear()

    def _process(self, batch: Batch, events: EventList, ctx: Context) -> None:
        db = self._bound[self.db_name] = Connection(lambda: ctx.db, batch=True)
        require_done(self.process_batch(db, batch.id, events))

    def batch_done(self) -> None:
        """Called when a batch is finished."""


class CoopConsumer(Consumer):
    """A consumer that several processes share: ``subconsumer_name``, ``subconsumer_timeout``."""

    def _settings(self) -> settings.ConsumerSettings:
        self.cf.get("subconsumer_name")
        return super()._settings()


class RemoteConsumer(Consumer):
    """Effects in another database, committed together with the batch's id (``pgq_ext``).

    remote_db -- setting with the connection string of that database.
    """

    delivery: ClassVar[Delivery] = Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH

    def __init__(
        self, service_name: str, db_name: str, remote_db: str, args: Sequence[str]
    ) -> None:
        super().__init__(service_name, db_name, args)
        self.remote_db = remote_db

    def process_remote_batch(
        self, db: Connection, batch_id: int, event_list: EventList, dst_db: Connection
    ) -> object:
        """Processes the events of a batch; what is written to ``dst_db`` is exactly once."""
        raise NotImplementedError(f"{type(self).__name__}: write process_remote_batch()")

    def _process(self, batch: Batch, events: EventList, ctx: Context) -> None:
        assert self.remote_db is not None
        dst = self._bound[self.remote_db] = Connection(lambda: ctx.db, batch=True)
        src = self.get_database(self.db_name)
        require_done(self.process_remote_batch(src, batch.id, events, dst))

    def batch_done(self) -> None:
        """Commits what the batch wrote to the source."""
        known = self._connections.get(self.db_name)
        if known is not None and known[1].in_transaction:
            known[1].commit()


class SerialConsumer(RemoteConsumer):
    """The same with the tick as position: a lost position is found, no event is retried."""

    delivery: ClassVar[Delivery] = Delivery.EXACTLY_ONCE_ELSEWHERE
    untagged: ClassVar[str] = "done"


class CascadedConsumer(Consumer):
    """Effects in the database of a node, committed together with the node's position."""

    delivery: ClassVar[Delivery] = Delivery.CASCADE_NODE
    engine_class: ClassVar[type[Engine]] = NodeEngine
    untagged: ClassVar[str] = "done"

    #: Name of the connection to the provider during a batch.
    provider = "provider_location"

    def process_remote_event(self, src_curs: Any, dst_curs: Any, event: Event) -> object:
        """Processes one event."""
        raise NotImplementedError(
            f"{type(self).__name__}: write process_remote_event() or process_remote_batch()"
        )

    def process_remote_batch(
        self, src_db: Connection, tick_id: int, event_list: EventList, dst_db: Connection
    ) -> object:
        """Processes the events of a batch; the default calls ``process_remote_event``."""
        src_curs, dst_curs = src_db.cursor(), dst_db.cursor()
        for event in event_list:
            require_done(self.process_remote_event(src_curs, dst_curs, event))
        return None

    def _process(self, batch: Batch, events: EventList, ctx: Context) -> None:
        dst = self._bound[self.db_name] = Connection(lambda: ctx.db, batch=True)
        src = self.get_database(self.provider, connstr=self.engine.queue_dsn())
        require_done(self.process_remote_batch(src, batch.tick_id, events, dst))

    def batch_done(self) -> None:
        """Commits what the batch read from the provider."""
        known = self._connections.get(self.provider)
        if known is not None and known[1].in_transaction:
            known[1].commit()


def _info(batch: Batch) -> dict[str, Any]:
    return {
        "batch_id": batch.id,
        "queue_name": batch.queue,
        "consumer_name": batch.consumer,
        "tick_id": batch.tick_id,
        "cur_tick_id": batch.tick_id,
        "prev_tick_id": batch.prev_tick_id,
        "batch_start": batch.prev_tick_time,
        "prev_tick_time": batch.prev_tick_time,
        "batch_end": batch.tick_time,
        "cur_tick_time": batch.tick_time,
        "seq_start": batch.prev_event_seq,
        "seq_end": batch.event_seq,
    }
