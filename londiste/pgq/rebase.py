"""Rebase of queues whose database was restored on another server.

Ticks and events hold transaction ids, and those of two servers cannot be compared.
docs/howto/restore-a-queue.md says when this is needed, docs/design/ticks-and-snapshots.md how it
works.
"""

from __future__ import annotations

import logging
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from uuid import UUID

from psycopg import sql

from londiste.db import call
from londiste.db.connection import IDLE_SECONDS, Connection, describe_dsn, session
from londiste.db.queries import query, translated
from londiste.errors import TooFewIds

log = logging.getLogger(__name__)

#: Seconds to wait for writers.  They wait behind us for as long.
LOCK_TIMEOUT = 10.0
#: More ids than needed: other sessions of the server run meanwhile.
SPARE_IDS = 1000


@dataclass(frozen=True)
class Rebased:
    """Changes of a rebase in one queue.

    unread -- events of the dump that came after the last tick.
    arrived -- events inserted here since the restore; they come last.
    """

    queue: str
    reason: str
    ticks: int
    events: int
    unread: int
    arrived: int
    generation: UUID


@dataclass(frozen=True)
class RebaseReason:
    """Whether a queue needs a rebase: the reason or None, and the number of rows to rewrite."""

    queue: str
    reason: str | None
    ticks: int | None
    events: int | None


def explain(conn: Connection) -> list[RebaseReason]:
    """The changes that ``rebase`` would make, per queue; changes nothing, blocks no session."""
    return call.records(conn, RebaseReason, "pgq.explain_rebase")


def rebase_queues(conn: Connection) -> list[Rebased]:
    """Rewrites all queues that need it, in the caller's transaction; empty if none does.

    Raises TooFewIds if the server has not assigned enough transaction ids yet.
    """
    return call.records(conn, Rebased, "pgq.rebase_queues")


def rebase(dsn: str, *, lock_timeout: float = LOCK_TIMEOUT) -> list[Rebased]:
    """Rebases the database in one transaction, all queues or none.

    On a server with too few transaction ids the missing ids are assigned first.

    Raises LockTimeout when writers do not end in ``lock_timeout`` seconds, TooFewIds when a
    long transaction somewhere on the server keeps its ids from counting as past.
    """
    try:
        return _once(dsn, lock_timeout)
    except TooFewIds as young:
        missing = _missing(young)
        if missing is None:
            raise
    log.info("%s: assigning %d transaction ids", describe_dsn(dsn), missing)
    with session(dsn, name="londiste rebase: ids", autocommit=True) as conn:
        _use_up_ids(conn, missing)
    return _once(dsn, lock_timeout)


def _once(dsn: str, lock_timeout: float) -> list[Rebased]:
    with opened(dsn, lock_timeout) as conn:
        done = rebase_queues(conn)
        conn.commit()
    return done


def opened(dsn: str, lock_timeout: float) -> AbstractContextManager[Connection]:
    """The session of a rebase, which keeps writers out: not when this process is stopped."""
    return session(
        dsn,
        name="londiste rebase",
        synchronous=True,
        lock_timeout_ms=max(1, round(lock_timeout * 1000)),
        idle_timeout_ms=IDLE_SECONDS * 1000,
    )


def _missing(young: TooFewIds) -> int | None:
    """The number of ids that the error requests; None if its text has no number."""
    found = re.search(r"needs (\d+), below (\d+)", young.message)
    return int(found[1]) - int(found[2]) + SPARE_IDS if found else None


def _use_up_ids(conn: Connection, count: int) -> None:
    with translated(conn):
        # DO takes no parameters.
        text = sql.SQL(query("use_up_transaction_ids"))
        conn.execute(text.format(count=sql.Literal(count)))
