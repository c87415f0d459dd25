"""Batch sources: a queue for one process, or shared by cooperative consumers.

A source has two sessions on the queue's database: one that opens and finishes batches and receives
notifications of new ticks, and one that reads events, so that the first stays usable while a batch
is read.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from psycopg import sql

from londiste.consumer import session_settings
from londiste.consumer.event_stream import Block
from londiste.consumer.filters import BadCondition
from londiste.consumer.outcome import Outcome
from londiste.db.advisory_lock import acquire_singleton_lock, job_holder
from londiste.db.connection import Connection, connect, describe_dsn, usable, use_own_names
from londiste.db.names import word
from londiste.db.notify import Listener
from londiste.dsn import db_option
from londiste.errors import (
    EventError,
    LondisteError,
    NodeBusy,
    StateError,
    Superseded,
    UnknownConsumer,
    UnknownQueue,
)
from londiste.pgq import batches, blocks, coop, queues
from londiste.pgq.types import Batch

#: SQLSTATE of a text that the server cannot send to a client in its encoding.
_NOT_UTF8 = "22021"

#: Seconds, in addition to lock_timeout, after which a silent server that does not work is lost.
ANSWER_SECONDS = 20.0

#: Outcomes that one call stores; each call reads the batch.
AT_ONCE = 20_000


class Source(Protocol):
    """What the loop needs of a source."""

    queue: str
    consumer: str

    @property
    def conn(self) -> Connection:
        """The session that opens and finishes batches, in autocommit mode between them."""

    def next_batch(self) -> Batch | None:
        """The open batch, or the next one; None if there is none yet."""

    def chunks(self, batch: Batch) -> Iterator[Block]:
        """The events of an open batch in the order of their ids, in blocks of bounded size.

        Reads in a session of its own.  Once the first block was taken the batch may be finished,
        the others still come.
        """

    def return_events(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        """Retries and dead letters, in the transaction of ``conn``."""

    def finish(self, batch: Batch) -> None:
        """Finishes the batch, in the transaction of ``conn``.

        Raises Superseded when another process has.
        """

    def is_open(self, batch: Batch) -> bool:
        """Whether the batch is still open."""

    def close(self) -> None:
        """Closes the sessions."""


@dataclass(frozen=True)
class Wish:
    """How batches are joined and read.

    where -- condition over the columns of an event; None for all events.
    fetch -- maximum events in a list; 0 for a whole batch in one list.
    min_lag, min_count, min_interval -- as in ``pgq.batches.next_batch``.
    """

    where: sql.Composed | None = None
    fetch: int = 5000
    min_lag: timedelta | None = None
    min_count: int | None = None
    min_interval: timedelta | None = None


class QueueSource:
    """A consumer of a queue that shares its batches with no other process.

    alone -- lock the consumer for the life of the session, so that a second process of the same
        name fails at its start.
    own_names -- the session uses its user's search_path; for effects in it.
    """

    def __init__(
        self,
        dsn: str,
        queue: str,
        consumer: str,
        wish: Wish | None = None,
        *,
        lock_timeout: float = 10.0,
        synchronous: bool = True,
        own_names: bool = False,
        alone: bool = True,
        notify: bool = True,
    ) -> None:
        self.dsn = dsn
        self.queue = queue
        self.consumer = consumer
        self.wish = wish or Wish()
        self.lock_timeout = lock_timeout
        self.synchronous = synchronous
        self.own_names = own_names
        self.alone = alone
        self.notify = notify
        self.listener: Listener | None = None
        self._conn: Connection | None = None
        self._reader: Connection | None = None
        #: Whether the user's function has had the session since its settings were restored.
        self._lent = False

    # -- sessions --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The consumer's name for the lock and for messages."""
        return self.consumer

    @property
    def conn(self) -> Connection:
        if not usable(self._conn):
            self.close()
            conn = self._open("consumer")
            try:
                if self.alone:
                    _require_alone(conn, self.queue, self.name)
                self.listener = Listener(conn, [queues.TICK_CHANNEL]) if self.notify else None
                if self.own_names:
                    use_own_names(conn)
            except BaseException:
                conn.close()
                raise
            self._conn = conn
        assert self._conn is not None
        return self._conn

    def close(self) -> None:
        for conn in (self._conn, self._reader):
            if conn is not None:
                conn.close()
        self._conn = self._reader = self.listener = None

    def wakened(self) -> bool:
        """Whether this queue had a tick since the last call."""
        if self.listener is None:
            return False
        return any(queue == self.queue[:1000] for _, queue in self.listener.drain())

    def _open(self, what: str) -> Connection:
        name = f"londiste {what} {self.name}"[:40] + f" {os.getpid()}@{socket.gethostname()}"
        return connect(
            self.dsn,
            name=name,
            autocommit=True,
            lock_timeout_ms=round(self.lock_timeout * 1000),
            synchronous=self.synchronous,
            silent_seconds=self.lock_timeout + ANSWER_SECONDS,
        )

    def _reading(self) -> Connection:
        if not usable(self._reader):
            if self._reader is not None:
                self._reader.close()
            self._reader = self._open("reader")
        assert self._reader is not None
        return self._reader

    # -- batches ---------------------------------------------------------------------------

    def next_batch(self) -> Batch | None:
        conn = self.conn
        if self._lent:
            session_settings.restore(conn)
        batch = self._next_batch(conn)
        self._lent = self.own_names and batch is not None
        return batch

    def _next_batch(self, conn: Connection) -> Batch | None:
        wish = self.wish
        try:
            return batches.next_batch(
                conn,
                self.queue,
                self.consumer,
                min_lag=wish.min_lag,
                min_count=wish.min_count,
                min_interval=wish.min_interval,
            )
        except UnknownConsumer as error:
            raise not_registered(self.queue, self.consumer, self.dsn) from error

    def chunks(self, batch: Batch) -> Iterator[Block]:
        reader = self._reading()
        where = None if self.wish.where is None else self.wish.where.as_string(reader)
        try:
            yield from batches.stream(reader, batch, where=where)
        except LondisteError as error:
            if error.sqlstate == _NOT_UTF8:
                self._raise_not_utf8(batch, where, error)
            if where is None or error.retry or isinstance(error, StateError):
                raise
            raise BadCondition(
                f"consumer {self.consumer}: its condition fails: {error.message}",
                detail=f"queue {self.queue}, batch {batch.id}: {' '.join(where.split())}",
                hint="correct `where` in the class, or the setting consumer_filter",
            ) from error

    def _raise_not_utf8(self, batch: Batch, where: str | None, error: LondisteError) -> None:
        """Raises an error that names the first event whose text is not UTF-8, if there is one."""
        with self.administering() as conn:
            query = blocks.batch_event_sql(conn, batch.id)
            # Without conversion.
            conn.execute("set client_encoding to 'SQL_ASCII'")
            with contextlib.closing(batches.stream(conn, batch, query=query, where=where)) as read:
                for line in (line for block in read for line in block.data.split(b"\n")):
                    try:
                        line.decode()
                    except UnicodeDecodeError:
                        event = int(line.split(b"\t")[0])
                        break
                else:
                    return
        exclude = shlex.quote(f"consumer_filter=ev_id <> {event}")
        raise EventError(
            f"queue {batch.queue}, consumer {batch.consumer}, batch {batch.id}, event {event}:"
            " its text is not UTF-8",
            detail="a database with the encoding SQL_ASCII stores any bytes",
            hint=f"exclude the event, which finishes it with its batch: --set {exclude}",
            queue=batch.queue,
            batch_id=batch.id,
            event_id=event,
        ) from error

    def return_events(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        return_events(self.conn_in_use(), batch, outcomes)

    def finish(self, batch: Batch) -> None:
        if not batches.finish_batch(self.conn_in_use(), batch.id):
            raise superseded(batch)

    def is_open(self, batch: Batch) -> bool:
        return batches.get_batch_info(self.conn_in_use(), batch.id) is not None

    def conn_in_use(self) -> Connection:
        """The session in any state, also inside a transaction; a new one would not be in it."""
        return self._conn if self._conn is not None else self.conn

    # -- registration ----------------------------------------------------------------------

    def register(self, tick: int | None = None) -> bool:
        """Registers the consumer after a tick (the newest if None); False if it is registered."""
        with self.administering() as conn:
            try:
                if tick is None:
                    return bool(batches.register_consumer(conn, self.queue, self.consumer))
                return bool(batches.register_consumer_at(conn, self.queue, self.consumer, tick))
            except UnknownQueue as error:
                raise no_queue(self.queue, self.consumer, self.dsn) from error

    def unregister(self) -> bool:
        """Unregisters the consumer and deletes its position; False if it was not registered.

        Raises StateError while a cooperative consumer of it has an open batch.
        """
        with self.administering() as conn:
            return bool(coop.unregister_consumer(conn, self.queue, self.consumer))

    def tick(self) -> int | None:
        """The last finished tick.  Raises UnknownConsumer."""
        with self.administering() as conn:
            return position(conn, self.queue, self.consumer, self.dsn)

    @contextlib.contextmanager
    def administering(self) -> Iterator[Connection]:
        """A session that neither listens nor takes the lock."""
        conn = self._open("consumer")
        try:
            yield conn
        finally:
            conn.close()


def position(conn: Connection, queue: str, consumer: str, dsn: str) -> int | None:
    """The last finished tick of a consumer.  Raises UnknownQueue, UnknownConsumer."""
    found = queues.get_consumer_info(conn, queue, consumer)
    if not found:
        if not queues.get_queue_info(conn, queue):
            raise no_queue(queue, consumer, dsn)
        raise not_registered(queue, consumer, dsn)
    return found[0].last_tick


def no_queue(queue: str, consumer: str, dsn: str) -> UnknownQueue:
    """The error for a consumer of a queue that is not there."""
    return UnknownQueue(
        f"consumer {consumer}: queue {queue} does not exist",
        detail=f"in {describe_dsn(dsn)}",
        hint=f"londiste queue create {db_option(dsn)} {word(queue)}",
    )


def not_registered(queue: str, consumer: str, dsn: str) -> UnknownConsumer:
    """The error for a consumer that is not registered."""
    return UnknownConsumer(
        f"consumer {consumer} is not registered on queue {queue}",
        detail=f"in {describe_dsn(dsn)}",
        hint=(
            "register it at the end of the queue: --register, or in a program consumer.register()"
        ),
    )


def superseded(batch: Batch, *, shared: bool = False) -> Superseded:
    """The error of a process whose batch another one has finished or, if shared, taken over."""
    return Superseded(
        f"batch {batch.id} of queue {batch.queue}: another process finished it",
        detail=f"consumer {batch.consumer}, ticks {batch.prev_tick_id} to {batch.tick_id}",
        hint=(
            "start it again; if it was only slow, set a subconsumer_timeout longer than its batches"
            if shared
            else "run one process per consumer name; to share work use cooperative consumers:"
            " subconsumer_name"
        ),
    )


def return_events(conn: Connection, batch: Batch, outcomes: Sequence[Outcome]) -> None:
    """Stores retries and dead letters of an open batch, in the caller's transaction."""
    from londiste.pgq import dead_letters

    for begin in range(0, len(outcomes), AT_ONCE):
        some = outcomes[begin : begin + AT_ONCE]
        dead_letters.events_retry_or_fail(
            conn,
            batch.id,
            [outcome.event_id for outcome in some],
            [outcome.seconds for outcome in some],
            [outcome.attempts for outcome in some],
            # Without a limit of its own it is the queue's limit that a dead letter names.
            [
                outcome.reason if outcome.seconds is None or outcome.attempts is not None else None
                for outcome in some
            ],
        )


def _require_alone(conn: Connection, queue: str, name: str) -> None:
    job = f"consumer {queue}\n{name}"
    other = acquire_singleton_lock(conn, job)
    if other is not None:
        holder = job_holder(conn, job)
        end = "" if holder is None else f"; if it is dead, end its session: {holder.ending}"
        hint = "stop the other process; to share work use cooperative consumers: subconsumer_name"
        if holder is not None and holder.own:
            hint, end = (
                "this very process has that session; if it has lost it: ",
                holder.ending_lost,
            )
        raise NodeBusy(
            f"consumer {name} of queue {queue} is already running in {describe_dsn(conn.info.dsn)}",
            detail=other,
            hint=hint + end,
        )


class CoopSource(QueueSource):
    """One of several processes that share a consumer; each batch goes to one of them.

    dead_interval -- take over the batch of a process that was inactive for this interval.
    """

    def __init__(
        self,
        dsn: str,
        queue: str,
        consumer: str,
        subconsumer: str,
        wish: Wish | None = None,
        *,
        dead_interval: timedelta | None = None,
        **options: Any,
    ) -> None:
        super().__init__(dsn, queue, consumer, wish, **options)
        self.subconsumer = subconsumer
        self.dead_interval = dead_interval

    @property
    def name(self) -> str:
        return f"{self.consumer}.{self.subconsumer}"

    def _next_batch(self, conn: Connection) -> Batch | None:
        # The functions of cooperative consumers register by themselves, at the end of the queue.
        # Asked each time: somebody may unregister the consumer while this process runs.
        position(conn, self.queue, self.consumer, self.dsn)
        wish = self.wish
        return coop.next_batch(
            conn,
            self.queue,
            self.consumer,
            self.subconsumer,
            dead_interval=self.dead_interval,
            min_lag=wish.min_lag,
            min_count=wish.min_count,
            min_interval=wish.min_interval,
        )

    def finish(self, batch: Batch) -> None:
        if not coop.finish_batch(self.conn_in_use(), batch.id):
            raise superseded(batch, shared=True)

    def unregister(self) -> bool:
        """Unregisters this process; others continue.  Raises BatchOpen while it has a batch."""
        with self.administering() as conn:
            return bool(
                coop.unregister_subconsumer(conn, self.queue, self.consumer, self.subconsumer)
            )
