"""Events of a batch as a stream of COPY text blocks, limited in bytes and decoded on demand.

    for block in stream(conn, batch):
        seen += len(block)              counting decodes nothing
        for event in block: ...         decodes the block's events, one after another

Reading a batch costs a consumer mostly what it does with each event in Python.  So the server
sends COPY's text, which libpq hands out without looking into it, and a consumer that only counts,
or looks at two fields, pays for nothing else.
"""

from __future__ import annotations

import codecs
import contextlib
import shlex
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from datetime import datetime

from psycopg import errors as pg_errors
from psycopg import generators, waiting
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.copy import escaped, unescaped
from londiste.db.queries import savepoint, streaming, translated
from londiste.error_values import Values
from londiste.errors import ApplyError, EventError
from londiste.pgq.types import Batch, Event

#: Bytes of a block, unless a single event is longer.
BLOCK_BYTES = 1 << 20

#: Ids between the ticks of a batch that is one block, presumably.
_SMALL_BATCH = 1000

#: Bytes of an event up to which it is cheaper to copy it than to keep the driver's view of it.
_COPIED = 4096

#: Seconds that a server has to confirm that it gave up a statement.
_CANCEL_SECONDS = 10.0

_FIELDS = {name: position for position, name in enumerate(Event._fields)}
_DATA = _FIELDS["data"]
_TYPE, _EXTRA1 = _FIELDS["type"], _FIELDS["extra1"]

#: The encoding of databases that store any bytes.
_ANY = "SQL_ASCII"

#: Characters of a text that are decoded at once.
_PIECE = 1 << 20


class Alone(list[str]):
    """The fields of one event as COPY writes them, but the data unescaped (never NULL)."""

    def line(self) -> str:
        """All as COPY writes them, separated by tabs."""
        return "\t".join([*self[:_DATA], escaped(self[_DATA]), *self[_DATA + 1 :]])


class EventBlock:
    """A block of events of a batch, in the order of their ids, as COPY wrote them.

    ``len`` is their number; iterating decodes them, each time anew.
    """

    __slots__ = ("_alone", "_count", "_data", "_encoding", "_nbytes")

    def __init__(self, data: bytes | memoryview, count: int, encoding: str = "utf-8") -> None:
        """data -- whole lines of COPY's text format with the columns of Event; count -- of them."""
        self._data = data
        self._count = count
        self._encoding = encoding
        self._nbytes = len(data)
        self._alone: Alone | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Length of the text."""
        return self._nbytes

    def readable(self, needed: Callable[[int, str, str], bool]) -> EventBlock:
        """The block without events whose bytes are no text, which only some databases can store.

        needed -- whether the event with this id, type and extra1 is; then it is an error.

        Raises EventError for an event that is needed.
        """
        if self._alone is not None or _is_text(self._data, self._encoding):
            return self
        kept = []
        for line in self.data.split(b"\n")[:-1]:
            if not _is_text(line, self._encoding):
                fields = [part.decode(errors="replace") for part in line.split(b"\t")]
                kind, extra1 = (unescaped(fields[n]) or "" for n in (_TYPE, _EXTRA1))
                if needed(int(fields[0]), kind, extra1):
                    raise _no_text(int(fields[0]), extra1)
            else:
                kept.append(line + b"\n")
        return EventBlock(b"".join(kept), len(kept), self._encoding)

    def _text(self) -> str:
        """All as text.  Raises EventError for the first event that is none."""
        try:
            return str(self._data, self._encoding)
        except UnicodeDecodeError:
            self.readable(lambda *event: True)
            raise

    @property
    def data(self) -> bytes:
        """The text: a line for each event, with the columns of Event."""
        if self._alone is not None:
            return (self._alone.line() + "\n").encode(self._encoding)
        if isinstance(self._data, memoryview):
            self._data = bytes(self._data)
        return self._data

    def head(self, size: int) -> bytes:
        """The first bytes of the text, without building the rest."""
        if self._alone is not None:
            return "\t".join(self._alone[:_DATA]).encode(self._encoding)[:size]
        return bytes(memoryview(self._data)[:size])

    def alone(self) -> Alone:
        """The fields of the only event, which is a long one.

        From here on they are all that the block holds, so that the data is in memory once; the
        text is made anew when somebody asks for it.
        """
        if self._alone is None:
            text, self._data = self._text(), b""
            fields = text.split("\t")
            del text
            fields[-1] = fields[-1][:-1]
            data = fields[_DATA]
            fields[_DATA] = ""
            self._alone = Alone(fields)
            self._alone[_DATA] = unescaped(data) or ""
        return self._alone

    def __iter__(self) -> Iterator[Event]:
        """The events.

        Raises EventError for one whose time has no date in Python (infinity), or that is no text.
        """
        new, make = tuple.__new__, unescaped
        last_text, last_time = "", datetime.min
        for line in self.lines():
            id, time, txid, retry, *texts = line.split("\t")
            if time != last_text:
                # Events of one transaction have one time.
                last_text, last_time = time, _time(time, id)
            yield new(
                Event,
                (
                    int(id),
                    last_time,
                    int(txid),
                    None if retry == r"\N" else int(retry),
                    *[x if "\\" not in x else make(x) for x in texts],
                ),
            )

    def select(self, *names: str) -> Iterator[tuple[str | None, ...]]:
        """Some fields of each event, by their names in Event, as the server's text.

        Cheaper than whole events, and values are not turned into Python's types.
        """
        positions = [_FIELDS[name] for name in names]
        for line in self.lines():
            fields = line.split("\t")
            yield tuple([unescaped(fields[position]) for position in positions])

    def lines(self) -> list[str]:
        """One text per event: the fields of Event as COPY writes them, separated by tabs.

        Raises EventError for one that is no text.
        """
        if self._alone is not None:
            return [self._alone.line()]
        lines = self._text().split("\n")
        # The last line ends with a line break, too.
        del lines[-1]
        return lines


def batch_event_sql(conn: Connection, batch_id: int) -> str:
    """The query of the events of an open batch.  Raises StateError if it is not open."""
    return str(call.value(conn, "pgq.batch_event_sql", batch_id))


def stream(
    conn: Connection,
    batch: Batch,
    *,
    query: str | None = None,
    where: str | None = None,
    block_bytes: int = BLOCK_BYTES,
    any_bytes: bool = False,
) -> Generator[EventBlock, None, None]:
    """The events of an open batch in the order of their ids, in blocks.

    query -- that of its events, where the caller knows it: one round trip less.
    where -- condition over the columns ``ev_id``, ``ev_type``, … as SQL; None for all.
    block_bytes -- a block ends with the event that makes it this long.
    any_bytes -- a database of encoding SQL_ASCII sends what is no text too: the block that has it
        names the event (``EventBlock.readable``).  Otherwise the server ends the query.

    The connection is busy until the last block was taken or the iterator is closed: it can do
    nothing else meanwhile (``batches.events`` leaves that possible, and is slower).  Closing the
    iterator early stops the query and leaves the connection as it was, also inside a
    transaction of the caller, where the reading is a savepoint.

    Raises StateError when the batch is not open, and what the database says as ours.
    """
    text = query or batch_event_sql(conn, batch.id)
    if where is not None:
        # The line breaks keep a comment at the end of the condition from swallowing the rest.
        text = "\n".join(["select * from (", text, ") as ev where (", where, ") order by 1"])
    small = batch.size_estimate <= _SMALL_BATCH
    yield from read(conn, text, block_bytes=block_bytes, any_bytes=any_bytes, small=small)


def read(
    conn: Connection,
    query: str,
    *,
    block_bytes: int = BLOCK_BYTES,
    any_bytes: bool = False,
    small: bool = False,
) -> Generator[EventBlock, None, None]:
    """What a query of events answers, as ``stream`` does it.

    small -- as ``copied``.
    """
    text = f"copy (\n{query}\n) to stdout"
    with raw_bytes(conn) if any_bytes else contextlib.nullcontext():
        yield from copied(conn, text, block_bytes=block_bytes, small=small)


def copied(
    conn: Connection, statement: str, *, block_bytes: int = BLOCK_BYTES, small: bool = False
) -> Generator[EventBlock, None, None]:
    """What a ``copy … to stdout`` writes, as ``stream`` does it.

    Of a form other than text only length, number of lines and ``data`` mean something.

    small -- the rows are one block, presumably.  All of it is read before the caller gets it, so
        two round trips are saved (``streaming``); if they are more, the statement starts again.
    """
    text = statement.encode(conn.info.encoding)
    with translated(conn, Values.APART):
        if small:
            try:
                with _undone_together(conn):
                    yield from _copy(conn, text, block_bytes, alone=True)
                return
            except _SeveralBlocks:
                pass
        with streaming(conn), _undone_together(conn):
            yield from _copy(conn, text, block_bytes)


@contextlib.contextmanager
def raw_bytes(conn: Connection) -> Iterator[None]:
    """Keeps a server of encoding SQL_ASCII from refusing bytes that are no text."""
    encoding = conn.info.parameter_status("client_encoding")
    if conn.info.parameter_status("server_encoding") != _ANY or encoding == _ANY:
        yield
        return
    conn.execute(f"set client_encoding to '{_ANY}'".encode())
    try:
        yield
    finally:
        if conn.info.transaction_status in {TransactionStatus.IDLE, TransactionStatus.INTRANS}:
            conn.execute(f"set client_encoding to '{encoding}'".encode())


def _undone_together(conn: Connection) -> AbstractContextManager[object]:
    """A savepoint where a failure would take the caller's transaction along."""
    if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        return contextlib.nullcontext()
    return savepoint(conn)


class _SeveralBlocks(Exception):
    """There are more rows than one block has."""


def _copy(
    conn: Connection, statement: bytes, block_bytes: int, *, alone: bool = False
) -> Iterator[EventBlock]:
    """The blocks.  alone -- raises _SeveralBlocks in place of a first block that others follow."""
    pgconn = conn.pgconn
    # Of a session that takes any bytes, texts are UTF-8 unless they are none.
    encoding = "utf-8" if conn.info.encoding == "ascii" else conn.info.encoding
    # In the extended protocol, where a text is one statement and never two.
    pgconn.send_query_params(statement, [])
    try:
        _begin(conn)
        parts: list[bytes | memoryview] = []
        get, add, size = pgconn.get_copy_data, parts.append, 0
        while True:
            length, row = get(1)
            if length == 0:
                length, row = conn.wait(_next(pgconn))
            if length > 0:
                if length >= block_bytes and parts:
                    if alone:
                        raise _SeveralBlocks
                    # A long event is a block alone.
                    yield _block(parts, encoding)
                    size = 0
                # Python's garbage collector looks at views again and again, never at bytes.
                add(row if length > _COPIED else bytes(row))
                # What the caller holds is all there is.
                del row
                size += length
                if size >= block_bytes:
                    if alone:
                        raise _SeveralBlocks
                    yield _block(parts, encoding)
                    size = 0
            else:
                break
        _end(conn)
        if parts:
            yield _block(parts, encoding)
    finally:
        _give_up(conn)


def _block(parts: list[bytes | memoryview], encoding: str) -> EventBlock:
    """Takes the block of these lines out of the list."""
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    block = EventBlock(data, len(parts), encoding)
    parts.clear()
    return block


def _begin(conn: Connection) -> None:
    """Waits until the server sends rows: it may sort the batch before the first."""
    results = conn.wait(generators.execute(conn.pgconn))
    for result in results:
        if result.status != ExecStatus.COPY_OUT:
            raise pg_errors.error_from_result(result, conn.info.encoding)


def _next(
    pgconn: PGconn,
) -> Generator[waiting.Wait, waiting.Ready | int, tuple[int, memoryview]]:
    """Waits for the next row or the end; psycopg's wait lets signals through.

    In one exchange, because notices that come before the row are no part of the answer.
    """
    while (found := pgconn.get_copy_data(1))[0] == 0:
        yield from _input(pgconn)
    return found


def _input(pgconn: PGconn) -> Generator[waiting.Wait, waiting.Ready | int, None]:
    while not (yield waiting.WAIT_R):
        pass
    pgconn.consume_input()


def _end(conn: Connection) -> None:
    for result in conn.wait(generators.fetch_many(conn.pgconn)):
        if result.status != ExecStatus.COMMAND_OK:
            raise pg_errors.error_from_result(result, conn.info.encoding)


def _give_up(conn: Connection) -> None:
    """Ends a running query and discards what it has sent; no effect after its end."""
    if conn.pgconn.transaction_status != TransactionStatus.ACTIVE:
        return
    try:
        conn.cancel_safe(timeout=_CANCEL_SECONDS)
        conn.wait(_rest(conn.pgconn), timeout=_CANCEL_SECONDS)
    except BaseException:
        # In the middle of a message nobody else could use the connection.
        conn.close()
        raise


def _rest(pgconn: PGconn) -> Generator[waiting.Wait, waiting.Ready | int, None]:
    while (length := pgconn.get_copy_data(1)[0]) >= 0:
        if length == 0:
            yield from _input(pgconn)
    # An error among them says what was asked for.
    yield from generators.fetch_many(pgconn)


def _is_text(data: bytes | memoryview, encoding: str) -> bool:
    """Whether the bytes are text; of a long event in pieces, so that no copy of all is made."""
    decoder = codecs.getincrementaldecoder(encoding)()
    view = memoryview(data)
    try:
        for start in range(0, len(view), _PIECE):
            decoder.decode(view[start : start + _PIECE], final=start + _PIECE >= len(view))
    except UnicodeDecodeError:
        return False
    return True


def _no_text(event_id: int, extra1: str) -> EventError:
    return EventError(
        f"event {event_id} contains bytes that are no text in UTF-8",
        detail='a database of encoding SQL_ASCII stores any bytes, and so does type "char" of'
        " PostgreSQL 14",
        hint="correct the row on the provider, and skip the event on this node: londiste events"
        f" skip {event_id}",
        event_id=event_id,
        finding=ApplyError("value", table=extra1),
    )


#: Condition for events whose times Python has a value for.
DATED = "ev_time >= '0001-01-01 00:00+00' and ev_time < '10000-01-01 00:00+00'"


def _time(text: str, id: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise EventError(
            f"event {id}: Python has no value for its time {text}",
            hint=f"exclude such events: --set consumer_filter={shlex.quote(DATED)}",
            event_id=int(id),
        ) from error
