"""Producer of a queue: sends events in a program's transaction or in its own.

An event is delivered if and only if the transaction that inserts it commits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import TracebackType
from typing import Any

import psycopg

from londiste.db.connection import Connection, connect
from londiste.db.queries import savepoint
from londiste.errors import BadOption
from londiste.pgq import delayed, producer

#: Events in one statement of ``send_many``.
MANY = 2000

#: Type, data and four extra fields.
FIELDS = 6

#: The same by their names.
NAMES = ("type", "data", "extra1", "extra2", "extra3", "extra4")


class Producer:
    """Sends events to one queue.

    with Producer("dbname=shop", "signups") as signups:
        signups.send("new", "anna@example.com")

    with psycopg.connect(…) as conn:                    committed with the rest, or not at all
        conn.execute("insert into customers …")
        Producer(conn, "signups").send_json("new", {"mail": "anna@example.com"})

    Threads may share a producer: it does one call after the other.
    """

    def __init__(self, db: str | psycopg.Connection[Any], queue: str) -> None:
        """Opens no connection yet.

        db -- connection string: every call is a transaction; or an open connection of the
            program: events belong to its transaction.
        """
        self.queue = queue
        self._dsn = db if isinstance(db, str) else None
        self._conn: Connection | None = None if isinstance(db, str) else db
        self._lock = threading.RLock()

    def send(
        self,
        type: str | None,
        data: str | None,
        extra1: str | None = None,
        extra2: str | None = None,
        extra3: str | None = None,
        extra4: str | None = None,
        *,
        at: datetime | timedelta | None = None,
        key: str | None = None,
    ) -> int:
        """Sends one event; its id.

        at -- deliver it at this time, or after this delay.
        key -- send it unless there was an event with this key, whose id is returned then; for
            retries after an unknown commit.

        Raises UnknownQueue, StateError when inserts are off, BadOption for at and key together.
        """
        fields = (type, data, extra1, extra2, extra3, extra4)
        _require_text(fields)
        if at is not None and key is not None:
            raise BadOption(
                "a delayed event cannot have a key",
                hint="give at= or key=; keys are for events without delay",
            )
        with self._session() as conn:
            if key is not None:
                return producer.insert_event_once(conn, self.queue, key, *fields)[0]
            if at is not None:
                if not isinstance(at, datetime | timedelta):
                    raise BadOption(
                        f"not a time: {at!r}",
                        hint="give a datetime with a time zone, or a timedelta",
                    )
                time = datetime.now(UTC) + at if isinstance(at, timedelta) else at
                if time.tzinfo is None:
                    raise BadOption(
                        f"a time without a time zone: {time}",
                        hint="write datetime(…, tzinfo=UTC), or a timedelta",
                    )
                return delayed.insert_event_at(conn, self.queue, time, *fields)
            return producer.insert_event(conn, self.queue, *fields)

    def send_json(
        self,
        type: str | None,
        value: Any,
        *extras: str | None,
        at: datetime | timedelta | None = None,
        key: str | None = None,
    ) -> int:
        """Sends a value as JSON; the event's id.  Raises TypeError for values that JSON lacks."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return self.send(type, text, *extras, at=at, key=key)

    def send_many(self, rows: Iterable[Sequence[str | None]], *, copy: bool = False) -> int:
        """Sends many events, all or none; their number.

        rows -- type, data and up to four extra fields each.  What a generator sends by the same
            producer belongs to this call; other threads wait.
        copy -- by COPY: faster for very many, and needs the rights of pgq_admin; else some
            thousand at a time, as pgq_writer.

        Raises as ``send``, and BadOption for a row that is too long.
        """
        with self._session() as conn, savepoint(conn):
            if copy:
                return producer.insert_events(conn, self.queue, rows)
            count = 0
            source = iter(rows)
            while some := list(islice(source, MANY)):
                columns = [list(column) for column in zip(*map(_whole, some), strict=True)]
                count += producer.insert_event_arrays(conn, self.queue, *columns)
            return count

    def close(self) -> None:
        """Closes the session if the producer opened it."""
        with self._lock:
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
        """The session, for this thread alone: a transaction in it has the events of one call."""
        with self._lock:
            if self._dsn is not None and (self._conn is None or self._conn.closed):
                name = f"londiste producer {self.queue}"
                self._conn = connect(self._dsn, name=name, autocommit=True)
            assert self._conn is not None
            yield self._conn


def _whole(row: Sequence[str | None]) -> Sequence[str | None]:
    if len(row) > FIELDS:
        raise BadOption(
            f"an event has {len(row)} fields", hint="type, data and at most four extra fields"
        )
    _require_text(row)
    return (*row, *[None] * (FIELDS - len(row)))


def _require_text(fields: Sequence[object]) -> None:
    for name, value in zip(NAMES, fields, strict=False):
        if value is not None and not isinstance(value, str):
            raise BadOption(
                f"{name} of an event has type {type(value).__name__}, not text",
                detail=f"{value!r:.200}",
                hint="send text or None; send other values as JSON: send_json",
            )
