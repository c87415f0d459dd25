"""Error classes, and the translation of PostgreSQL's errors into them.

Every error has a message (one line, lower case, the object first), a detail, a hint (a command or
one imperative sentence), and the exit code of its class:

    LondisteError           1
    |__ UsageError      2   invalid request
    |__ StateError      3   not possible in the current state
    |__ InstallError    4   the SQL in the database does not fit this program
    |__ NothingReplicated 4 the node has no table to wait for
    |__ EventError      5   an event that cannot be decoded or applied
    |__ TransientError  6   temporary failure; daemons retry automatically
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeGuard

from londiste.error_origin import (
    forced_hint,
    in_owner_code,
    raised_by_code,
    rights_hint,
    unqualified_hint,
)
from londiste.error_values import Values, shown
from londiste.wording import READ_ONLY, bounded, connection_hint, refused_login, wrong_parameter

if TYPE_CHECKING:
    import psycopg


class LondisteError(Exception):
    """Base class of all errors that Londiste raises deliberately."""

    exit_code: ClassVar[int] = 1
    retry: ClassVar[bool] = False
    #: So many failures of a daemon in a row are no reason for a warning.
    normal_failures: ClassVar[int] = 0
    #: SQLSTATE of the server's error that it translates, and whether code of a table raised that.
    sqlstate, by_code = "", False

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self._note()

    def __str__(self) -> str:
        return self.message

    def say_more(self, detail: str, hint: str = "") -> None:
        """Adds facts of the caller to the detail; a hint replaces the present one."""
        self.detail = "; ".join(filter(None, [self.detail, detail]))
        self.hint = hint or self.hint
        self._note()

    def _note(self) -> None:
        # The traceback of a program that does not catch the error contains detail and hint.
        self.__notes__ = []
        for word, text in (("detail", self.detail), ("hint", self.hint)):
            if text:
                self.add_note(f"{word}: {text}")


class UsageError(LondisteError):
    """Invalid request (wrong name, option or value). Retrying does not help."""

    exit_code = 2


class UnknownQueue(UsageError):
    """No such queue in this database."""


class UnknownConsumer(UsageError):
    """No such consumer on the queue."""


class UnknownNode(UsageError):
    """No such node in the cascade, or no node in this database."""


class UnknownTable(UsageError):
    """No such table in the database, or the table is not replicated in it."""


class BadOption(UsageError):
    """Invalid value of an option, a setting or a parameter."""


class AccessDenied(UsageError):
    """The server refuses this user: wrong password, no such role, missing privilege."""


class NotSecured(UsageError):
    """The connection cannot be encrypted, or the server does not prove its identity."""


class SharedBackend(UsageError):
    """A connection pooler gives each transaction another backend."""


class StateError(LondisteError):
    """The operation is not possible in the current state."""

    exit_code = 3


class NotRoot(StateError):
    """The command works only on the root node."""


class NodeBusy(StateError):
    """Another process works for this node, or this job, right now."""


class BatchOpen(StateError):
    """A batch is open and must be finished first."""


class CombinedClosed(StateError):
    """The combined queue of a merge leaf takes no events: its root changes."""


class Superseded(StateError):
    """Another process has moved the position; this one must stop."""


class PositionLost(StateError):
    """The stored position does not fit the queue."""


class NoKey(StateError):
    """A table of this node has no index to find rows by; a resumable copy requires one."""


class TableChanged(StateError):
    """ALTER TABLE, TRUNCATE or a similar command ran during a copy, which starts again."""


class TooFewIds(StateError):
    """The server has not yet assigned as many transaction ids as a restored queue needs."""


class InstallError(LondisteError):
    """The SQL in the database does not fit this program."""

    exit_code = 4


class NotTrusted(LondisteError):
    """Another role could replace functions of Londiste in the database: none is called."""

    exit_code = 4


@dataclass(frozen=True)
class ApplyError:
    """Facts about an event that cannot be applied, for the operator's decision.

    kind -- missing: no row matches the key of an update or delete; exists: the key of an insert
        exists already; many: several rows match the key; constraint: another constraint rejects
        the row; value: a value does not fit its column; structure: a table or column is missing;
        refused: the server rejects it for another reason; shared: TRUNCATE of a table with
        several sources; unproven: a control event without proof of an entitled writer; other: the
        event itself is invalid.
    row -- of a packed event, from 1; 0: the event has one.
    keyed -- why a delete has its key alone, as ``partitions.KEY_ALONE`` has it; else ''.
    table -- as the event names it; dest -- the target table; '' if unknown, then the event cannot
        be skipped, unless it is unproven.
    op -- insert, update, delete or truncate.
    image -- of the row, as the event has it; here -- the target row, as JSON; None: none was read.
    """

    kind: str = "other"
    row: int = 0
    table: str = ""
    dest: str = ""
    op: str = ""
    key: tuple[str, ...] = ()
    keyed: str = ""
    image: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    here: str | None = field(default=None, repr=False)
    statement: str = ""
    sqlstate: str = ""


class NothingReplicated(LondisteError):
    """The node has no table: there is nothing to wait for."""

    exit_code = 4


class EventError(LondisteError):
    """An event cannot be decoded or applied; replication stops before it."""

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
    """The event has no full row image; a resumable copy requires one."""


class ScriptFailed(EventError):
    """A statement of a script fails on a node; an operator must decide how to continue.

    statement -- its number in the script; None if the error is not about a statement.
    known -- it has failed before, and is not retried.
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
    """Temporary failure; retry."""

    exit_code = 6
    retry = True


class NodeDropped(TransientError):
    """The node of a running worker was dropped.

    The commands that drop it, or that run the worker, end the worker within seconds.
    """

    # In a row they take at least six seconds, with the default max_retry_delay.
    normal_failures = 7


class NodeUnreachable(TransientError):
    """The server does not answer, or the connection broke."""

    @classmethod
    def of(cls, error: LondisteError) -> NodeUnreachable:
        """The same for a database that refuses the connection, where others are shown."""
        if isinstance(error, cls):
            return error
        return cls(error.message, detail=error.detail, hint=error.hint)


class ServerStarting(NodeUnreachable):
    """The server takes no connections yet: it starts, or recovers from a crash."""


class LockTimeout(TransientError):
    """A lock was not granted in time; nothing was changed.

    holder -- the session that holds the advisory lock; '' if unknown.
    """

    holder = ""


class Deadlock(TransientError):
    """The server chose this transaction as the victim of a deadlock or serialization failure."""


class DiskFull(TransientError):
    """The server has no space, memory or connection left; it may have some later."""


class SparkUnavailable(TransientError):
    """The Spark master does not answer, or has no executor for Londiste."""


class JavaMissing(LondisteError):
    """No Java that Spark can run on."""

    exit_code = 4


class ServerBinariesMissing(LondisteError):
    """No PostgreSQL binaries for an embedded server."""

    exit_code = 4


OWNER_GRANTS = "grant the missing privilege to the owner of the table: its code has no other rights"

#: SQLSTATE raised by Londiste's SQL functions -> class.  docs/reference/errors.md lists them.
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


def from_driver(error: BaseException) -> TypeGuard[psycopg.Error]:
    """Whether the driver raised the error.  The driver is not imported for this."""
    driver = sys.modules.get("psycopg")
    return driver is not None and isinstance(error, driver.Error)


def from_database(
    error: psycopg.Error | LondisteError, *, where: str = "", values: Values = Values.NONE
) -> LondisteError:
    """The LondisteError for an error of the driver; one that is a LondisteError stays as it is.

    ``where`` names the node or database in the message; it must not contain a password.
    ``values`` -- where the statement has values of rows, which the result does not show.
    The caller raises the result ``from`` the error.
    """
    if isinstance(error, LondisteError):
        return error
    ours = _translate(error, f"{where}: " if where else "", where, values)
    # One that is made of the server's words, as long as they are.
    ours.hint = bounded(ours.hint)
    ours.sqlstate, ours.by_code = error.sqlstate or "", raised_by_code(error)
    return ours


def _translate(error: psycopg.Error, place: str, where: str, values: Values) -> LondisteError:
    import psycopg

    state = error.sqlstate or ""
    message, detail, hint = shown(error, values)
    if in_owner_code(error):
        detail = detail or f"SQLSTATE {state}"
        if state == "42501":
            return AccessDenied(
                place + message, detail=detail, hint=forced_hint(error) or OWNER_GRANTS
            )
        if raised_by_code(error) or not state.startswith(("08", "40", "53", "55P03", "57")):
            return LondisteError(place + message, detail=detail, hint=unqualified_hint(error))
    if state in LD_CLASSES:
        return LD_CLASSES[state](place + message, detail=detail, hint=hint)
    if state == "55P03":
        return LockTimeout(
            f"{place}lock not granted in time: {message}",
            detail=detail,
            hint=hint or "wait for the transaction that holds the lock, or end it",
        )
    if state in {"40001", "40P01"}:
        # The server's hint leads to its log, and there is nothing to find there.
        return Deadlock(place + message, detail=detail)
    if state.startswith("53"):
        return DiskFull(place + message, detail=detail, hint=hint)
    if state.startswith("28"):
        return AccessDenied(
            place + message, detail=detail, hint=hint or "check user, password and pg_hba.conf"
        )
    if state == "42501":
        return AccessDenied(place + message, detail=detail, hint=hint or rights_hint(error))
    if state == "25006":
        return LondisteError(
            place + message,
            detail=detail or f"SQLSTATE {state}",
            hint=hint or READ_ONLY,
        )
    if state == "3D000":
        return UsageError(
            place + message, detail=detail, hint=hint or "create the database, or correct the name"
        )
    if state in {"57014"}:
        return TransientError(place + message, detail=detail, hint=hint)
    if state.startswith(("08", "57P")) or (
        not state and isinstance(error, psycopg.OperationalError)
    ):
        user = getattr(error.pgconn, "user", b"").decode(errors="replace")
        return _from_connection(place, message, detail, hint, user)
    if state in {"42883", "3F000", "42P01"} and re.search(
        r"\b(pgq|pgq_node|londiste)\.?", error.diag.message_primary or message
    ):
        run = f"in database {where}" if where else "run"
        return InstallError(place + message, detail=detail, hint=f"{run}: londiste install")
    return LondisteError(
        place + message,
        detail=detail or (state and f"SQLSTATE {state}"),
        hint=hint or unqualified_hint(error),
    )


#: Messages of a server that does not accept connections yet (SQLSTATE 57P03).
_STARTING = re.compile(
    r"the database system is (starting up|in recovery mode|not( yet)? accepting connections)"
)


def _from_connection(place: str, message: str, detail: str, hint: str, user: str) -> LondisteError:
    """The error of a failed connection: libpq reports a refused login without SQLSTATE."""
    lowered = message.lower()
    if refused := refused_login(message, user):
        return AccessDenied(place + message, detail=detail, hint=hint or refused)
    if re.search(r"database .* does not exist", lowered):
        return UsageError(
            place + message, detail=detail, hint=hint or "create the database, or correct the name"
        )
    if wrong := wrong_parameter(message):
        return UsageError(place + message, detail=detail, hint=hint or wrong)
    if _STARTING.search(lowered):
        return ServerStarting(
            place + message, detail=detail, hint=hint or "wait until its recovery has finished"
        )
    return NodeUnreachable(place + message, detail=detail, hint=hint or connection_hint(message))
