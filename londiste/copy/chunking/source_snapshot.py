"""The snapshot that the tasks of a copy share: of the provider, or of a standby of it.

On a standby it lies between two ticks of the provider, both of which the standby replays: so it is
a state that the provider has had.  The later one is looked for after the copy, because an open
snapshot may delay the replay.  ``standby/snapshot.py`` works out which transactions it sees.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.copy.sessions import CopySessions, CopyStandby, Stopping
from londiste.db.connection import Connection, session
from londiste.db.queries import flush_commits, translated, tuples
from londiste.errors import LondisteError, Superseded, TransientError
from londiste.pgq import queues, ticks
from londiste.pgq.types import Tick
from londiste.standby import server
from londiste.standby.snapshot import export, wait_for_tick

log = logging.getLogger(__name__)

#: Seconds after a copy until the standby has replayed the first tick after its snapshot.
_PROOF_SECONDS = 60.0


@dataclass(frozen=True)
class SourceSnapshot:
    """An open transaction whose snapshot the tasks use.

    conn -- its session.
    name -- of the exported snapshot.
    seen -- what it sees, as text.
    location -- connection string of the server for the tasks.
    """

    conn: Connection = field(repr=False)
    name: str
    seen: str
    location: str = field(repr=False)


@contextlib.contextmanager
def exported_snapshot(sides: CopySessions) -> Iterator[SourceSnapshot]:
    """A transaction on the provider, or on its standby, whose snapshot the tasks share.

    A temporary failure inside the block lets the next attempt read the provider.
    """
    standby = sides.job.standby
    if standby is not None and standby.may_read(sides.consumer):
        found = None
        try:
            found = _StandbySnapshot(sides, standby)
        except (LondisteError, psycopg.Error) as error:
            standby.fail(sides.consumer, error)
        if found is not None:
            log.info("copying from standby %s", standby.place)
            try:
                with contextlib.closing(found):
                    yield found.source
                found.prove()
            except (Stopping, Superseded):
                raise
            except TransientError as error:
                standby.fail(sides.consumer, error)
                raise
            return
    with session(
        sides.location,
        name=sides.session_name,
        autocommit=True,
        lock_timeout_ms=sides.job.lock_timeout_ms,
        silent_seconds=sides.job.answer_seconds,
    ) as conn:
        with translated(conn):
            conn.execute("begin isolation level repeatable read, read only")
        ((name, snapshot),) = tuples(conn, "export_snapshot")
        flush_commits(sides.provider)
        try:
            yield SourceSnapshot(conn, name, snapshot, sides.location)
        finally:
            # Behind a lost connection the snapshot would hold back vacuum until somebody ends it.
            with contextlib.suppress(psycopg.Error):
                conn.execute("rollback")


class _StandbySnapshot:
    """An open snapshot of a standby, between two ticks of the provider.

    Raises errors of either server, and TransientError when the standby cannot be read.
    """

    def __init__(self, sides: CopySessions, standby: CopyStandby) -> None:
        self._sides = sides
        self._standby = standby
        self._identity = server.look(sides.provider)
        last = _tick(sides.provider, sides.queue)
        conn = self._open()
        try:
            wait_for_tick(conn, sides.queue, last, standby.wait)
            exported = export(conn, sides.queue, last)
            self._later = _tick(sides.provider, sides.queue)
        except BaseException:
            conn.close()
            raise
        self.source = SourceSnapshot(conn, exported.name, exported.snapshot, standby.dsn)

    def close(self) -> None:
        """Ends the snapshot."""
        self.source.conn.close()

    def prove(self) -> None:
        """Proves, after the copy, that the standby has not left the provider's history before."""
        with contextlib.closing(self._open()) as conn:
            wait_for_tick(conn, self._sides.queue, self._later, _PROOF_SECONDS)

    def _open(self) -> Connection:
        return server.open_session(
            self._standby.dsn,
            self._identity,
            name=self._sides.session_name,
            answer_seconds=self._sides.job.answer_seconds,
        )


def _tick(provider: Connection, queue: str) -> Tick:
    """A new tick of the provider.  Raises TransientError on a branch: its root makes the ticks."""
    if not nodes.is_root_node(provider, queue):
        raise TransientError("the provider is a branch: copies read a standby of the root only")
    queues.create_tick(provider, queue)
    found = ticks.newest(provider, queue)
    if found is None:
        raise TransientError(f"queue {queue}: no tick yet")
    return found
