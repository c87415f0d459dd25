"""Producer of a queue: sends events in a program's transaction or in its own.

An event is delivered if and only if the transaction that inserts it commits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
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

#: Seconds after which a server that sends nothing, and does not work, is lost.
ANSWER_SECONDS = 30.0

#: Type, data and four extra fields.
FIELDS = 6

#: The same by their names, and the key.
NAMES = ("type", "data", "extra1", "extra2", "extra3", "extra4", "key")


class Producer:
    """Sends events to one queue.

    with Producer("dbname=shop", "signups") as signups:
        signups.send("new", "anna@example.com")

    with psycopg.connect(…) as conn:                    committed with the rest, or not at all
        conn.execute("insert into customers …")
        Producer(conn, "signups").send_json("new", {"mail": "anna@example.com"})

    Threads may share a producer: it does one call after the other.
    """

    def __init__(
        self,
        db: str | psycopg.Connection[Any],
        queue: str,
        *,
        answer_seconds: float | None = ANSWER_SECONDS,
    ) -> None:
        """Opens no connection yet.

        db -- connection string: every call is a transaction; or an open connection of the
            program: events belong to its transaction.
        answer_seconds -- with a connection string: a call raises NodeUnreachable when the server
            sends nothing for so many seconds, and does not work; the next call opens a new session.
            None: after a minute.
        """
        if answer_seconds is not None and not answer_seconds > 0:
            raise BadOption(
                f"answer_seconds={answer_seconds}: not a number of seconds",
                hint="give a number above 0, or None for a minute",
            )
        self.queue = queue
        self._dsn = db if isinstance(db, str) else None
        self._answer_seconds = answer_seconds
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

        at -- deliver it at this time, or after this delay by the clock of the server.
        key -- send it unless there was an event with this key, whose id is returned then; for
            retries after an unknown commit.

        Raises UnknownQueue, StateError when inserts are off, BadOption for at and key together
        and for text that the database cannot store.  After NodeUnreachable the event may have been
        sent.
        """
        fields = (type, data, extra1, extra2, extra3, extra4)
        _require_text((*fields, key))
        if at is not None and key is not None:
            raise BadOption(
                "a delayed event cannot have a key",
                hint="give at= or key=; keys are for events without delay",
            )
        with self._session() as conn:
            _require_encodable((*fields, key), conn)
            if key is not None:
                return producer.insert_event_once(conn, self.queue, key, *fields)[0]
            if at is not None:
                if not isinstance(at, datetime | timedelta):
                    raise BadOption(
                        f"not a time: {at!r}",
                        hint="give a datetime with a time zone, or a timedelta",
                    )
                if isinstance(at, datetime) and at.tzinfo is None:
                    raise BadOption(
                        f"a time without a time zone: {at}",
                        hint="write datetime(…, tzinfo=UTC), or a timedelta",
                    )
                return delayed.insert_event_at(conn, self.queue, at, *fields)
            return producer.insert_event(conn, self.queue, *fields)

    def send_json(
        self,
        type: str | None,
        value: Any,
        *extras: str | None,
        at: datetime | timedelta | None = None,
        key: str | None = None,
    ) -> int:
        """Sends a value as JSON; the event's id.

        Raises as ``send``, TypeError for types that JSON lacks, and BadOption for NaN and infinity.
        """
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except ValueError as error:
            raise BadOption(
                f"the value cannot be sent as JSON: {error}",
                hint="send None or a text instead of NaN and infinity, and no value inside itself",
            ) from error
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
                return producer.insert_events(conn, self.queue, _encodable(rows, conn))
            count = 0
            source = _encodable(rows, conn)
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
                self._conn = connect(
                    self._dsn,
                    name=f"londiste producer {self.queue}",
                    autocommit=True,
                    silent_seconds=self._answer_seconds,
                )
            assert self._conn is not None
            yield self._conn


def _whole(row: Sequence[str | None]) -> Sequence[str | None]:
    if len(row) > FIELDS:
        raise BadOption(
            f"an event has {len(row)} fields", hint="type, data and at most four extra fields"
        )
    _require_text(row)
    return (*row, *[None] * (FIELDS - len(row)))


def _encodable(
    rows: Iterable[Sequence[str | None]], conn: Connection
) -> Iterator[Sequence[str | None]]:
    for row in rows:
        if isinstance(row, str | bytes):
            raise BadOption(
                f"an event has type {type(row).__name__}, not a list of fields",
                hint='send_many([("type", "data"), …])',
            )
        _require_encodable(row, conn)
        yield row


def _require_encodable(fields: Sequence[object], conn: Connection) -> None:
    """Raises BadOption for a text that the session cannot send; its content is not shown."""
    for name, value in zip(NAMES, fields, strict=False):
        if not isinstance(value, str):
            continue
        if "\0" in value:
            raise _not_text(name, "a NUL character")
        if not value.isascii():
            encoding = conn.info.encoding
            try:
                value.encode("utf-8" if encoding == "ascii" else encoding)
            except UnicodeEncodeError as error:
                code = ord(value[error.start])
                raise _not_text(name, f"U+{code:04X}, which {error.encoding} lacks") from None


def _not_text(name: str, what: str) -> BadOption:
    return BadOption(
        f"{name} of an event contains {what}",
        hint="remove the character or encode the data: base64, or an escape of its format",
    )


def _require_text(fields: Sequence[object]) -> None:
    for name, value in zip(NAMES, fields, strict=False):
        if value is not None and not isinstance(value, str):
            raise BadOption(
                f"{name} of an event has type {type(value).__name__}, not text",
                detail=f"{value!r:.200}",
                hint="send text or None; send other values as JSON: send_json",
            )
