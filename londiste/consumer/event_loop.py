"""One event: the user's function, and what follows from its failure.

By default a failure ends the consumer in front of the event, with its name: nothing is skipped
without a person asking.  Asking is ``Retry``, ``Dead``, or a limit of attempts.
"""

from __future__ import annotations

import inspect
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from londiste.consumer.context import Context, EventFunction
from londiste.consumer.filters import BadCondition
from londiste.consumer.outcome import RETRY_SECONDS, Dead, Retry
from londiste.daemon import crash
from londiste.db.connection import Connection, describe_dsn
from londiste.db.queries import query
from londiste.errors import EventError, LondisteError, StateError, Superseded, from_database
from londiste.pgq import ext
from londiste.pgq.types import Batch, Event

#: One event through the user's function; the difference is in transactions and marks.
One = Callable[[Event, EventFunction, Context], None]

#: What is not the user's own code: this package, installed ones, Python itself.
_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = {"site-packages", "dist-packages"}
_STDLIB = sysconfig.get_path("stdlib")


class NeedsSavepoints(Exception):
    """An event failed whose effects must go while those of others stay: once more, with care."""


@dataclass(frozen=True)
class FailurePolicy:
    """What happens to an event whose function fails.

    attempts -- deliveries after which it goes to the dead letters; None: the consumer stops.
    seconds -- until the next attempt.
    """

    attempts: int | None = None
    seconds: int = RETRY_SECONDS


def plainly(policy: FailurePolicy) -> One:
    """Effects are committed by whoever makes them."""

    def one(event: Event, function: EventFunction, ctx: Context) -> None:
        try:
            _call(function, event, ctx)
        except Exception as error:
            _decide(error, event, ctx, policy)

    return one


def hopefully() -> One:
    """In the batch's transaction, without savepoints: most batches need none."""

    def one(event: Event, function: EventFunction, ctx: Context) -> None:
        try:
            _call(function, event, ctx)
        except Exception as error:
            if transient(error) is not None:
                raise
            raise NeedsSavepoints from error

    return one


def carefully(policy: FailurePolicy) -> One:
    """In the batch's transaction, each event with a savepoint."""

    def one(event: Event, function: EventFunction, ctx: Context) -> None:
        try:
            with ctx.db.transaction():
                _call(function, event, ctx)
        except Exception as error:
            _decide(error, event, ctx, policy)

    return one


def marked(
    policy: FailurePolicy,
    transaction: Callable[[], AbstractContextManager[object]],
    conn: Callable[[], Connection],
    consumer: str,
    sub: str,
) -> One:
    """Each event in a transaction of its own, with the mark that it is done."""

    def one(event: Event, function: EventFunction, ctx: Context) -> None:
        try:
            with transaction():
                if ext.is_event_done(conn(), consumer, ctx.batch.id, event.id, sub):
                    return
                _call(function, event, ctx)
                require_transaction(conn(), ctx.batch)
                crash.point("consumer.after-effect")
                if event.id not in ctx.outcomes and not ext.set_event_done(
                    conn(), consumer, ctx.batch.id, event.id, sub
                ):
                    raise Superseded(
                        f"event {event.id} of batch {ctx.batch.id} was done by another process",
                        detail=f"queue {ctx.batch.queue}, consumer {consumer}",
                        hint="let one process run for each consumer name",
                    )
        except Exception as error:
            _decide(error, event, ctx, policy)
        crash.point("consumer.after-mark")

    return one


def _call(function: EventFunction, event: Event, ctx: Context) -> None:
    try:
        require_done(function(event, ctx))
    except psycopg.Rollback as error:
        # It would end our transaction as if all were well.
        raise StateError(
            "psycopg.Rollback was raised outside a transaction of the function's own",
            hint="write `with ctx.db.transaction():` around what is to be rolled back",
        ) from error


def require_done(result: object) -> None:
    """Raises StateError when a function has only promised to work: nobody waits for it."""
    if result is None or not (
        inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)
    ):
        return
    if inspect.iscoroutine(result):
        result.close()
    raise StateError(
        f"the function returned a {type(result).__name__} and has done nothing",
        detail="a consumer calls plain functions, neither `async` ones nor generators",
        hint="write it without `async` and `yield`; asyncio.run() runs a coroutine to its end",
    )


def require_transaction(conn: Connection, batch: Batch, xid: int | None = None) -> None:
    """Raises StateError when the function has ended the transaction that is to hold all it did.

    xid -- of the transaction as it began; None: it is enough that there is one.
    """
    status = conn.info.transaction_status
    if status is TransactionStatus.INTRANS and xid is not None and xid != transaction_id(conn):
        status = TransactionStatus.IDLE
    if status is TransactionStatus.IDLE:
        raise StateError(
            f"the function ended the transaction of batch {batch.id} of queue {batch.queue}",
            detail="what it has committed stays, what it has rolled back is gone; the batch is not"
            " finished",
            hint="leave COMMIT and ROLLBACK in ctx.db to the consumer; `with"
            " ctx.db.transaction():` is a savepoint",
        )


def transaction_id(conn: Connection) -> int:
    """The id of the session's transaction, which gets one."""
    try:
        with conn.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(query("transaction_id")).fetchone()
    except psycopg.Error as error:
        raise from_database(error, where=describe_dsn(conn.info.dsn)) from error
    assert row is not None
    return int(row[0])


def transient(error: Exception) -> LondisteError | None:
    """The error as one worth another try of the whole batch; None when it is the event's."""
    ours = from_database(error) if isinstance(error, psycopg.Error) else error
    return ours if isinstance(ours, LondisteError) and ours.retry else None


@contextmanager
def whole(batch: Batch) -> Iterator[None]:
    """Around ``process_batch``: its errors name the batch."""
    try:
        yield
    except (BadCondition, EventError, NeedsSavepoints, StateError):
        raise
    except (Retry, Dead) as error:
        raise EventError(
            f"{_place(batch)}: {type(error).__name__} was raised outside process_event",
            detail=error.message,
            hint="in process_batch say which event: ctx.retry(event), ctx.dead(event, reason), or"
            " give your function to ctx.each(events, function)",
            queue=batch.queue,
            batch_id=batch.id,
        ) from error
    except Exception as error:
        _raise_transient(error)
        raise EventError(
            f"{_place(batch)}: process_batch failed: {format_error(error)}",
            detail=f"ticks {batch.prev_tick_id} to {batch.tick_id}{raised_at(error)}",
            hint="correct the function and start the consumer again: the batch comes again",
            queue=batch.queue,
            batch_id=batch.id,
        ) from error


def _raise_transient(error: Exception) -> None:
    again = transient(error)
    if again is error:
        # Not from itself: a chain of causes has to have an end.
        raise error
    if again is not None:
        raise again from error


def format_error(error: Exception) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def raised_at(error: BaseException) -> str:
    """The last line of the user's own code in an exception's way: ``; raised at greet.py:7``.

    Empty when it passed none of it.
    """
    own = [
        f"; raised at {frame.filename}:{frame.lineno}, in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(_PACKAGE)
        and not _LIBRARIES.intersection(Path(frame.filename).parts)
        and not Path(frame.filename).is_relative_to(_STDLIB)
    ]
    return own[-1] if own else ""


def _decide(error: Exception, event: Event, ctx: Context, policy: FailurePolicy) -> None:
    """Stores the outcome of a failure in the context, or raises what ends the batch."""
    if isinstance(error, Superseded):
        raise error
    _raise_transient(error)
    try:
        if isinstance(error, Retry):
            ctx.retry(event, error.seconds, error.reason)
            return
        if isinstance(error, Dead):
            ctx.dead(event, error.reason)
            return
    except StateError as refused:
        raise _failed(refused, event, ctx.batch) from error
    if policy.attempts is None:
        if isinstance(error, EventError) and error.event_id == event.id:
            # It says everything already.
            raise error
        raise _failed(error, event, ctx.batch) from error
    ctx.retry(event, policy.seconds, format_error(error))


def _failed(error: Exception, event: Event, batch: Batch) -> EventError:
    attempt = f"delivered {(event.retry or 0) + 1} times" if event.retry else "first delivery"
    hint = "correct the function or the data and start the consumer again: the event comes again;"
    hint += " or decide what becomes of it: raise Dead or Retry, set max_attempts"
    if isinstance(error, StateError) and error.hint:
        hint = error.hint
    return EventError(
        f"{_place(batch)}, event {event.id} of type {event.type}: {format_error(error)}",
        detail=f"{attempt}, inserted {event.time:%F %T%z}{raised_at(error)}",
        hint=hint,
        queue=batch.queue,
        batch_id=batch.id,
        event_id=event.id,
    )


def _place(batch: Batch) -> str:
    return f"queue {batch.queue}, consumer {batch.consumer}, batch {batch.id}"
