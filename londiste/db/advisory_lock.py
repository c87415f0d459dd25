"""Advisory locks: one process per job, and whether two sessions use the same database."""

from __future__ import annotations

import secrets
import time

from psycopg.rows import dict_row

from londiste.db.connection import Connection
from londiste.db.queries import query, translated
from londiste.db.server_text import AdvisoryHolder, AdvisoryKey, holder_of

#: Seconds to wait for the session of a process that was killed a moment ago.
PATIENCE = 3.0


def acquire_singleton_lock(
    conn: Connection, job: str, *, patience: float = PATIENCE, shared: bool = False
) -> str | None:
    """Takes the lock of a job in this database.  None: taken; else a description of its holder.

    job -- names the lock for all competing processes.
    patience -- seconds to try: the holder may be the session of a process that was killed just now.
    shared -- beside others that share it, but beside no other one.
    """
    lock = query("job_lock_shared" if shared else "job_lock")
    deadline = time.monotonic() + patience
    with translated(conn):
        while True:
            row = conn.execute(lock, [job]).fetchone()
            if row is not None and row[0]:
                return None
            if time.monotonic() >= deadline:
                break
            time.sleep(0.1)
        holder = job_holder(conn, job)
    return "its session ended just now" if holder is None else holder.text


def job_holder(conn: Connection, job: str) -> AdvisoryHolder | None:
    """The session that holds the lock of a job in this database; None: none."""
    with translated(conn), conn.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(query("advisory_lock_holder"), vars(AdvisoryKey(job=job))).fetchone()
    if row is None:
        return None
    return holder_of(row)


def same_database(one: Connection, other: Connection) -> bool:
    """Whether both are in one database of one server.

    An advisory lock with a random key exists in one database of one server only: a session that
    cannot take it is in the same one.  A transaction of ``other`` keeps a lock it could take to its
    end.  Raises psycopg.Error.
    """
    key = secrets.randbits(63)
    one.execute(query("advisory_lock"), [key])
    try:
        free = other.execute(query("advisory_try_lock"), [key]).fetchone()
    finally:
        one.execute(query("advisory_unlock"), [key])
    return free is not None and not free[0]
