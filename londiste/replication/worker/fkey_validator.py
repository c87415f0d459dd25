"""Foreign keys that were taken off for a copy: made again, and checked beside the stream.

A key is added without a look at the rows, by the worker between two batches: that locks both tables
for a moment.  Looking at the rows may take as long as reading both tables.  Writers need not wait
for it and neither does the worker: a thread with a session of its own does it, one key after the
other.  A key is forgotten (``londiste.pending_fkeys``) when it is checked, so whoever is killed in
the middle costs time only.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from londiste.daemon import logcontext
from londiste.db import owner
from londiste.db.connection import Connection, session
from londiste.errors import LondisteError, from_database
from londiste.replication import sqlapi as tables
from londiste.replication.model import PendingForeignKey, ReplicatedTable
from londiste.replication.tablesync import states
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
    """A key whose rows are to be looked at.

    table -- name in the queue of the table that has it, where its steps are noted.
    statement -- looks at them.
    """

    key: PendingForeignKey
    table: ReplicatedTable
    statement: str


class ForeignKeys:
    """Makes the foreign keys again whose tables are both in step.

    dsn -- of this node; lock_timeout -- in seconds.
    """

    def __init__(self, dsn: str, queue: str, *, lock_timeout: float) -> None:
        self._dsn = dsn
        self._queue = queue
        self._lock_timeout = lock_timeout
        self._ok: frozenset[str] = frozenset()
        self._next = 0.0
        self._thread: threading.Thread | None = None
        self._conn: Connection | None = None
        self._ending = False

    @property
    def busy(self) -> bool:
        """Whether keys are being checked."""
        return self._thread is not None and self._thread.is_alive()

    def look_after(self, conn: Connection, known: Sequence[ReplicatedTable]) -> None:
        """Adds keys whose tables have come into step, and has them checked.

        Looks when other tables are in step than before, now and then, and when the last check has
        come to its end.  ``conn`` in autocommit mode, between two batches.
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
        """Breaks off what is being checked; the next worker begins it again."""
        self._ending = True
        if self.busy and self._thread is not None:
            self._cancel()
            self._thread.join(5)

    # -- steps -------------------------------------------------------------------------------

    def _add(self, conn: Connection, known: Sequence[ReplicatedTable]) -> list[Unchecked]:
        """Adds what can be added; what is still to be checked."""
        by_dest = {table.dest: table for table in known}
        result = []
        for key in tables.get_valid_pending_fkeys(conn, self._queue):
            try:
                while statement := tables.restore_table_fkey(
                    conn, key.from_table, key.name, lazy=True
                ):
                    if " VALIDATE CONSTRAINT " in statement:
                        # The queue that is asked fills at least one of the two.
                        table = by_dest.get(key.from_table) or by_dest[key.to_table]
                        result.append(Unchecked(key, table, statement))
                        break
                    conn.execute(statement.encode())
                else:
                    log.info("foreign key %s of table %s is back", key.name, key.from_table)
            except (LondisteError, psycopg.Error) as error:
                _not_back(key, error)
        return result

    def _check(self, keys: Sequence[Unchecked]) -> None:
        """The thread: one key after the other, those of a table together."""
        started, failed = time.monotonic(), False
        try:
            with session(
                self._dsn,
                name=CHECKER,
                autocommit=True,
                lock_timeout_ms=round(self._lock_timeout * 1000),
                synchronous=True,
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
                log.warning("foreign keys are not checked yet: %s", error)
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
                    "foreign key %s of table %s is back, checked in %.1f s",
                    one.key.name,
                    one.key.from_table,
                    seconds,
                )
        return whole

    def _cancel(self) -> None:
        conn = self._conn
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.cancel_safe(timeout=3)


def _not_back(key: PendingForeignKey, error: LondisteError | psycopg.Error) -> str:
    """Says why a key is not back yet."""
    ours = error if isinstance(error, LondisteError) else from_database(error)
    text = ours.message + (f" ({ours.detail})" if ours.detail else "")
    log.warning("foreign key %s of table %s is not back yet: %s", key.name, key.from_table, text)
    return f"foreign key {key.name}: {text}"
