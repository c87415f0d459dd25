"""A worker as a process of its own, for tests that kill it.

It stores what it processes in the table ``done`` of the queue's database, in one transaction with
finishing the batch or acknowledging the event, and ends when there is nothing left to do and the
table ``stop`` has a row.
"""

from __future__ import annotations

import sys
import threading
from datetime import timedelta

import psycopg
from psycopg.conninfo import conninfo_to_dict

from londiste.db.connection import Connection, connect
from londiste.errors import LondisteError
from londiste.pgq import batches, coop
from tests.support import coop_steps

#: Short, so that living workers are taken for dead as well.
DEAD = timedelta(milliseconds=300)

_STORE = "insert into public.done (worker, batch, data) values (%s, %s, %s)"


def take_batch(conn: Connection, worker: str) -> bool:
    """Processes the next batch; whether there was one."""
    with conn.transaction():
        batch = coop.next_batch(conn, "q", "c", worker, dead_interval=DEAD)
    if batch is None:
        return False
    with conn.transaction():
        try:
            for chunk in batches.events(conn, batch):
                for event in chunk:
                    conn.execute(_STORE, [worker, batch.id, event.data])
        except LondisteError as error:
            if "batch not found" not in error.message:
                raise
            raise psycopg.Rollback from error
        if coop.finish_batch(conn, batch.id) == 0:
            raise psycopg.Rollback
    return True


def take_events(conn: Connection, worker: str) -> bool:
    """Receives a few events, processes and settles each; whether there were any."""
    events = coop_steps.receive(conn, "q", "c", worker, 5, dead_interval=DEAD)
    for event in events:
        with conn.transaction():
            if not event.retry and (event.data or "").endswith("7"):
                if coop_steps.nack(conn, event.batch_id, event.id, 0) is None:
                    raise psycopg.Rollback
                continue
            conn.execute(_STORE, [worker, event.batch_id, event.data])
            if coop_steps.ack(conn, event.batch_id, event.id) == 0:
                raise psycopg.Rollback
    return bool(events)


TAKE = {"batches": take_batch, "events": take_events}


def main(dsn: str, worker: str, how: str) -> None:
    pause = threading.Event()
    conn = connect(dsn, name=f"coop {worker} {conninfo_to_dict(dsn)['dbname']}", autocommit=True)
    while True:
        if TAKE[how](conn, worker):
            continue
        if conn.execute("select 1 from public.stop").fetchone() and not busy(conn):
            return
        pause.wait(0.02)


def busy(conn: Connection) -> bool:
    """Whether events may still come: unread, in hand, or to be retried."""
    return bool(
        conn.execute(
            "select exists (select 1 from pgq.retry_queue)"
            " or exists (select 1 from pgq.subscription where sub_batch is not null)"
            " or (select max(tick_id) from pgq.tick) > (select sub_last_tick"
            "   from pgq.subscription join pgq.consumer on co_id = sub_consumer"
            "   where co_name = 'c')"
            " or pgq.seq_getval('pgq.event_1_id_seq')"
            "   > (select tick_event_seq from pgq.tick order by tick_id desc limit 1)"
        ).fetchall()[0][0]
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
