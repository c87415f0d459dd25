"""Event loop: calls the user's function for one event and handles its failure.

By default a failure stops the consumer at the event and names it: no event is skipped without a
decision.  The decision is ``Retry``, ``Dead``, or a limit of attempts.
"""

from __future__ import annotations

import inspect
import logging
import sysconfig
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.pq import TransactionStatus

from londiste.consumer.context import Context, EventFunction
from londiste.consumer.filters import BadCondition
from londiste.consumer.outcome import RETRY_SECONDS, Dead, Retry
from londiste.consumer.progress import EventMarks
from londiste.daemon import crash
from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.error_values import Values, shown
from londiste.errors import (
    EventError,
    LondisteError,
    PositionLost,
    StateError,
    Superseded,
    from_database,
)
from londiste.pgq.types import Batch, Event
from londiste.wording import bounded

log = logging.getLogger(__name__)

#: One event through the user's function; the difference is in transactions and marks.
One = Callable[[Event, EventFunction, Context], None]

#: Events whose contents are compared with later ones of the same id; events come by their ids.
REMEMBERED = 100_000

#: What is not the user's own code: this package, installed ones, Python itself.
_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = {"site-packages", "dist-packages"}
_STDLIB = sysconfig.get_path("stdlib")


class NeedsSavepoints(BaseException):
    """An event failed whose effects must be undone while others stay: repeat with savepoints.

    Not an Exception, which a function may catch around ``ctx.each``.
    """


class EndedProgram(Exception):
    """The user's code raised what ends a program; ``__cause__`` is that."""


@contextmanager
def ends_fail() -> Iterator[None]:
    """Around the user's code: SystemExit and the like are failures and no orderly stop.

    Ctrl-C, which also breaks off a unit of work, and our own signals pass.  Raises EndedProgram.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt, NeedsSavepoints):
        raise
    except BaseException as error:
        raise EndedProgram from error


@dataclass(frozen=True)
class FailurePolicy:
    """Policy for an event whose function fails.

    attempts -- deliveries after which it becomes a dead letter; None: the consumer stops.
    seconds -- until the next attempt.
    """

    attempts: int | None = None
    seconds: int = RETRY_SECONDS


def plainly(policy: FailurePolicy) -> One:
    """The user's function commits its own effects."""

    def one(event: Event, function: EventFunction, ctx: Context) -> None:
        try:
            _call(function, event, ctx)
        except Exception as error:
            _decide(error, event, ctx, policy)

    return one


def without_savepoints() -> One:
    """In the batch's transaction, without savepoints: most batches need none."""

    def one(event: Event, function: EventFunction, ctx: Context) -> None:
        try:
            _in_ours(function, event, ctx)
        except BaseException as error:
            ctx.half_done = True
            if not isinstance(error, Exception) or transient(error) is not None:
                raise
            raise NeedsSavepoints from error

    return one


def with_savepoints(policy: FailurePolicy) -> One:
    """In the batch's transaction, each event with a savepoint."""

    def one(event: Event, function: EventFunction, ctx: Context) -> None:
        try:
            with ctx.db.transaction():
                _in_ours(function, event, ctx)
        except Exception as error:
            _decide(error, event, ctx, policy)

    return one


def marked(
    policy: FailurePolicy,
    transaction: Callable[[], AbstractContextManager[object]],
    marks: EventMarks,
) -> One:
    """Each event in its own transaction, with the mark that it is done."""
    contents: OrderedDict[int, int] = OrderedDict()

    def one(event: Event, function: EventFunction, ctx: Context) -> None:
        # Of a retried event there may be copies; another event has another content.
        content = hash((event.time, *event[4:]))
        if contents.setdefault(event.id, content) != content:
            raise _not_unique(event, ctx.batch)
        if len(contents) > REMEMBERED:
            contents.popitem(last=False)
        returned, marking = False, True
        try:
            with transaction():
                if marks.done(ctx.batch, event.id):
                    return
                xid = transaction_id(marks.db())
                marking = False
                _in_ours(function, event, ctx)
                returned = True
                require_transaction(marks.db(), ctx.batch, xid)
                marking = True
                crash.point("consumer.after-effect")
                if event.id not in ctx.outcomes and not marks.mark(ctx.batch, event.id):
                    raise Superseded(
                        f"event {event.id} of batch {ctx.batch.id}: another process has done it",
                        detail=f"queue {ctx.batch.queue}, consumer {marks.consumer}",
                        hint="run one process per consumer name",
                    )
                marking = False
        except Exception as error:
            if returned and transient(error) is not None:
                log.warning(
                    "%s, event %d of type %s: the function returned, but the commit of the mark"
                    " failed or was not confirmed: its side effect may happen again",
                    place(ctx.batch),
                    event.id,
                    event.type,
                )
            if marking:
                # No failure of the event: it is not one of its attempts.
                raise
            _decide(error, event, ctx, policy)
        crash.point("consumer.after-mark")

    return one


def _not_unique(event: Event, batch: Batch) -> StateError:
    return StateError(
        f"{place(batch)}, event {event.id} of type {event.type}: its id is not unique",
        detail="a mark covers all events with one id; a filtered branch writes different ones",
        hint="choose another delivery contract, or consume the queue of the root, where ids are"
        " unique",
    )


def _in_ours(function: EventFunction, event: Event, ctx: Context) -> None:
    """Calls it inside a transaction of ours; what it has done to the session is seen at once."""
    try:
        _call(function, event, ctx)
    except psycopg.Error:
        _require_open(ctx.db, ctx.batch)
        raise
    _require_open(ctx.db, ctx.batch)
    _require_unfailed(ctx.db, ctx.batch)


def fault(batch: Batch, what: str, *, detail: str, hint: str) -> EventError:
    """The error for a function that leaves ``ctx.db`` in a state which no repetition mends."""
    return EventError(
        f"batch {batch.id} of queue {batch.queue}: the function {what}",
        detail=detail,
        hint=hint,
        queue=batch.queue,
        batch_id=batch.id,
    )


def _require_open(conn: Connection, batch: Batch) -> None:
    """Raises EventError if the function has closed the session; a lost one is something else."""
    if conn.closed and not conn.broken:
        raise fault(
            batch,
            "closed ctx.db",
            detail="its transaction was rolled back; the batch is not finished",
            hint="do not close ctx.db: the consumer needs it and ends it itself",
        )


def _require_unfailed(conn: Connection, batch: Batch) -> None:
    """Raises EventError if the function has caught an error that its transaction did not survive.

    Its statements before the error would be rolled back, and those after it fail.
    """
    if conn.info.transaction_status is TransactionStatus.INERROR:
        raise fault(
            batch,
            "caught an error of the database in ctx.db, and its transaction is aborted",
            detail="its effects are rolled back; the batch is not finished",
            hint="write `with ctx.db.transaction():` around the statements whose error is caught",
        )


def _call(function: EventFunction, event: Event, ctx: Context) -> None:
    try:
        with ends_fail():
            require_done(function(event, ctx))
    except psycopg.Rollback as error:
        # It would end our transaction as if all were well.
        raise StateError(
            "psycopg.Rollback was raised outside a transaction of the function",
            hint="write `with ctx.db.transaction():` around the statements to roll back",
        ) from error


def require_done(result: object) -> None:
    """Raises StateError for an awaitable or generator as result: the loop does not run it."""
    if result is None or not (
        inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result)
    ):
        return
    if inspect.iscoroutine(result):
        result.close()
    raise StateError(
        f"the function returned a {type(result).__name__} and did nothing",
        detail="a consumer calls plain functions only, no `async` functions or generators",
        hint="write it without `async` and `yield`; asyncio.run() runs a coroutine to its end",
    )


def require_transaction(conn: Connection, batch: Batch, xid: int | None = None) -> None:
    """Raises EventError if the function has ended or broken the transaction of the batch.

    xid -- id of the transaction at its start; None: any transaction will do.
    """
    _require_open(conn, batch)
    _require_unfailed(conn, batch)
    status = conn.info.transaction_status
    if status is TransactionStatus.INTRANS and xid is not None and xid != transaction_id(conn):
        status = TransactionStatus.IDLE
    if status is TransactionStatus.IDLE:
        raise fault(
            batch,
            "ended its transaction",
            detail="committed effects stay, rolled back effects are lost;"
            " the batch is not finished",
            hint="do not COMMIT or ROLLBACK in ctx.db; `with ctx.db.transaction():` is a savepoint",
        )


def transaction_id(conn: Connection) -> int:
    """The id of the session's transaction, which gets one."""
    ((number,),) = tuples(conn, "transaction_id")
    return int(number)


def transient(error: Exception) -> LondisteError | None:
    """The error as a temporary one that retries the whole batch; None if the event caused it."""
    ours = from_database(error) if isinstance(error, psycopg.Error) else error
    return ours if isinstance(ours, LondisteError) and ours.retry else None


@contextmanager
def whole(ctx: Context) -> Iterator[None]:
    """Around ``process_batch``: its errors name the batch.

    Raises NeedsSavepoints when the function fails after it has caught that of an event.
    """
    batch = ctx.batch
    try:
        with ends_fail():
            yield
    except Exception as error:
        if ctx.half_done and transient(error) is None:
            raise NeedsSavepoints from error
        if isinstance(error, (BadCondition, EventError, StateError)):
            raise
        if isinstance(error, (Retry, Dead)):
            raise EventError(
                f"{place(batch)}: {type(error).__name__} was raised outside process_event",
                detail=error.message,
                hint=(
                    "in process_batch name the event: ctx.retry(event), ctx.dead(event, reason), or"
                    " ctx.each(events, function)"
                ),
                queue=batch.queue,
                batch_id=batch.id,
            ) from error
        _raise_transient(error)
        # An error of ours says what is to be done; no function of the user has to be wrong.
        what, detail = f"process_batch failed: {format_error(error)}", ""
        first = "correct the function and"
        if isinstance(error, LondisteError) and error.hint:
            what, detail, first = error.message, error.detail, f"{error.hint}; then"
        ticks = f"ticks {batch.prev_tick_id} to {batch.tick_id}{raised_at(error)}"
        raise EventError(
            f"{place(batch)}: {what}",
            detail="; ".join(filter(None, [detail, ticks])),
            hint=f"{first} restart the consumer: the batch is delivered again",
            queue=batch.queue,
            batch_id=batch.id,
        ) from error


def of_batch(error: psycopg.Error, batch: Batch, where: str) -> LondisteError:
    """The error for one of the driver that the transaction of a batch has raised at its end.

    where -- the database, without a password.
    """
    ours = from_database(error, where=where)
    if ours.retry:
        ours.say_more(place(batch))
        return ours
    return EventError(
        f"{place(batch)}: its transaction failed: {format_error(error)}",
        detail=f"ticks {batch.prev_tick_id} to {batch.tick_id}; a deferred constraint is checked"
        " by the commit",
        hint="correct the function or the data and start the consumer again: the batch comes again",
        queue=batch.queue,
        batch_id=batch.id,
    )


def _raise_transient(error: Exception) -> None:
    again = transient(error)
    if again is error:
        # Not from itself: a chain of causes has to have an end.
        raise error
    if again is not None:
        raise again from error


def format_error(error: BaseException) -> str:
    """An exception in one line, of at most some thousand characters.

    One of the driver has only the message of the server, without the value that a type refuses: its
    detail and context contain values of rows.
    """
    error = _raised(error)
    try:
        text = str(error)
        if isinstance(error, psycopg.Error):
            text = shown(error, Values.INSIDE).message
        text = bounded(" ".join(text.split()))
    except Exception:
        # Its ``__str__`` fails, too.
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _raised(error: BaseException) -> BaseException:
    """What the user's code raised."""
    return error.__cause__ or error if isinstance(error, EndedProgram) else error


def raised_at(error: BaseException) -> str:
    """The last line of the user's code in an exception's traceback: ``; raised at greet.py:7``.

    Empty when it passed none of it.
    """
    own = [
        f"; raised at {frame.filename}:{frame.lineno}, in {frame.name}"
        for frame in traceback.extract_tb(_raised(error).__traceback__)
        if not Path(frame.filename).is_relative_to(_PACKAGE)
        and not _LIBRARIES.intersection(Path(frame.filename).parts)
        and not Path(frame.filename).is_relative_to(_STDLIB)
    ]
    return own[-1] if own else ""


def _decide(error: Exception, event: Event, ctx: Context, policy: FailurePolicy) -> None:
    """Stores the outcome of a failure in the context, or raises the error that ends the batch."""
    if isinstance(error, (Superseded, PositionLost)):
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
    if isinstance(error, (StateError, EventError)) and error.hint:
        hint = error.hint
    return EventError(
        f"{place(batch)}, event {event.id} of type {event.type}: {format_error(error)}",
        detail=f"{attempt}, inserted {event.time:%F %T%z}{raised_at(error)}",
        hint=hint,
        queue=batch.queue,
        batch_id=batch.id,
        event_id=event.id,
    )


def place(batch: Batch) -> str:
    """Where an error is, for messages: queue, consumer and batch."""
    return f"queue {batch.queue}, consumer {batch.consumer}, batch {batch.id}"
