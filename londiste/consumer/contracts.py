"""Delivery contracts: the order of steps of each, with a crash point in every gap.

The names are those of ``londiste.daemon.crash``: tests kill a process in every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain

from londiste.consumer.context import Context
from londiste.consumer.delivery import Delivery
from londiste.consumer.event_stream import Block
from londiste.consumer.outcome import Outcome
from londiste.consumer.progress import Progress
from londiste.consumer.source import Source
from londiste.daemon import crash
from londiste.db.connection import Connection
from londiste.pgq.types import Batch

Chunks = Iterator[Block]


@dataclass(frozen=True)
class Job:
    """What a contract works with.

    process -- the consumer's function over a batch; gives the context with what it decided.
        Called a second time, after the transaction was rolled back, when the first attempt
        needs savepoints.
    transaction -- a transaction of the session for effects.
    """

    source: Source
    process: Callable[[Batch, Chunks], Context]
    transaction: Callable[[], AbstractContextManager[object]]
    progress: Progress | None = None


def at_most_once(job: Job, batch: Batch) -> Context | None:
    """Finishes the batch before the first event is processed; its events can still be read."""
    chunks = job.source.chunks(batch)
    first = next(chunks, None)
    _finish(job, batch, ())
    return job.process(batch, chain([first], chunks) if first is not None else iter(()))


def at_least_once(job: Job, batch: Batch) -> Context | None:
    """Processes the batch, then finishes it."""
    done = job.process(batch, job.source.chunks(batch))
    crash.point("consumer.processed")
    _finish(job, batch, done.returned)
    return done


def exactly_once_here(job: Job, batch: Batch) -> Context | None:
    """Effects, retries and finishing in one transaction of the queue's database."""
    with job.source.conn.transaction():
        done = job.process(batch, job.source.chunks(batch))
        crash.point("consumer.processed")
        job.source.return_events(batch, done.returned)
        job.source.finish(batch)
        crash.point("consumer.before-commit")
    crash.point("consumer.after-finish")
    return done


def exactly_once_elsewhere(job: Job, batch: Batch) -> Context | None:
    """Effects and position in one transaction of their database, then finished."""
    assert job.progress is not None
    done = None
    with job.transaction():
        if not job.progress.seen(batch):
            if not job.source.is_open(batch):
                # Somebody else has done it and gone on; the position cannot tell by itself.
                job.source.finish(batch)
            done = job.process(batch, job.source.chunks(batch))
            crash.point("consumer.processed")
            _require_storable(job, batch, done.returned)
            job.progress.completed(batch, done.returned)
            crash.point("consumer.before-commit")
    crash.point("consumer.after-commit")
    _finish(job, batch, job.progress.returned(batch) if done is None else done.returned)
    return done


def local_file(job: Job, batch: Batch) -> Context | None:
    """Processes the batch, writes the position to the file, then finishes it."""
    assert job.progress is not None
    done = None
    if not job.progress.seen(batch):
        done = job.process(batch, job.source.chunks(batch))
        crash.point("consumer.processed")
        if not job.source.is_open(batch):
            # Another process has finished it meanwhile, and the file may be further.
            job.source.finish(batch)
        _require_storable(job, batch, done.returned)
        job.progress.completed(batch, done.returned)
    crash.point("consumer.after-commit")
    _finish(job, batch, job.progress.returned(batch) if done is None else done.returned)
    return done


#: once per event is at least once for the batch; what differs is in the marks of its events.
STEPS: dict[Delivery, Callable[[Job, Batch], Context | None]] = {
    Delivery.AT_MOST_ONCE: at_most_once,
    Delivery.AT_LEAST_ONCE: at_least_once,
    Delivery.EXACTLY_ONCE_HERE: exactly_once_here,
    Delivery.EXACTLY_ONCE_ELSEWHERE: exactly_once_elsewhere,
    Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH: exactly_once_elsewhere,
    Delivery.CASCADE_NODE: exactly_once_elsewhere,
    Delivery.ONCE_PER_EVENT: at_least_once,
    Delivery.LOCAL_FILE: local_file,
}


def _require_storable(job: Job, batch: Batch, returned: Sequence[Outcome]) -> None:
    """Raises what the queue has against these outcomes while the batch can still be undone."""
    if returned:
        with job.source.conn.transaction(force_rollback=True):
            job.source.return_events(batch, returned)


def _finish(job: Job, batch: Batch, returned: Sequence[Outcome]) -> None:
    """Stores retries and dead letters, then finishes the batch, in one transaction of the queue."""
    crash.point("consumer.before-finish")
    conn: Connection = job.source.conn
    with conn.transaction():
        job.source.return_events(batch, returned)
        job.source.finish(batch)
        crash.point("consumer.mid-finish")
    crash.point("consumer.after-finish")
