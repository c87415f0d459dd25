"""Log context: program, node, job, queue, consumer, batch and tick of a log line.

Work is done inside ``bound(...)``; every record logged inside has the fields, from any module.
Fields belong to the thread: threads of one process do not see each other's.  What is the same for
the whole process, as its program and its node, is stored once (``of_process``).
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

#: Fields that every record has, None where nothing is bound.  Others are there when bound.
FIELDS = ("program", "node", "job", "queue", "consumer", "batch", "tick")

#: Those that every line of text begins with.
LEADING = ("program", "node", "queue")

#: Those that follow the message of a detailed line.
_SHOWN = ("job", "consumer", "batch", "tick", "table", "database")

#: Where an error keeps the fields of the work that raised it.
_OF_ERROR = "_log_fields"

_EMPTY: Mapping[str, Any] = {}
_now: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
    "londiste_log", default=_EMPTY
)

#: Fields of all threads; a bound field wins.
_process: dict[str, Any] = {}
_detached = False

P = ParamSpec("P")
R = TypeVar("R")


def of_process(**fields: Any) -> None:
    """Adds these fields to all records of this process; None removes a field."""
    _process.update(fields)


def detach(detached: bool) -> None:
    """Notes whether messages to a user are lines of the log: no terminal shows them."""
    global _detached
    _detached = detached


def is_detached() -> bool:
    """Whether messages to a user are lines of the log."""
    return _detached


@contextlib.contextmanager
def bound(**fields: Any) -> Iterator[None]:
    """Adds these fields to records of this thread inside the with block.

    Blocks nest; the inner value wins, None takes a field away.  An error that leaves the block
    remembers them, so that a later report can bind them again (``of``).  Not for
    generators: between two of their values the fields would be the caller's.
    """
    before = _now.get()
    after = {**before, **fields}
    _now.set(after)
    try:
        yield
    except BaseException as error:
        if not hasattr(error, _OF_ERROR):
            # An error with slots keeps nothing, and is reported without.
            with contextlib.suppress(AttributeError):
                setattr(error, _OF_ERROR, after)
        raise
    finally:
        _now.set(before)


def current() -> Mapping[str, Any]:
    """The fields of this thread and of the process, except those that are None."""
    found = {**_process, **_now.get()}
    return {name: value for name, value in found.items() if value is not None}


def of(error: BaseException) -> dict[str, Any]:
    """The fields that were bound at the raise of an error, or of one of its causes."""
    fields: dict[str, Any] = {}
    for one in causes(error):
        # A cause was raised further in, and knows better.
        fields.update(getattr(one, _OF_ERROR, _EMPTY))
    return fields


def causes(error: BaseException) -> list[BaseException]:
    """The error, its cause, the cause of that, …; each once."""
    found: list[BaseException] = []
    one: BaseException | None = error
    # ``raise error from error`` makes a ring.
    while one is not None and one not in found:
        found.append(one)
        one = one.__cause__
    return found


def carried(function: Callable[P, R]) -> Callable[P, R]:
    """The function with the present fields bound in any thread: for the target of a thread."""
    fields = dict(_now.get())

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with bound(**fields):
            return function(*args, **kwargs)

    return inside


class Fields(logging.Filter):
    """Puts the fields on records; for a handler, in a logging configuration of your own, too.

    What a record has already (``extra=``, or an earlier handler in another thread) stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        values = record.__dict__
        for name, value in {**dict.fromkeys(FIELDS), **current()}.items():
            values.setdefault(name, value)
        return True


def suffix(record: logging.LogRecord, *, leading: bool = True) -> str:
    """The bound fields as text: `` [consumer=c batch=3]``, empty without fields.

    leading -- include those that the line begins with.
    """
    wanted = (*LEADING, *_SHOWN) if leading else _SHOWN
    names = [name for name in wanted if getattr(record, name, None) is not None]
    if not names:
        return ""
    return " [" + " ".join(f"{name}={getattr(record, name)}" for name in names) + "]"
