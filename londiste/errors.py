"""The errors of the whole program, and how PostgreSQL's errors become them.

Every error has a message (one line, lower case, the thing first), a detail, a
hint that can be typed or done, and the exit code of its class:

    LondisteError           1
    |__ UsageError      2   the request cannot be right
    |__ StateError      3   right request, wrong moment
    |__ InstallError    4   the SQL in the database does not fit this program
    |__ NothingReplicated 4 the node has no table to wait for
    |__ EventError      5   an event that cannot be decoded or applied
    |__ TransientError  6   worth another try; daemons retry by themselves
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import psycopg


class LondisteError(Exception):
    """Base of all errors this program raises on purpose."""

    exit_code: ClassVar[int] = 1
    retry: ClassVar[bool] = False

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self._note()

    def __str__(self) -> str:
        return self.message

    def say_more(self, detail: str, hint: str = "") -> None:
        """Adds what only a caller knows to the detail; another hint takes the place of ours."""
        self.detail = "; ".join(filter(None, [self.detail, detail]))
        self.hint = hint or self.hint
        self._note()

    def _note(self) -> None:
        # Programs that do not catch it see in the traceback what our own command line prints.
        self.__notes__ = []
        for word, text in (("detail", self.detail), ("hint", self.hint)):
            if text:
                self.add_note(f"{word}: {text}")


class UsageError(LondisteError):
    """The request cannot be right, now or later."""

    exit_code = 2


class UnknownQueue(UsageError):
    """No such queue in this database."""


class UnknownConsumer(UsageError):
    """No such consumer on the queue."""


class UnknownNode(UsageError):
    """No such node in the cascade, or no node in this database."""


class UnknownTable(UsageError):
    """No such table in the database, or it is not replicated here."""


class BadOption(UsageError):
    """A value that an option, a setting or a parameter does not take."""


class AccessDenied(UsageError):
    """The server refuses this user: wrong password, no such role, missing privilege."""


class NotSecured(UsageError):
    """The connection cannot be encrypted, or the server does not prove who it is."""


class SharedBackend(UsageError):
    """A pooler on the way gives each transaction another backend."""


class StateError(LondisteError):
    """A right request at the wrong moment."""

    exit_code = 3


class NotRoot(StateError):
    """The command works only on the root node."""


class NodeBusy(StateError):
    """Another process works for this node, or this job, right now."""


class BatchOpen(StateError):
    """A batch is open and has to be finished first."""


class CombinedClosed(StateError):
    """A queue merges into one that takes no events here: its root changes."""


class Superseded(StateError):
    """Another process has moved the position; this one must stop."""


class PositionLost(StateError):
    """The stored position and the queue do not fit each other."""


class NoKey(StateError):
    """A table of this node has no index to find rows by, as a resumable copy needs it."""


class TableChanged(StateError):
    """ALTER TABLE, TRUNCATE or the like came in the middle of a copy, which begins again."""


class TooFewIds(StateError):
    """The server has not handed out as many transaction ids as a restored queue needs."""


class InstallError(LondisteError):
    """The SQL in the database does not fit this program."""

    exit_code = 4


@dataclass(frozen=True)
class ApplyError:
    """What is known of an event that cannot be applied, for the person who has to decide.

    kind -- missing: an update or delete finds no row; exists: an insert finds its row there; many:
        more rows than one have the key; constraint: another constraint refuses the row; value: a
        value does not fit its column; structure: a table or column is missing; refused: the server
        says no for another reason; shared: TRUNCATE of a table that others fill too; unproven: a
        control event that nobody entitled has written; other: the event is no good itself.
    row -- of a packed event, from 1; 0: the event has one.
    table -- as the event names it; dest -- here; '' where nobody knows, then the event cannot be
        left out, unless it is unproven.
    op -- insert, update, delete or truncate.
    image -- of the row, as the event has it; here -- the row that is here, as JSON; None: there is
        none, or it was not looked for.
    """

    kind: str = "other"
    row: int = 0
    table: str = ""
    dest: str = ""
    op: str = ""
    key: tuple[str, ...] = ()
    image: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    here: str | None = field(default=None, repr=False)
    statement: str = ""
    sqlstate: str = ""


class NothingReplicated(LondisteError):
    """A node has no table: what was to be waited for will not come."""

    exit_code = 4


class EventError(LondisteError):
    """An event that cannot be decoded or applied; replication halts in front of it."""

    exit_code = 5

    def __init__(
        self,
        message: str,
        *,
        detail: str = "",
        hint: str = "",
        queue: str = "",
        batch_id: int | None = None,
        event_id: int | None = None,
        finding: ApplyError | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.queue = queue
        self.batch_id = batch_id
        self.event_id = event_id
        self.finding = finding


class PartialEvent(EventError):
    """An event does not tell a whole row by its key, as a resumable copy needs it."""


class ScriptFailed(EventError):
    """A statement of a script fails on a node; a person has to decide what becomes of it.

    statement -- its number in the script; None when it is not about one.
    known -- it has failed before, and is not tried again.
    """

    def __init__(
        self,
        message: str,
        *,
        detail: str = "",
        hint: str = "",
        event_id: int | None = None,
        statement: int | None = None,
        known: bool = False,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint, event_id=event_id)
        self.statement = statement
        self.known = known


class TransientError(LondisteError):
    """Worth another try."""

    exit_code = 6
    retry = True


class NodeDropped(TransientError):
    """The node of a running worker is no node any more."""


class NodeUnreachable(TransientError):
    """The server does not answer, or the connection broke."""


class ServerStarting(NodeUnreachable):
    """The server takes no connections yet: it starts, or recovers from a crash."""


class LockTimeout(TransientError):
    """A lock was not granted in time; nothing was changed."""


class Deadlock(TransientError):
    """The server chose this transaction as the victim of a deadlock or serialization failure."""


class DiskFull(TransientError):
    """The server has no space, memory or connection left; it may have some later."""


class SparkUnavailable(TransientError):
    """The master of Spark does not answer, or it has no executor for us."""


class JavaMissing(LondisteError):
    """No Java that Spark can run on."""

    exit_code = 4


class ServerBinariesMissing(LondisteError):
    """No PostgreSQL binaries for an embedded server."""

    exit_code = 4


#: Whom the functions of the queue are for.
_GRANTS = (
    "grant the missing privilege; in a queue's database: grant pgq_writer (to produce), pgq_reader"
    " (to consume) or pgq_admin to the user"
)

#: SQLSTATE raised by our SQL functions -> class.  docs/reference/errors.md lists them.
LD_CLASSES: dict[str, type[LondisteError]] = {
    "LD001": UnknownQueue,
    "LD002": UnknownConsumer,
    "LD003": UnknownNode,
    "LD004": UnknownTable,
    "LD005": BadOption,
    "LD100": StateError,
    "LD101": NotRoot,
    "LD102": StateError,  # writing to the queue is disabled
    "LD103": StateError,  # ticker paused, or ticks come from elsewhere
    "LD104": StateError,  # consumers still attached
    "LD105": StateError,  # no tick yet
    "LD106": StateError,  # batch or event not found
    "LD107": PositionLost,
    "LD108": BatchOpen,
    "LD200": InstallError,
    "LD201": InstallError,  # transaction ids went backwards: restored database
    "LD202": TooFewIds,
    "LD300": EventError,
}

#: ret_code of the functions that return (ret_code, ret_note) -> class.
RET_CLASSES: dict[int, type[LondisteError]] = {
    400: UsageError,
    401: StateError,
    402: StateError,
    403: StateError,
    404: UsageError,
    405: StateError,
    409: Superseded,
    410: StateError,
    500: StateError,
}


def from_database(error: psycopg.Error, *, where: str = "") -> LondisteError:
    """The error of this program that stands for a database error.

    ``where`` names the node or database for the reader; it must hold no password.
    The caller raises the result ``from`` the original.
    """
    state = error.sqlstate or ""
    diag = error.diag
    message = (diag.message_primary or first_line(str(error))).strip() or type(error).__name__
    detail = diag.message_detail or ""
    hint = diag.message_hint or ""
    place = f"{where}: " if where else ""
    if state in LD_CLASSES:
        return LD_CLASSES[state](place + message, detail=detail, hint=hint)
    if state == "55P03":
        return LockTimeout(
            f"{place}lock not granted in time: {message}",
            detail=detail,
            hint=hint or "wait for the transaction that holds the lock, or end it",
        )
    if state in {"40001", "40P01"}:
        return Deadlock(place + message, detail=detail, hint=hint)
    if state.startswith("53"):
        return DiskFull(place + message, detail=detail, hint=hint)
    if state.startswith("28"):
        return AccessDenied(
            place + message, detail=detail, hint=hint or "check user, password and pg_hba.conf"
        )
    if state == "42501":
        return AccessDenied(place + message, detail=detail, hint=hint or _GRANTS)
    if state == "25006":
        return LondisteError(
            place + message,
            detail=detail or f"SQLSTATE {state}",
            hint=hint or "connect to the primary: this is a standby, or its sessions are read only",
        )
    if state == "3D000":
        return UsageError(
            place + message, detail=detail, hint=hint or "create the database, or correct the name"
        )
    if state in {"57014"}:
        return TransientError(place + message, detail=detail, hint=hint)
    if state.startswith(("08", "57P")) or (not state and _connection_lost(error)):
        return _from_connection(place, message, detail, hint)
    if state in {"42883", "3F000", "42P01"} and re.search(r"\b(pgq|pgq_node|londiste)\.?", message):
        return InstallError(
            place + message,
            detail=detail,
            hint=(f"in database {where}: " if where else "run: ")
            + "londiste install; where the original's extensions are: londiste install --adopt",
        )
    return LondisteError(place + message, detail=detail or f"SQLSTATE {state}", hint=hint)


#: What a server says that is there and takes no connections yet (SQLSTATE 57P03).
_STARTING = re.compile(
    r"the database system is (starting up|in recovery mode|not( yet)? accepting connections)"
)


def _connection_lost(error: psycopg.Error) -> bool:
    return isinstance(error, psycopg.OperationalError)


def _from_connection(place: str, message: str, detail: str, hint: str) -> LondisteError:
    """libpq reports a refused login without SQLSTATE; only its text tells it from a dead host."""
    lowered = message.lower()
    if any(
        sign in lowered
        for sign in (
            "password authentication failed",
            "no password supplied",
            "no pg_hba.conf entry",
            "authentication failed",
        )
    ) or re.search(r"role .* does not exist", lowered):
        return AccessDenied(
            place + message, detail=detail, hint=hint or "check user, password and pg_hba.conf"
        )
    if re.search(r"database .* does not exist", lowered):
        return UsageError(
            place + message, detail=detail, hint=hint or "create the database, or correct the name"
        )
    if _STARTING.search(lowered):
        return ServerStarting(
            place + message, detail=detail, hint=hint or "wait until its recovery is over"
        )
    return NodeUnreachable(
        place + message,
        detail=detail,
        hint=hint or "check that the server runs and that host and port are right",
    )


def first_line(text: str) -> str:
    """The first line that says something; libpq puts one line per address tried."""
    for line in text.splitlines():
        if line.strip():
            return line.strip()
    return ""
