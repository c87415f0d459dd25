"""Restores foreign keys after a copy, and validates them in the background.

The worker adds a key as NOT VALID between two batches, which locks both tables for a moment.
Validation may take as long as reading both tables.  Neither writers nor the worker wait for it: a
thread with its own session validates one key after the other.  A key leaves
``londiste.pending_fkeys`` when it is valid, so an interruption costs time only.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from londiste.changes.row_values import stored_error
from londiste.daemon import logcontext
from londiste.db import owner
from londiste.db.connection import Connection, session
from londiste.errors import AccessDenied, LondisteError, from_database
from londiste.replication import sqlapi as tables
from londiste.replication.model import PendingForeignKey, ReplicatedTable
from londiste.replication.tablesync import child_rows, states
from londiste.replication.tablesync.add_foreign_key import add_foreign_key
from londiste.replication.tablesync.copy_steps import (
    FOREIGN_KEYS,
    Tally,
    copy_step_end,
    copy_step_start,
    copy_step_waits,
)

log = logging.getLogger(__name__)

#: Seconds between attempts to make foreign keys again that could not be made.
PERIOD = 30.0
#: application_name of the session that checks keys; whoever needs the table may end its work.
CHECKER = "londiste copy keys"


@dataclass(frozen=True)
class Unchecked:
    """A foreign key that has to be validated.

    table -- name of its table in the queue; its steps are recorded there.
    statement -- validates it.
    """

    key: PendingForeignKey
    table: ReplicatedTable
    statement: str


class ForeignKeys:
    """Restores the foreign keys between tables that are in sync.

    dsn -- of this node; lock_timeout -- in seconds; answer_seconds -- see ``connect``; a
    server that works may take longer.
    """

    def __init__(
        self, dsn: str, queue: str, *, lock_timeout: float, answer_seconds: float | None = None
    ) -> None:
        self._dsn = dsn
        self._queue = queue
        self._lock_timeout = lock_timeout
        self._answer_seconds = answer_seconds
        self._ok: frozenset[str] = frozenset()
        #: Keys that never become valid, which were told.
        self._never: set[PendingForeignKey] = set()
        self._next = 0.0
        self._thread: threading.Thread | None = None
        self._conn: Connection | None = None
        self._ending = False

    @property
    def busy(self) -> bool:
        """Whether keys are being validated."""
        return self._thread is not None and self._thread.is_alive()

    def look_after(self, conn: Connection, known: Sequence[ReplicatedTable]) -> None:
        """Adds the keys whose tables are in sync, and starts their validation.

        Checks when the set of tables in sync changes, periodically, and when the last validation
        has ended.  ``conn`` in autocommit mode, between two batches.
        """
        ok = frozenset(str(t.name) for t in known if states.from_text(t.state) == states.Ok())
        if ok == self._ok and time.monotonic() < self._next:
            return
        self._ok = ok
        self._next = time.monotonic() + PERIOD
        unchecked = self._add(conn, known)
        if unchecked and not self.busy:
            self._thread = threading.Thread(
                target=logcontext.carried(self._check),
                args=(unchecked,),
                name="foreign keys",
                daemon=True,
            )
            self._thread.start()

    def close(self) -> None:
        """Cancels the validation; the next worker starts it again."""
        self._ending = True
        if self.busy and self._thread is not None:
            self._cancel()
            self._thread.join(5)

    # -- steps -------------------------------------------------------------------------------

    def _add(self, conn: Connection, known: Sequence[ReplicatedTable]) -> list[Unchecked]:
        """Adds the keys that can be added.  Returns those still to be validated."""
        by_dest = {table.dest: table for table in known}
        result = []
        keys = tables.get_valid_pending_fkeys(conn, self._queue)
        spread = child_rows.unreferable(conn) if keys else frozenset()
        told, self._never = self._never, {key for key in keys if key.to_table in spread}
        for key in keys:
            if key in self._never:
                if key not in told:
                    why = child_rows.no_reference(key.to_table)
                    where = key.from_table
                    log.warning("table %s: foreign key %s stays dropped: %s", where, key.name, why)
                continue
            try:
                while statement := tables.restore_table_fkey(
                    conn, key.from_table, key.name, lazy=True
                ):
                    if " VALIDATE CONSTRAINT " in statement:
                        # The queue that is asked fills at least one of the two.
                        table = by_dest.get(key.from_table) or by_dest[key.to_table]
                        result.append(Unchecked(key, table, statement))
                        break
                    add_foreign_key(conn, key, statement)
                else:
                    log.info("table %s: foreign key %s restored", key.from_table, key.name)
            except (LondisteError, psycopg.Error) as error:
                _not_back(key, error)
        return result

    def _check(self, keys: Sequence[Unchecked]) -> None:
        """The thread: validates one key after the other, those of a table in one session."""
        started, failed = time.monotonic(), False
        try:
            with session(
                self._dsn,
                name=CHECKER,
                autocommit=True,
                lock_timeout_ms=round(self._lock_timeout * 1000),
                synchronous=True,
                silent_seconds=self._answer_seconds,
            ) as conn:
                # A server that reads for a killed worker shall notice, where it can.
                with contextlib.suppress(psycopg.Error):
                    conn.execute("set client_connection_check_interval = '1s'")
                self._conn = conn
                for table in dict.fromkeys(one.table.name for one in keys):
                    failed |= not self._check_table(
                        conn, [one for one in keys if one.table.name == table]
                    )
        except (LondisteError, psycopg.Error) as error:
            failed = True
            if not self._ending:
                log.warning("foreign keys are not validated yet: %s", _said(error))
        finally:
            self._conn = None
            # A key that does not fit is looked at again, but not all the time.
            took = time.monotonic() - started
            self._next = time.monotonic() + max(PERIOD, 2 * took) if failed else 0.0

    def _check_table(self, conn: Connection, keys: Sequence[Unchecked]) -> bool:
        table, tally, whole = keys[0].table, Tally(), True
        copy_step_start(conn, self._queue, table.name, FOREIGN_KEYS)
        for one in keys:
            if self._ending:
                return False
            started = time.monotonic()
            try:
                copy_step_waits(conn, self._queue, table.name, FOREIGN_KEYS, None)
                owner.run(conn, one.key.from_table, one.statement)
                seconds = time.monotonic() - started
                tally.add(seconds)
                with conn.transaction():
                    tables.restore_table_fkey(conn, one.key.from_table, one.key.name, lazy=True)
                    if one is keys[-1] and whole:
                        copy_step_end(conn, self._queue, table.name, FOREIGN_KEYS, tally)
            except (LondisteError, psycopg.Error) as error:
                whole = False
                if self._ending:
                    return False
                reason = _not_back(one.key, error)
                copy_step_waits(conn, self._queue, table.name, FOREIGN_KEYS, reason)
            else:
                log.info(
                    "table %s: foreign key %s restored, validated in %.1f s",
                    one.key.from_table,
                    one.key.name,
                    seconds,
                )
        return whole

    def _cancel(self) -> None:
        conn = self._conn
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.cancel_safe(timeout=3)


def _not_back(key: PendingForeignKey, error: LondisteError | psycopg.Error) -> str:
    """Logs and stores why a key is not restored yet, without values of rows."""
    text = _said(error)
    log.warning("table %s: foreign key %s not restored yet: %s", key.from_table, key.name, text)
    return f"foreign key {key.name}: {text}"


def _said(error: LondisteError | psycopg.Error) -> str:
    ours = from_database(error)
    if ours is not error:
        ours.__cause__ = error
    text = stored_error(ours)
    return f"{text}; {ours.hint}" if isinstance(ours, AccessDenied) and ours is error else text
