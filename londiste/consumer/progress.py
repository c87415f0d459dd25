"""Progress of a consumer outside the queue: in a database or in a file.

The database of the effects (``pgq_ext``), so that both are committed together, or a local file.
A batch that the queue delivers again after a crash is recognised as done, and only finished.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from londiste.consumer.outcome import Outcome
from londiste.consumer.source import superseded
from londiste.daemon.files import write_atomically
from londiste.db.connection import Connection, describe_dsn
from londiste.db.queries import query, translated
from londiste.errors import BadOption, LondisteError, PositionLost, StateError
from londiste.pgq import ext
from londiste.pgq.ext import KnownSource
from londiste.pgq.types import Batch

POSITION_HINT = (
    "set a unique consumer name per database; to start at the position of the data:"
    " --rewind; to accept the queue's position, which skips or repeats the events between:"
    " --reset"
)
BATCH_HINT = (
    "set a unique consumer name per database; to accept the queue's position, which skips or"
    " repeats the events between: --reset"
)


class Progress(Protocol):
    """What the loop needs; ``seen`` and ``completed`` run in one transaction of their database."""

    def seen(self, batch: Batch) -> bool:
        """Whether the batch is done.  Locks out other processes of the same name until the end of
        the transaction, if any.  Raises PositionLost when queue and progress do not fit.
        """

    def completed(self, batch: Batch, returned: Sequence[Outcome]) -> None:
        """Records that the batch is done, except these events, which go back to the queue.

        Raises StateError if another process has done it.
        """

    def returned(self, batch: Batch) -> Sequence[Outcome]:
        """The events that ``completed`` recorded for a batch that was done before."""


class TickProgress:
    """Last finished tick, in ``pgq_ext`` of the database of the effects.

    db -- gives the session; ``seen`` and ``completed`` are called inside its transaction.
    """

    def __init__(self, db: Callable[[], Connection], consumer: str) -> None:
        self.db = db
        self.consumer = consumer

    def tick(self) -> int | None:
        """Everything up to this tick is in the database; None if no tick is stored."""
        return ext.get_last_tick(self.db(), self.consumer)

    def lock(self) -> None:
        """Excludes other processes of this consumer until the transaction ends."""
        _keep_out(self.db(), self.consumer)

    def seen(self, batch: Batch) -> bool:
        self.lock()
        return _compare(batch, self.tick(), self.known(), describe_dsn(self.db().info.dsn))

    def completed(self, batch: Batch, returned: Sequence[Outcome]) -> None:
        ext.set_last_tick(self.db(), self.consumer, batch.tick_id)
        ext.note_known_source(self.db(), self.consumer, _end(batch))
        _store(self.db(), self.consumer, "", batch, returned)

    def returned(self, batch: Batch) -> Sequence[Outcome]:
        return _stored(self.db(), self.consumer, "", batch)

    def set(self, tick: int) -> None:
        """Sets the position without any check."""
        with self.db().transaction():
            ext.set_last_tick(self.db(), self.consumer, tick)
            ext.forget_known_source(self.db(), self.consumer)

    def forget(self) -> None:
        """Removes the position."""
        with self.db().transaction():
            ext.set_last_tick(self.db(), self.consumer, None)
            ext.forget_known_source(self.db(), self.consumer)

    def known(self) -> KnownSource | None:
        """The queue of the position; None if none is recorded."""
        return ext.get_known_source(self.db(), self.consumer)

    def note(self, known: KnownSource | None) -> None:
        """Records it; None: the position belongs to the next queue that is found."""
        if known is None:
            ext.forget_known_source(self.db(), self.consumer)
        else:
            ext.note_known_source(self.db(), self.consumer, known)


class BatchProgress:
    """Last finished batch, in ``pgq_ext`` of the database of the effects."""

    def __init__(self, db: Callable[[], Connection], consumer: str, subconsumer: str = "") -> None:
        self.db = db
        self.consumer = consumer
        self.subconsumer = subconsumer

    def seen(self, batch: Batch) -> bool:
        _keep_out(self.db(), f"{self.consumer}\n{self.subconsumer}")
        known = _marks_of(self.db(), batch, self.consumer, self.subconsumer)
        done = ext.is_batch_done(self.db(), self.consumer, batch.id, self.subconsumer)
        if done and known is not None and known != _end(batch, known):
            raise _other_end(self.db(), batch, known)
        return done

    def completed(self, batch: Batch, returned: Sequence[Outcome]) -> None:
        if not ext.set_batch_done(self.db(), self.consumer, batch.id, self.subconsumer):
            raise StateError(
                f"batch {batch.id}: another process finished it during processing",
                detail=f"consumer {self.consumer} in {describe_dsn(self.db().info.dsn)}",
            )
        ext.note_known_source(self.db(), self.consumer, _end(batch), self.subconsumer)
        _store(self.db(), self.consumer, self.subconsumer, batch, returned)

    def returned(self, batch: Batch) -> Sequence[Outcome]:
        return _stored(self.db(), self.consumer, self.subconsumer, batch)

    def forget(self) -> None:
        """Deletes the record of the batches and of their queue."""
        ext.forget_batches(self.db(), self.consumer, self.subconsumer)


class EventMarks:
    """Events of the current batch that are done, in ``pgq_ext`` of the database of the effects.

    db -- gives the session; the methods are called inside the transaction of one event.
    is_open -- whether the queue has the batch open.
    """

    def __init__(
        self,
        db: Callable[[], Connection],
        consumer: str,
        subconsumer: str,
        is_open: Callable[[Batch], bool],
    ) -> None:
        self.db = db
        self.consumer = consumer
        self.subconsumer = subconsumer
        self._is_open = is_open

    def done(self, batch: Batch, event: int) -> bool:
        """Whether the event is done.  Locks out other processes until the transaction ends.

        Raises Superseded when another process has a later batch, PositionLost when the marks are
        those of another queue, or of a batch that the queue has lost.
        """
        conn, names = self.db(), (self.consumer, self.subconsumer)
        _keep_out(conn, "\n".join(names))
        known = _marks_of(conn, batch, *names)
        current = ext.get_event_batch(conn, *names)
        if current is not None and current > batch.id:
            if not self._is_open(batch):
                raise superseded(batch)
            raise _other_marks(conn, batch, f"its newest batch there is {current}")
        if current != batch.id or known is None:
            ext.note_known_source(conn, self.consumer, _end(batch), self.subconsumer)
        elif known != _end(batch, known):
            raise _other_end(conn, batch, known)
        return ext.is_event_done(conn, self.consumer, batch.id, event, self.subconsumer)

    def mark(self, batch: Batch, event: int) -> bool:
        """Marks the event as done; False if it was."""
        return ext.set_event_done(self.db(), self.consumer, batch.id, event, self.subconsumer)


class FileProgress:
    """Last finished tick in a small JSON file, replaced atomically.

    The file names its queue and consumer; a file of another one is refused.
    """

    def __init__(self, path: Path, queue: str, consumer: str) -> None:
        self.path = path
        self.queue = queue
        self.consumer = consumer

    def tick(self) -> int | None:
        """The tick in the file; None without a file.  Raises StateError for a foreign file."""
        return self._load()[0]

    def known(self) -> KnownSource | None:
        """The queue of the position; None if the file does not name it."""
        return self._load()[2]

    def _load(self) -> tuple[int | None, list[Outcome], KnownSource | None]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None, [], None
        except (OSError, UnicodeDecodeError) as error:
            raise BadOption(
                f"{self.path}: cannot be read: {error}", hint="correct local_tracking_file"
            ) from None
        try:
            stored = json.loads(text)
            if isinstance(stored, int):
                # The form of earlier versions: the number alone.
                return stored, [], None
            owner, tick = (stored["queue"], stored["consumer"]), int(stored["tick"])
            returned = [Outcome(**each) for each in stored.get("returned", [])]
            known = _known_in(stored)
        except (ValueError, KeyError, TypeError):
            raise PositionLost(
                f"{self.path}: not a position file",
                detail="position files are replaced atomically, so another program has changed it",
                hint="restore the file, or accept the queue's position with --reset",
            ) from None
        if owner != (self.queue, self.consumer):
            raise StateError(
                f"{self.path}: belongs to consumer {owner[1]} on queue {owner[0]}",
                detail=f"expected consumer {self.consumer} on queue {self.queue}",
                hint="set a separate local_tracking_file per consumer",
            )
        return tick, returned, known

    def seen(self, batch: Batch) -> bool:
        tick, _, known = self._load()
        return _compare(batch, tick, known, str(self.path))

    def completed(self, batch: Batch, returned: Sequence[Outcome]) -> None:
        known = self.known()
        self._write(batch.tick_id, returned, _end(batch, known))

    def returned(self, batch: Batch) -> Sequence[Outcome]:
        return self._load()[1]

    def set(self, tick: int) -> None:
        """Sets the position without any check."""
        self._write(tick, (), None)

    def note(self, known: KnownSource | None) -> None:
        """Records the queue of the position; None: the next queue that is found."""
        tick, returned, _ = self._load()
        if tick is not None:
            self._write(tick, returned, known)

    def _write(self, tick: int, returned: Sequence[Outcome], known: KnownSource | None) -> None:
        """Replaces the file; after a crash of the machine it is the old or the new one."""
        stored: dict[str, Any] = {"queue": self.queue, "consumer": self.consumer, "tick": tick}
        if returned:
            stored["returned"] = [asdict(outcome) for outcome in returned]
        if known is not None and known.generation is not None:
            stored["source"] = {
                "generation": str(known.generation),
                "registration": known.registration,
                "tick": known.tick_id,
                "tick_time": known.tick_time.isoformat(),
            }
        try:
            write_atomically(self.path, json.dumps(stored) + "\n")
        except OSError as error:
            raise LondisteError(
                f"{self.path}: cannot be written: {error.strerror}",
                detail="the batch is not finished and will be delivered again",
                hint="free disk space, or correct local_tracking_file",
            ) from error

    def forget(self) -> None:
        """Removes the file."""
        self.path.unlink(missing_ok=True)


def _known_in(stored: dict[str, Any]) -> KnownSource | None:
    source = stored.get("source")
    if source is None:
        return None
    return KnownSource(
        stored["queue"],
        UUID(source["generation"]),
        source["registration"],
        int(source["tick"]),
        datetime.fromisoformat(source["tick_time"]),
    )


def _end(batch: Batch, known: KnownSource | None = None) -> KnownSource:
    """The end of a batch to record; generation and registration stay."""
    return KnownSource(
        batch.queue,
        known.generation if known is not None else None,
        known.registration if known is not None else None,
        batch.tick_id,
        batch.tick_time,
    )


def _compare(batch: Batch, tick: int | None, known: KnownSource | None, where: str) -> bool:
    """Whether the batch is done, by the stored tick.  Raises PositionLost if neither end fits."""
    if tick is None:
        raise missing(batch, where)
    if known is not None and known.queue_name != batch.queue:
        raise _another(batch, f"it belongs to queue {known.queue_name}", where)
    ends = {batch.prev_tick_id: batch.prev_tick_time, batch.tick_id: batch.tick_time}
    if tick not in ends:
        raise lost(batch, tick, where)
    # Of a position that was moved by hand the number alone is known.
    if known is not None and known.tick_id == tick and known.tick_time != ends[tick]:
        raise _another(
            batch, f"tick {tick} was created at {ends[tick]}, not at {known.tick_time}", where
        )
    return tick == batch.tick_id


def _marks_of(conn: Connection, batch: Batch, consumer: str, sub: str) -> KnownSource | None:
    """The end of the newest batch with marks.  Raises PositionLost if its queue is another one."""
    known = ext.get_known_source(conn, consumer, sub)
    if known is not None and known.queue_name != batch.queue:
        raise _other_marks(conn, batch, f"they belong to queue {known.queue_name}")
    return known


def _other_end(conn: Connection, batch: Batch, known: KnownSource) -> PositionLost:
    return _other_marks(
        conn, batch, f"batch {batch.id} there ended at another tick, {known.tick_id}"
    )


def _other_marks(conn: Connection, batch: Batch, why: str) -> PositionLost:
    """The error for marks that are not those of this batch."""
    return _another(batch, why, describe_dsn(conn.info.dsn), BATCH_HINT)


def _another(batch: Batch, why: str, where: str, hint: str = POSITION_HINT) -> PositionLost:
    """The error for a position whose tick id fits, but which belongs to another queue."""
    return PositionLost(
        f"consumer {batch.consumer}: its position in {where} does not belong to queue"
        f" {batch.queue}",
        detail=(
            f"{why}: queue or consumer were created again, restored, or share a name with another"
        ),
        hint=hint,
    )


def lost(batch: Batch, tick: int, where: str) -> PositionLost:
    """The error for a position that is neither start nor end of the batch."""
    return PositionLost(
        f"consumer {batch.consumer} of queue {batch.queue} is at tick {tick} in {where}, but"
        f" the queue delivers ticks {batch.prev_tick_id} to {batch.tick_id}",
        detail="one of the two was restored from a backup, or the consumer was registered again",
        hint=(
            "to start at the position of the data: --rewind; to accept the queue's position,"
            " which skips or repeats the events between: --reset"
        ),
    )


def missing(batch: Batch, where: str) -> PositionLost:
    """The error for a registered consumer without a stored position."""
    return PositionLost(
        f"consumer {batch.consumer} of queue {batch.queue} has no position in {where}",
        detail="the data was lost or not yet started; registering stores a position",
        hint=(
            "if the data fit the queue's position: --reset; else register again: --unregister,"
            " then --register"
        ),
    )


def _keep_out(conn: Connection, name: str) -> None:
    """Blocks other sessions of this consumer until the transaction ends.

    A process that was cut off and comes back finds the lock taken, or the position moved; one
    whose session has ended cannot commit.
    """
    with translated(conn):
        conn.execute(query("consumer_position_lock"), [name])


def _store(
    conn: Connection, consumer: str, sub: str, batch: Batch, returned: Sequence[Outcome]
) -> None:
    for outcome in returned:
        event = ext.ReturnedEvent(
            outcome.event_id, outcome.seconds, outcome.attempts, outcome.reason
        )
        ext.set_event_returned(conn, consumer, batch.id, event, sub)


def _stored(conn: Connection, consumer: str, sub: str, batch: Batch) -> list[Outcome]:
    return [
        Outcome(event.event_id, event.seconds, event.reason or "", event.max_attempts)
        for event in ext.get_returned_events(conn, consumer, batch.id, sub)
    ]
