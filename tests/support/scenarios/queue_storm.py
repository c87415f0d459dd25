"""Producers and consumers of the storm on one queue.

    python -m tests.support.scenarios.queue_storm KIND NAME DSN

Each runs until SIGTERM, and goes on after everything that can happen to its connection.  What
is committed is known from the database alone: a producer writes every token, with its event,
into ``storm.sent`` in the same transaction; a consumer writes what it has seen into
``storm.seen`` in the transaction that finishes the batch.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import psycopg
from psycopg import sql

from londiste.daemon.loop import as_londiste
from londiste.db.connection import Connection, connect
from londiste.errors import LondisteError
from londiste.pgq import batches, producer
from londiste.pgq.types import Batch, Event

QUEUE = "storm"
COOP = "shared"
DEAD_AFTER = "2 seconds"

#: Longest pause in seconds in the middle of a batch: to hold rotation up, to be caught with it.
PAUSES = {"slow": 1.5, "coop": 0.5}

SCHEMA = """
create schema storm;
create table storm.sent (token text not null);
create table storm.seen (
    nr bigserial, consumer text not null, worker text not null, batch_id int8 not null,
    ev_id int8 not null, retry int4, token text not null
);
create table storm.finished (batch_id int8 primary key, worker text not null);
create table storm.watched (token text primary key);
create trigger capture after insert on storm.watched
for each row execute function pgq.sqltriga('storm', 'ev_data=token');
"""

_stop = threading.Event()


class Producer:
    """Writes tokens in transactions of one kind."""

    def __init__(self, kind: str, name: str) -> None:
        self.name = f"{name}/{os.getpid()}"
        self.prefix = f"{name}/"
        self.number = 0
        self.random = random.Random(self.name)
        self.write: Callable[[Connection], None] = getattr(self, kind)

    def run(self, conn: Connection) -> None:
        """Transactions until somebody stops us or the connection."""
        self.settle(conn)
        while not _stop.is_set():
            self.write(conn)
            _stop.wait(0.005)
        self.settle(conn)

    def send(self, conn: Connection) -> None:
        """One token, into the queue and into the list."""
        token = self.token()
        conn.execute("insert into storm.sent values (%s)", [token])
        producer.insert_event(conn, QUEUE, "token", token)

    def token(self) -> str:
        self.number += 1
        return f"{self.name}/{self.number}"

    # -- the kinds ---------------------------------------------------------

    def short(self, conn: Connection) -> None:
        with conn.transaction():
            self.send(conn)

    def several(self, conn: Connection) -> None:
        with conn.transaction():
            conn.execute("set transaction isolation level repeatable read")
            for _ in range(5):
                self.send(conn)

    def long(self, conn: Connection) -> None:
        with conn.transaction():
            for _ in range(4):
                self.send(conn)
                _stop.wait(self.random.uniform(0.1, 0.8))

    def aborted(self, conn: Connection) -> None:
        with conn.transaction():
            for _ in range(3):
                self.send(conn)
            if self.random.random() < 0.7:
                raise psycopg.Rollback

    def savepoints(self, conn: Connection) -> None:
        with conn.transaction():
            for _ in range(6):
                with conn.transaction():
                    self.send(conn)
                    with conn.transaction():
                        self.send(conn)
                        if self.random.random() < 0.5:
                            raise psycopg.Rollback
                    if self.random.random() < 0.3:
                        raise psycopg.Rollback

    def two_phase(self, conn: Connection) -> None:
        name = self.token()
        conn.execute("begin")
        for _ in range(2):
            self.send(conn)
        conn.execute(sql.SQL("prepare transaction {}").format(sql.Literal(name)))
        _stop.wait(self.random.uniform(0.0, 0.5))
        self.settle(conn)

    def bulk(self, conn: Connection) -> None:
        tokens = [self.token() for _ in range(40)]
        with conn.transaction():
            conn.execute("insert into storm.sent select unnest(%s::text[])", [tokens])
            producer.insert_events(conn, QUEUE, [("token", token) for token in tokens])
        _stop.wait(0.1)

    def trigger(self, conn: Connection) -> None:
        token = self.token()
        with conn.transaction():
            conn.execute("insert into storm.sent values (%s)", [token])
            conn.execute("insert into storm.watched values (%s)", [token])

    def settle(self, conn: Connection) -> None:
        """Ends what a predecessor or we ourselves have prepared: either way is right."""
        names = conn.execute(
            "select gid from pg_catalog.pg_prepared_xacts where starts_with(gid, %s)",
            [self.prefix],
        ).fetchall()
        for (name,) in names:
            verb = self.random.choice(["commit prepared {}", "rollback prepared {}"])
            conn.execute(sql.SQL(verb).format(sql.Literal(name)))


class Reader:
    """A consumer whose only effect is a list of what it has seen.

    Some of them ask for an event again, once; some are slow, and hold rotation up.
    """

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.consumer, _, self.worker = name.partition("/")
        self.random = random.Random(f"{name}/{os.getpid()}")

    def run(self, conn: Connection) -> None:
        """Batches until somebody stops us or the connection."""
        while not _stop.is_set():
            batch = self.next_batch(conn)
            if batch is None:
                _stop.wait(0.02)
                continue
            with contextlib.suppress(_Lost), conn.transaction():
                for chunk in batches.events(conn, batch, chunk=100):
                    self.see(conn, batch, chunk)
                _stop.wait(self.random.uniform(0.0, PAUSES.get(self.kind, 0.0)))
                # A worker that was thought dead has no batch any more: nothing of it counts.
                if not self.finish(conn, batch):
                    raise _Lost

    def next_batch(self, conn: Connection) -> Batch | None:
        if self.kind != "coop":
            if self.kind != "slow":
                return batches.next_batch(conn, QUEUE, self.consumer)
            return batches.next_batch(
                conn, QUEUE, self.consumer, min_count=1000, min_interval=timedelta(seconds=1)
            )
        row = conn.execute(
            "select pgq_coop.next_batch(%s, %s, %s, %s::interval)",
            [QUEUE, self.consumer, self.worker, DEAD_AFTER],
        ).fetchone()
        assert row is not None
        if row[0] is None:
            return None
        return batches.get_batch_info(conn, row[0])

    def see(self, conn: Connection, batch: Batch, events: list[Event]) -> None:
        with conn.cursor() as cursor:
            cursor.executemany(
                "insert into storm.seen (consumer, worker, batch_id, ev_id, retry, token)"
                " values (%s, %s, %s, %s, %s, %s)",
                [
                    (self.consumer, self.worker, batch.id, event.id, event.retry, event.data)
                    for event in events
                ],
            )
        for event in events:
            if event.retry is None and self.kind == "retry" and self.random.random() < 0.02:
                batches.event_retry(conn, batch.id, event.id, 1)

    def finish(self, conn: Connection, batch: Batch) -> bool:
        conn.execute("insert into storm.finished values (%s, %s)", [batch.id, self.worker])
        if self.kind != "coop":
            return batches.finish_batch(conn, batch.id) == 1
        row = conn.execute("select pgq_coop.finish_batch(%s)", [batch.id]).fetchone()
        return row == (1,)


class _Lost(Exception):
    """Somebody else has the batch."""


def main(kind: str, name: str, dsn: str) -> None:
    """One program until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: _stop.set())
    reads = kind in {"plain", "retry", "slow", "coop"}
    program = Reader(kind, name) if reads else Producer(kind, name)
    while not _stop.is_set():
        try:
            with contextlib.closing(connect(dsn, name=f"storm {name}", autocommit=True)) as conn:
                program.run(conn)
        except (psycopg.Error, LondisteError) as error:
            # A server that is gone comes back; what was not committed did not happen.
            print(f"{name}: {as_londiste(error)}", flush=True)
            _stop.wait(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
