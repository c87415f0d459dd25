"""Batches of the provider's queue, read from a hot standby of the provider.

The batch is opened and finished at the provider.  The standby has its events when it shows the
tick that ends the batch: the commits that a tick has seen precede the tick's own commit in the
WAL, and a standby replays commits in their order.  The provider's query of the events is right
there too: it names tables and transaction ids, which are the same.

A batch counts as read only if the standby has both ticks before **and after** the read, and is
still in recovery.  Rotation deletes the earlier tick in the transaction that empties the table of
its events, so both ticks together prove that no event was missing.  Everything else is
``StandbyLost``: what was read is thrown away, and the provider is read.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator
from typing import NoReturn

import psycopg

from londiste.daemon import logcontext
from londiste.daemon.durations import dhms
from londiste.db.connection import (
    Connection,
    describe_dsn,
    limit_answers,
    limit_silence,
    usable,
    whereabouts,
)
from londiste.db.sessions.opening import Opening
from londiste.error_values import Values, shown
from londiste.errors import LondisteError, TransientError
from londiste.pgq import batches, blocks
from londiste.pgq.batches import Coming
from londiste.pgq.blocks import EventBlock
from londiste.pgq.liveness import Beat
from londiste.pgq.types import Batch
from londiste.standby import health as states
from londiste.standby.health import Health
from londiste.standby.server import HINT, Server, open_session
from londiste.standby.ticks import Bounds, looks, replayed

log = logging.getLogger(__name__)


class StandbyLost(TransientError):
    """The standby failed during a read: what was read must be thrown away and read again."""


class StandbyReader:
    """Reads batches from one standby, or says that the provider has to be read.

    Never raises but ``StandbyLost``.  One thread at a time uses it.

    dsn -- connection string of the standby.
    queue, consumer -- whose batches it reads.
    wait -- seconds to wait until it has replayed a batch.
    longest_pause -- maximum seconds until one that failed is tried again.
    answer_seconds -- see ``connect``.
    """

    def __init__(
        self,
        dsn: str,
        queue: str,
        consumer: str,
        *,
        wait: float,
        longest_pause: float,
        answer_seconds: float | None = None,
    ) -> None:
        self.dsn = dsn
        self.queue = queue
        self.place = describe_dsn(dsn)
        self.wait = wait
        self.longest_pause = longest_pause
        self.answer_seconds = answer_seconds
        self.health = Health()
        #: Batches that were read there.
        self.read = 0
        self._provider: Server | None = None
        self._name = ""
        self._where = self.place
        self._conn: Connection | None = None
        self._opening: Opening | None = None
        self._beat = Beat("standby", queue, consumer, self.place)

    def of_provider(self, provider: Server, name: str) -> None:
        """The provider whose standby it has to be; the session is checked again if it changed."""
        if provider != self._provider:
            self._provider = provider
            self.health = Health()
            self.close()
        self._name = name

    def has(self, bounds: Bounds, *, stopping: Callable[[], bool] = lambda: False) -> bool:
        """Whether the standby has the batch and can be read; waits for its replay."""
        return self._try(lambda conn: self._has_ticks(conn, bounds, stopping))

    def has_open(self, batch: Batch) -> Connection | None:
        """The session, if the standby also shows that the batch is open; None: use the provider.

        For functions of the queue that take the id of an open batch.
        """

        def ready(conn: Connection) -> bool:
            if not self._has_ticks(conn, Bounds.of(batch), lambda: False):
                return False
            deadline = time.monotonic() + self.wait
            for _ in looks(deadline):
                found = batches.get_batch_info(conn, batch.id)
                if found is not None and found.tick_id == batch.tick_id:
                    return True
            return self._late(f"it has not replayed that batch {batch.id} is open")

        return self._conn if self._try(ready) else None

    def stream(self, query: str, bounds: Bounds) -> Generator[EventBlock, None, None]:
        """The events of a batch that it ``has``, in blocks; as ``batches.stream``.

        Raises StandbyLost, also after the last block: none of them may be kept then.
        """
        try:
            if self._conn is None:
                raise StandbyLost("the session has ended")
            with contextlib.closing(blocks.read(self._conn, query)) as found:
                yield from found
        except (LondisteError, psycopg.Error) as error:
            self._lost(error)
        self.confirm(bounds)

    def confirm(self, bounds: Bounds) -> None:
        """Proves that what was read of a batch is complete.  Raises StandbyLost."""
        try:
            if self._conn is None:
                raise StandbyLost("the session has ended")
            answer = self._look(self._conn, bounds)
        except (LondisteError, psycopg.Error) as error:
            self._lost(error)
        if answer != "":
            self._lost(StandbyLost(answer or "the ticks of the batch are gone"))
        self.read += 1
        self._beat.worked()
        self._answers()

    def fail(self, error: Exception) -> StandbyLost:
        """Notes a failure of a read by another session of this standby; the error to raise."""
        text = self._text(error)
        self._fail(text)
        return StandbyLost(f"standby {self.place}: {text}")

    def try_again(self) -> None:
        """Between batches: tries whether a standby that failed can be used again."""
        if not self.health.usable and not self.health.late and self._try(lambda conn: True):
            self._answers()

    def report(self, node: Connection | None) -> None:
        """Reports to ``status`` of the node whether the standby is read."""
        reason = states.finding(self.health, time.monotonic())
        self._beat.error = f"{reason}; node {self._name} is read" if reason else ""
        self._beat.beat(node)

    def cancel(self, seconds: float) -> None:
        """Ends what another thread reads."""
        if self._conn is not None:
            with contextlib.suppress(Exception):
                self._conn.cancel_safe(timeout=seconds)

    def close(self) -> None:
        """Ends the session."""
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.give_up()

    def stop(self, node: Connection | None) -> None:
        """The end of the worker: it reads nothing any more."""
        self._beat.stop(node)
        self.close()

    # -- attempts --------------------------------------------------------------------------

    def _try(self, ready: Callable[[Connection], bool]) -> bool:
        if self._provider is None or not states.may_ask(self.health, time.monotonic()):
            return False
        try:
            conn = self._session(self._provider)
            if conn is None or not ready(conn):
                return False
        except (LondisteError, psycopg.Error) as error:
            self._fail(self._text(error), getattr(error, "hint", ""))
            return False
        if self.health.late:
            self._answers()
        return True

    def _session(self, provider: Server) -> Connection | None:
        """The session; None while it is being opened, which only its first use waits for."""
        if self._conn is not None and usable(self._conn):
            return self._conn
        if self._opening is None:
            self.close()
            self._opening = Opening(
                logcontext.carried(
                    lambda: open_session(
                        self.dsn,
                        provider,
                        name="londiste worker: standby",
                        answer_seconds=self.answer_seconds,
                    )
                ),
                name="standby",
            )
        if not self._opening.ended(self.wait if self.health.usable else 0.0):
            if self.health.usable:
                self._late(f"it has not answered in {self.wait:g} s")
            return None
        opening, self._opening = self._opening, None
        self._conn = conn = opening.take()
        self._where = whereabouts(conn)
        return conn

    def _has_ticks(self, conn: Connection, bounds: Bounds, stopping: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + states.patience(self.health, self.wait)
        for _ in looks(deadline):
            answer = self._look(conn, bounds)
            if answer:
                raise TransientError(answer, hint=HINT)
            if answer is not None:
                return True
            if stopping():
                return False
        return self._late(f"it has not replayed tick {bounds.to_tick} in {self.wait:g} s")

    def _look(self, conn: Connection, bounds: Bounds) -> str | None:
        """What ``replayed`` answers; a server that takes longer than its wait counts as silent."""
        limit_answers(conn, self.answer_seconds)
        try:
            return replayed(conn, self.queue, bounds)
        finally:
            limit_silence(conn, self.answer_seconds)

    # -- state -----------------------------------------------------------------------------

    def _late(self, reason: str) -> bool:
        before = self.health
        self.health = states.lags(before, time.monotonic(), reason)
        if not before.late:
            self._say(reason)
        return False

    def _fail(self, reason: str, hint: str = "") -> None:
        before = self.health
        self.health = states.failed(before, time.monotonic(), reason, self.longest_pause)
        self.close()
        if before.reason != reason:
            self._say(reason, hint)

    def _answers(self) -> None:
        before, self.health = self.health, states.answers()
        if not before.usable:
            log.info(
                "standby %s: read again after %s", self.place, dhms(time.monotonic() - before.since)
            )

    def _say(self, reason: str, hint: str = "") -> None:
        end = f"; hint: {hint}" if hint == HINT else ""
        log.warning("standby %s: %s; reading from node %s%s", self.place, reason, self._name, end)

    def _lost(self, error: Exception) -> NoReturn:
        raise self.fail(error) from error

    def _text(self, error: Exception) -> str:
        """One line about an error, without values of rows and without the place."""
        if isinstance(error, LondisteError):
            text = error.message
        elif isinstance(error, psycopg.Error):
            text = shown(error, Values.APART).message
        else:
            text = (str(error).splitlines() or [type(error).__name__])[0]
        return text.removeprefix(f"{self._where}: ").removeprefix(f"{self.place}: ")


@contextlib.contextmanager
def batch_events(
    standby: StandbyReader | None,
    source: Connection,
    batch: Batch | Coming,
    query: str,
    *,
    stopping: Callable[[], bool] = lambda: False,
) -> Iterator[Iterator[EventBlock]]:
    """The events of a batch, from the standby if it can be read, otherwise from the provider.

    query -- of its events, by the provider.  Raises StandbyLost; the provider is read next time.
    """
    bounds = Bounds.of(batch)
    if standby is not None and standby.has(bounds, stopping=stopping):
        found = standby.stream(query, bounds)
    elif isinstance(batch, Batch):
        found = blocks.stream(source, batch, query=query, any_bytes=True)
    else:
        found = blocks.read(source, query, any_bytes=True)
    # A reported error keeps the generator alive; the statement must end now.
    with contextlib.closing(found):
        yield found
