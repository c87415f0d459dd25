"""Snapshots of a standby, and which transactions of a queue they see.

A standby does not know which transactions run at the primary, so the text of its snapshot cannot be
compared with ticks.  Whether it sees a transaction of the queue is nevertheless known: it sees the
transaction's events, or it does not.

    seen = what the newest tick sees, which the standby has replayed, and of later transactions
           those of which the snapshot shows an event

Other transactions count as running.  That is true, or they have no event in this queue, and then
nobody asks.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import tuple_row

from londiste.db.connection import Connection
from londiste.db.queries import first, translated
from londiste.db.snapshot import Snapshot
from londiste.errors import TransientError
from londiste.pgq.types import Tick
from londiste.standby.server import HINT
from londiste.standby.ticks import Bounds, looks, replayed

#: Transactions since the tick up to which a snapshot is worked out: they are listed one by one.
MOST_TRANSACTIONS = 100_000


@dataclass(frozen=True)
class Exported:
    """An open transaction's snapshot: its name for other sessions, and what it sees, as text."""

    name: str
    snapshot: str


def exact(last: Snapshot, high: int, seen: Collection[int]) -> Snapshot:
    """Pure: what a snapshot sees of a queue.

    last -- the snapshot of a tick that it covers.
    high -- it sees nothing from this transaction on.
    seen -- transactions with events that it sees and ``last`` does not.
    """
    running = {xid for xid in (*last.xip, *range(last.xmax, high)) if xid not in seen}
    while high > last.xmax and high - 1 in running:
        high -= 1
        running.discard(high)
    return Snapshot(min(running, default=high), max(high, last.xmax), frozenset(running))


def wait_for_tick(conn: Connection, queue: str, tick: Tick, seconds: float) -> None:
    """Waits until a standby has replayed a tick.  Raises TransientError when it does not."""
    for _ in looks(time.monotonic() + seconds):
        answer = replayed(conn, queue, Bounds.at(tick))
        if answer:
            raise TransientError(answer, hint=HINT)
        if answer is not None:
            return
    raise TransientError(f"it has not replayed tick {tick.id} in {seconds:g} s")


def export(conn: Connection, queue: str, last: Tick) -> Exported:
    """Begins a transaction on a standby that has replayed a tick, and exports its snapshot.

    conn -- a session of ``server.open_session``, idle.
    last -- the newest tick of the queue at the provider.
    Raises TransientError; then no transaction is open.
    """
    try:
        with translated(conn):
            conn.execute("begin isolation level repeatable read, read only")
        answer = replayed(conn, queue, Bounds.at(last))
        row = first(conn, "standby_snapshot", queue=queue, tick=last.id) if answer == "" else None
        if row is None:
            raise TransientError(answer or f"it has not replayed tick {last.id}", hint=HINT)
        name, high, query = row
        known = Snapshot.parse(last.snapshot)
        if high - known.xmax > MOST_TRANSACTIONS:
            raise TransientError(
                f"tick {last.id} is more than {MOST_TRANSACTIONS:,} transactions old",
                hint="start the ticker of the root: londiste ticker",
            )
        with translated(conn), conn.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(sql.SQL("select distinct ev_txid from ({}) as e").format(sql.SQL(query)))
            seen = {int(xid) for (xid,) in cursor}
        return Exported(str(name), str(exact(known, high, seen)))
    except BaseException:
        if not conn.closed:
            conn.rollback()
        raise
