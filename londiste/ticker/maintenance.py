"""Queue maintenance: rotation, vacuum and other operations; retries and delayed events.

The database lists the due operations in order; every operation is a transaction of
its own.  Rotation needs that: its second step marks the point where all transactions that
could write to the old table are over, so it must come after the first has committed.

PgQ of Skytools has the same functions since version 3, except for some that Londiste added.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from psycopg import sql

from londiste.daemon import crash, logcontext
from londiste.daemon.loop import report
from londiste.db import call
from londiste.db.connection import Connection, whereabouts
from londiste.db.queries import first, has_function, records, translated, tuples
from londiste.errors import InstallError, LondisteError, NodeUnreachable
from londiste.install import compat
from londiste.pgq import queues
from londiste.pgq.liveness import READ_ONLY

log = logging.getLogger(__name__)

STEP1 = "pgq.maint_rotate_tables_step1"
STEP2 = "pgq.maint_rotate_tables_step2"

#: With this an error of an operation begins.
_OPERATION = "maintenance operation"

#: An operation that asks to be called again is called at most so often in one round.
MOST_REPEATS = 1000

#: The only names of maintenance operations that are statements and not functions.
VACUUMS: dict[str, sql.SQL] = {
    "vacuum": sql.SQL("vacuum {}"),
    "vacuum analyze": sql.SQL("vacuum analyze {}"),
}


@dataclass(frozen=True)
class Round:
    """Operations of one round: the number of those that succeeded, and errors of the others."""

    done: int
    failed: Mapping[str, str]

    def require_success(self, where: str) -> None:
        """Raises LondisteError if an operation failed; its own error is in the log."""
        if self.failed:
            raise LondisteError(
                f"{len(self.failed)} of {len(self.failed) + self.done} maintenance operations"
                f" failed in {where}",
                detail=_text(self.failed),
                hint="correct the causes, then: londiste queue maint",
            )

    def again(self, before: Mapping[str, str]) -> str:
        """Pure: the errors of operations that failed in the round before, too."""
        return _text({what: why for what, why in self.failed.items() if what in before})


def run_once(conn: Connection, *, stopping: Callable[[], bool] = lambda: False) -> Round:
    """Runs all due operations.

    An operation that fails is logged and tried again in the next round; the others continue.
    """
    done = 0
    failed: dict[str, str] = {}
    for name, argument in operations(conn):
        if stopping():
            break
        if name == STEP2:
            crash.point("ticker.mid-rotation")
        try:
            # Functions get the name of a queue, vacuum that of a table.
            queue = None if name in VACUUMS else argument
            with logcontext.bound(queue=queue, operation=name):
                _run(conn, name, argument, stopping)
            done += 1
        except NodeUnreachable:
            raise
        except LondisteError as error:
            if error.sqlstate == READ_ONLY:
                raise
            what = _label(name, argument)
            failed[what] = error.message
            error.message = f"{what}: {error.message}"
            report(error)
    return Round(done, failed)


def _text(failed: Mapping[str, str]) -> str:
    return "; ".join(f"{what}: {why}" for what, why in failed.items())


def error_of(errors: Iterable[str], name: str, argument: str | None = None) -> str:
    """Pure: the error of an operation among those that tickers report; empty if there is none."""
    for text in errors:
        _, _, why = text.partition(f"{_label(name, argument)}: ")
        if why:
            return why.partition(f"; {_OPERATION} ")[0]
    return ""


def _label(name: str, argument: str | None) -> str:
    of = "" if argument is None else f" of {'table' if name in VACUUMS else 'queue'} {argument}"
    return f"{_OPERATION} {name}{of}"


def _run(conn: Connection, name: str, argument: str | None, stopping: Callable[[], bool]) -> None:
    if name in VACUUMS:
        _vacuum(conn, name, argument or "")
        return
    arguments = () if argument is None else (argument,)
    for _ in range(MOST_REPEATS):
        answer = next(iter(call.rows(conn, name, *arguments)), {})
        if "ret_code" in answer:
            call.answered(name, answer)
            return
        # Not zero: there is more to do at once.
        again = next(iter(answer.values()), None)
        if not isinstance(again, int) or not again or stopping():
            return
    log.debug("%s: continued in the next round", name)


def _vacuum(conn: Connection, operation: str, table: str) -> None:
    """Vacuums a table that is named as in SQL; the connection is autocommit.

    A dropped table needs none.
    """
    found = first(conn, "relation_name", relation=table)
    if found is None:
        log.debug("table %s does not exist: no vacuum", table)
        return
    with translated(conn):
        conn.execute(VACUUMS[operation].format(sql.Identifier(*found)))


@dataclass(frozen=True)
class BlockedRotation:
    """A rotation that is due, and a transaction that holds a lock on the table to be emptied.

    age -- seconds of the transaction; None where the role may not see it.
    remedy -- the statement that ends it.
    """

    queue: str
    table: str
    name: str
    age: float | None
    remedy: str

    def __str__(self) -> str:
        since = "" if self.age is None else f", for {self.age:.0f} s"
        return f"queue {self.queue}: not rotated: {self.name} holds a lock on {self.table}{since}"


def blocked_rotations(conn: Connection) -> list[BlockedRotation]:
    """The due rotations that wait for a lock: the oldest transaction of each queue."""
    found: dict[str, BlockedRotation] = {}
    for one in records(conn, BlockedRotation, "rotation_locks", queue=None):
        found.setdefault(one.queue, one)
    return list(found.values())


def report_blocked(conn: Connection, known: Collection[str] = ()) -> list[str]:
    """Warns of each rotation that waits for a lock; returns the transactions that hold one.

    known -- those of the last round, of which it does not warn again.
    """
    blocked = blocked_rotations(conn)
    for one in blocked:
        if one.remedy not in known:
            log.warning("%s; hint: end it: %s", one, one.remedy)
    return [one.remedy for one in blocked]


def move_due_events(conn: Connection, *, stopping: Callable[[], bool] = lambda: False) -> int:
    """Moves all due retries and delayed events into their queues, some per transaction."""
    moved = 0
    while not stopping() and (count := queues.maint_retry_events(conn)):
        moved += count
    return moved


NEXT_DUE = "pgq.next_due()"
MAINT_OPERATIONS = "pgq.maint_operations()"


def check(conn: Connection) -> None:
    """Raises InstallError for a database without queues, or with an incompatible schema."""
    compat.check(conn, "pgq", original=True)
    version = queues.version(conn)
    if version in ("", "None"):
        raise InstallError(
            f"{whereabouts(conn)}: version of schema pgq is unknown",
            detail="PgQ of Skytools reports a version only if it was installed as an extension",
            hint="CREATE EXTENSION pgq, or londiste install in a database without that schema",
        )
    if version[0] < "3":
        raise InstallError(
            f"{whereabouts(conn)}: schema pgq has version {version}, too old for this ticker",
            hint="upgrade PgQ to version 3 or later, or use its own ticker",
        )


def operations(conn: Connection) -> list[tuple[str, str | None]]:
    """The result of ``maint_operations``, or its equivalent if the function does not exist."""
    if has_function(conn, MAINT_OPERATIONS):
        return queues.maint_operations(conn)
    names = [str(name) for (name,) in tuples(conn, "queue_names")]
    rotation: list[tuple[str, str | None]] = [(STEP1, name) for name in names]
    vacuum: list[tuple[str, str | None]] = [
        ("vacuum", table) for table in queues.maint_tables_to_vacuum(conn)
    ]
    return [*rotation, (STEP2, None), *vacuum]
