"""Producers: events into a queue, from a program's own transaction or in their own.

An event is delivered if and only if the transaction that inserts it commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import psycopg

from londiste.db.connection import Connection, connect
from londiste.pgq import producer


class Producer:
    """Sends events to one queue.

    with Producer("dbname=shop", "signups") as signups:
        signups.send("new", "anna@example.com")

    with psycopg.connect(…) as conn:                    committed with the rest, or not at all
        conn.execute("insert into customers …")
        Producer(conn, "signups").send_json("new", {"mail": "anna@example.com"})
    """

    def __init__(self, db: str | psycopg.Connection[Any], queue: str) -> None:
        """Connects to nothing yet.

        db -- connection string: every call is a transaction; or an open connection of the
            program: events belong to its transaction.
        """
        self.queue = queue
        self._dsn = db if isinstance(db, str) else None
        self._conn: Connection | None = None if isinstance(db, str) else db

    def send(
        self,
        type: str | None,
        data: str | None,
        extra1: str | None = None,
        extra2: str | None = None,
        extra3: str | None = None,
        extra4: str | None = None,
    ) -> int:
        """Sends one event; its id.  Raises UnknownQueue, or StateError when inserts are off."""
        with self._session() as conn:
            return producer.insert_event(
                conn, self.queue, type, data, extra1, extra2, extra3, extra4
            )

    def send_json(self, type: str | None, value: Any, *extras: str | None) -> int:
        """Sends a value as JSON; the event's id.  Raises TypeError for what JSON has not."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return self.send(type, text, *extras)

    def send_many(self, rows: Iterable[Sequence[str | None]]) -> int:
        """Sends many events at once, all or none; how many.

        rows -- type, data and up to four extra fields each.
        """
        with self._session() as conn:
            return producer.insert_events(conn, self.queue, rows)

    def close(self) -> None:
        """Ends the session, if it is the producer's own."""
        if self._dsn is not None and self._conn is not None:
            self._conn.close()
            self._conn = None

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        if self._dsn is not None and (self._conn is None or self._conn.closed):
            self._conn = connect(self._dsn, name=f"londiste producer {self.queue}", autocommit=True)
        assert self._conn is not None
        yield self._conn
