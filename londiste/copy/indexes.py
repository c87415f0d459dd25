"""Index builds of a copied table, several at a time, each in a session of its own.

CREATE INDEX lets others build on the same table.  An index and its removal from the stored
statements are one transaction, so a process that dies in between costs the indexes that were not
finished, and no other.  Keys and all that needs the table alone follow in ``restore``.

Memory: as many builds as the settings allow, of all tables of the process together, share
the budget.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import psycopg

from londiste.copy.prepare import find
from londiste.copy.restore import not_built
from londiste.copy.sessions import CopySessions, Stopping
from londiste.copy.status import BUILDER
from londiste.copy.step_timings import Tally
from londiste.daemon import crash, logcontext
from londiste.db import call, catalog
from londiste.db.connection import Connection, session
from londiste.db.ddl import Piece, pieces
from londiste.db.queries import query
from londiste.replication.model import ReplicatedTable

log = logging.getLogger(__name__)

#: A table smaller than this part of a chunk is not worth a session for each index.
WORTH = 1 / 8
#: Seconds between checks whether the process is stopping.
_POLL_SECONDS = 0.2


def missing(table: ReplicatedTable) -> list[Piece]:
    """The indexes of the table that are still to be built."""
    return [piece for piece in pieces(table.dropped_ddl or "") if piece.name is not None]


def worth_it(sides: CopySessions, table: ReplicatedTable) -> list[Piece]:
    """The indexes of the table that are to be built one by one; none for a small table."""
    builds = missing(table)
    if not builds:
        return []
    info = catalog.info(sides.here, table.dest)
    return builds if info is not None and info.total_bytes >= WORTH * sides.job.chunk_bytes else []


def build(
    sides: CopySessions, table: ReplicatedTable, wanted: Sequence[Piece], tally: Tally
) -> None:
    """Builds the indexes; the rest of the stored statements stays stored.

    Raises what the first of them failed for, when the others are finished; Stopping, and then
    the server ends the builds when it notices the lost connections.
    """
    work = _Work(sides, table, list(reversed(wanted)), tally)
    threads = [
        threading.Thread(target=logcontext.carried(work.run), name="indexes", daemon=True)
        for _ in range(min(len(wanted), sides.job.builds.jobs))
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if sides.stopping():
            raise Stopping("the copy process is stopping")
        threads[0].join(_POLL_SECONDS)
        threads = [thread for thread in threads if thread.is_alive()] or threads
    if work.failures:
        raise work.failures[0]


@dataclass
class _Work:
    """The indexes of one table that no thread has started yet."""

    sides: CopySessions
    table: ReplicatedTable
    waiting: list[Piece]
    tally: Tally
    failures: list[Exception] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Builds until none is left."""
        while not self.sides.stopping():
            try:
                piece = self.waiting.pop()
            except IndexError:
                return
            try:
                with self.sides.job.builds.place(self.sides.stopping) as admitted:
                    if admitted:
                        seconds = _one(self.sides, self.table, piece)
                        with self.lock:
                            self.tally.add(seconds)
            except Exception as error:
                self.failures.append(error)


def _one(sides: CopySessions, table: ReplicatedTable, piece: Piece) -> float:
    """Builds one index; the seconds it took."""
    job, started = sides.job, time.monotonic()
    with _builder(sides, str(piece.name)) as conn:
        try:
            with conn.transaction():
                # The server may still be at work for a process that was killed.
                what = f"{job.queue} {table.name} {piece.name}"
                conn.execute(query("build_lock"), {"what": what})
                now = find(conn, job.queue, table)
                if now is None or now.state != table.state:
                    # Removed, or to be copied again.
                    return 0.0
                if piece.text not in (now.dropped_ddl or ""):
                    return 0.0
                conn.execute(
                    query("build_settings"),
                    {"memory": job.builds.memory // 1024, "share": job.builds.jobs},
                )
                # As bytes: the text may hold percent signs, and there are no parameters.
                conn.execute(piece.text.encode())
                call.value(conn, "londiste.copy_piece_done", job.queue, str(table.name), piece.text)
                crash.point("copy.mid-index")
        except psycopg.Error as error:
            raise not_built(conn, job.queue, table, error) from error
    seconds = time.monotonic() - started
    log.info("table %s: built index %s in %.1f s", table.dest, piece.name, seconds)
    crash.point("copy.after-index")
    return seconds


@contextlib.contextmanager
def _builder(sides: CopySessions, index: str) -> Iterator[Connection]:
    name = (BUILDER + index).encode()[:63].decode("utf-8", "ignore")
    with session(
        sides.job.db,
        name=name,
        autocommit=True,
        replica=True,
        synchronous=True,
        lock_timeout_ms=sides.job.lock_timeout_ms,
        silent_seconds=sides.job.answer_seconds,
    ) as conn:
        # The server cancels the build of a killed process, where it can notice.
        with contextlib.suppress(psycopg.Error):
            conn.execute("set client_connection_check_interval = '1s'")
        yield conn
