"""COPY pipe between two sessions: ``COPY (…) TO STDOUT`` into ``COPY … FROM STDIN``.

No value is decoded and no row object is made.  Between sessions without encryption the bytes
go from socket to socket (``frames``); otherwise libpq returns one row per call and the pipe
joins them to blocks, which takes about four times the CPU time.

The pipe runs inside the transactions that the caller has opened and commits nothing.  The
source session is closed at the end, however it came, unless the caller wants to keep it and all
goes well.  When the pipe fails, the target's transaction is in an error state, or its session is
gone.  It waits for both sockets at once, so a side that dies is noticed while the other is silent.
A source that sends nothing for its ``answer_seconds`` and does not work is a lost connection.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import psycopg
from psycopg import errors as pg_errors
from psycopg import generators, sql
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from londiste.db import copy_protocol
from londiste.db.connection import Connection, messages_aside, whereabouts
from londiste.db.names import TableName
from londiste.db.queries import streaming, translated
from londiste.errors import LondisteError, NodeUnreachable, StateError, from_database

#: What follows a backslash in COPY's text.
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
#: Characters of a field from which on it is unescaped in pieces of that length.
_PIECE = 1 << 20
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = str.maketrans({value: f"\\{sign}" for sign, value in {**_LETTERS, "\\": "\\"}.items()})

#: Bytes collected before they are handed to the target; above this the gain is noise.
BLOCK = 256 * 1024

#: How often a waiting pipe asks whether it shall stop, in milliseconds.
_POLL_MS = 500


class Copied(NamedTuple):
    """Result of a pipe; both servers agree on the number of rows."""

    rows: int
    bytes: int


class Stopped(StateError):
    """The caller's stop request ended the pipe; nothing was written."""


def copy_out(
    table: TableName,
    columns: Sequence[str],
    *,
    where: str = "",
    binary: bool = False,
    tree: bool = False,
) -> sql.Composed:
    """The source's statement.  ``where`` is trusted SQL text over the table; ONLY its own rows.

    tree -- the table is partitioned: the rows of its partitions.
    """
    # Without columns (a table of zero columns) the query form still gives one line per row.
    query = sql.SQL("select {columns} from {table}").format(
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)), table=table.own(tree)
    )
    if where:
        query += sql.SQL(" where ") + sql.SQL(where)
    return sql.SQL("copy ({query}) to stdout (format {format})").format(
        query=query, format=_format(binary)
    )


def copy_in(table: TableName, columns: Sequence[str], *, binary: bool = False) -> sql.Composed:
    """The target's statement."""
    names: sql.Composable = sql.SQL("")
    if columns:
        names = sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Identifier, columns)))
    return sql.SQL("copy {table}{names} from stdin (format {format})").format(
        table=table.sql, names=names, format=_format(binary)
    )


def pipe(
    source: Connection,
    out: sql.Composed,
    target: Connection,
    into: sql.Composed,
    *,
    stop: Callable[[], bool] | None = None,
    pace: Callable[[int], None] | None = None,
    block: int = BLOCK,
    raw: bool | None = None,
    keep: bool = False,
    change: Callable[[bytes], bytes] | None = None,
) -> Copied:
    """Runs ``out`` on source and ``into`` on target and moves everything between them.

    stop -- asked about twice a second; when it answers true the pipe raises Stopped.
    pace -- called with the bytes so far, after every block and about twice a second; the pipe
        stands still meanwhile, and what it raises ends the pipe.
    raw -- from socket to socket; None finds out whether that is possible.
    keep -- leave the source session open, with its transaction, when the pipe has not failed.
    change -- makes of a row of ``out`` one of ``into``, both as lines of the text format.

    Raises the error of the side that failed first (``LondisteError`` of its class), never
    hangs on the other side, and leaves both transactions to be rolled back.
    """
    try:
        if change is not None:
            raw = False
        if raw is None:
            raw = copy_protocol.in_the_clear(source) and copy_protocol.in_the_clear(target)
        _start_target(target, into)
    except psycopg.Error as error:
        _close(source)
        raise from_database(error, where=whereabouts(target)) from error
    try:
        pump = _Pump(source, target, stop, pace, block, change)
        # It stands still for as long as the target, or ``pace``, takes nothing.
        with streaming(source):
            moved = pump.run_raw(out) if raw else pump.run(out)
    except (psycopg.Error, copy_protocol.TargetAnswered) as error:
        keep = False
        raise _failed(source, target, error) from error
    except BaseException:
        keep = False
        _abort(target, "the copy was stopped")
        raise
    finally:
        if not keep:
            _close(source)
    with translated(target):
        written = _finish_target(target)
    if written != moved.rows:
        raise miscounted(moved.rows, written)
    return moved


def miscounted(read: int, written: int) -> StateError:
    """The error of a copy whose target has another number of rows than were read."""
    return StateError(
        f"target wrote {written} rows, but {read} rows were read",
        detail="a trigger or a rule of the target table drops or adds rows",
        hint="check the triggers of the target that are ENABLE ALWAYS or ENABLE REPLICA",
    )


def _format(binary: bool) -> sql.SQL:
    return sql.SQL("binary") if binary else sql.SQL("text")


def _start_target(target: Connection, statement: sql.Composed) -> None:
    target.pgconn.send_query(statement.as_bytes(target))
    for result in target.wait(generators.execute(target.pgconn)):
        if result.status != ExecStatus.COPY_IN:
            raise pg_errors.error_from_result(result, target.info.encoding)
    target.pgconn.nonblocking = 1


class _Pump:
    """Moves the rows, watching both sockets and the caller's wish to stop."""

    def __init__(
        self,
        source: Connection,
        target: Connection,
        stop: Callable[[], bool] | None,
        pace: Callable[[int], None] | None,
        block: int,
        change: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.change = change
        self.source = source
        self.target = target
        self.reading = source.pgconn
        self.writing = target.pgconn
        self.stop = stop
        self.pace = pace
        self.block = block
        self.sockets = select.poll()
        self.sockets.register(self.reading.socket, select.POLLIN)
        self.sockets.register(self.writing.socket, select.POLLIN)
        coming = select.poll()
        coming.register(self.reading.socket, select.POLLIN)
        self.silence = copy_protocol.Silence(source, lambda: bool(coming.poll(0)))
        self.aside = messages_aside(source)

    def run_raw(self, statement: sql.Composed) -> Copied:
        """Moves everything without libpq's help."""
        return Copied(
            *copy_protocol.forward(
                self.source,
                statement,
                self.target,
                look_around=self.look_around,
                pause_ms=_POLL_MS,
                block=self.block,
            )
        )

    def run(self, statement: sql.Composed) -> Copied:
        """Moves everything row by row out of libpq, block by block into it."""
        self._begin(statement)
        parts: list[bytes | memoryview] = []
        get, add, block = self.reading.get_copy_data, parts.append, self.block
        change = self.change
        size = moved = 0
        while True:
            length, data = get(1)
            if length > 0:
                row = data if change is None else change(bytes(data))
                add(row)
                size += len(row)
                if size >= block:
                    _send(self.writing, b"".join(parts))
                    parts.clear()
                    moved += size
                    size = 0
                    self.look_around(moved)
            elif length == 0:
                self._wait(moved)
            else:
                break
        if parts:
            _send(self.writing, b"".join(parts))
        return Copied(_finish_source(self.source), moved + size)

    def look_around(self, moved: int = 0) -> None:
        """Raises Stopped on the caller's request; waits if the caller paces the copy."""
        if self.stop is not None and self.stop():
            raise Stopped("the copy was stopped")
        if self.pace is not None:
            self.pace(moved)

    def _begin(self, statement: sql.Composed) -> None:
        """Starts the source's COPY.

        The server may answer as late as with its first full buffer, after minutes of reading
        rows that the condition excludes.
        """
        self.reading.send_query(statement.as_bytes(self.source))
        while self.reading.flush():
            self._wait()
        while self.reading.is_busy():
            self._wait()
        result = self.reading.get_result()
        if result is None or result.status != ExecStatus.COPY_OUT:
            while (more := self.reading.get_result()) is not None:
                result = result or more
            if result is None:
                raise psycopg.OperationalError("the source sent no response")
            raise pg_errors.error_from_result(result, self.source.info.encoding)

    def _wait(self, moved: int = 0) -> None:
        """Waits for more from the source."""
        ready = self.sockets.poll(_POLL_MS)
        came = False
        for fd, _ in ready:
            if fd == self.reading.socket:
                came = True
                self.reading.consume_input()
            else:
                _listen(self.writing)
        # Of what came last time, by now libpq has read all.
        before, self.aside = self.aside, messages_aside(self.source)
        if came and before == self.aside:
            self.silence.broken()
        elif came:
            self.silence.interrupted(_POLL_MS)
            self.look_around(moved)
        elif not ready:
            self.silence.lasts(_POLL_MS)
            self.look_around(moved)


def _send(writing: PGconn, data: bytes) -> None:
    """Sends a block to the target and waits until the kernel has it, which bounds the memory."""
    writing.put_copy_data(data)
    if not writing.flush():
        return
    wait = select.poll()
    wait.register(writing.socket, select.POLLIN | select.POLLOUT)
    while writing.flush():
        for _, flags in wait.poll():
            if flags & (select.POLLIN | select.POLLHUP | select.POLLERR):
                _listen(writing)


def _listen(writing: PGconn) -> None:
    """Reads the target's messages during the stream.

    libpq keeps an error back until the stream ends; without a look at the socket the rest
    of the table would be read for nothing.  Encrypted sockets cannot be looked into: there
    the error comes at the end of the stream.
    """
    refused = False
    if not writing.ssl_in_use:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(writing.socket)) as peek:
            refused = peek.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"E"
    writing.consume_input()
    if refused:
        raise copy_protocol.TargetAnswered


def _finish_source(source: Connection) -> int:
    rows = 0
    for result in source.wait(generators.fetch_many(source.pgconn)):
        if result.status != ExecStatus.COMMAND_OK:
            raise pg_errors.error_from_result(result, source.info.encoding)
        rows = _rows(result)
    return rows


def _finish_target(target: Connection, message: bytes | None = None) -> int:
    writing = target.pgconn
    wait = select.poll()
    wait.register(writing.socket, select.POLLIN | select.POLLOUT)
    while writing.put_copy_end(message) == 0:
        wait.poll()
        writing.flush()
    while writing.flush():
        for _, flags in wait.poll():
            if flags & (select.POLLIN | select.POLLHUP | select.POLLERR):
                writing.consume_input()
    rows = 0
    failure: psycopg.Error | None = None
    for result in target.wait(generators.fetch_many(writing)):
        if result.status != ExecStatus.COMMAND_OK:
            failure = pg_errors.error_from_result(result, target.info.encoding)
        else:
            rows = _rows(result)
    writing.nonblocking = 0
    if failure is not None:
        raise failure
    return rows


def _rows(result: PGresult) -> int:
    return int(result.command_tuples or 0)


def _failed(
    source: Connection, target: Connection, error: psycopg.Error | copy_protocol.TargetAnswered
) -> LondisteError:
    """Finds the side that failed first: the other side has only a follow-up error."""
    suffered = _abort(target, "the source failed")
    target_died = target.pgconn.status != psycopg.pq.ConnStatus.OK
    if suffered is not None and (target_died or suffered.sqlstate != _OUR_ABORT):
        return from_database(suffered, where=whereabouts(target))
    if isinstance(error, copy_protocol.TargetAnswered):
        return NodeUnreachable(f"{whereabouts(target)}: the copy was interrupted")
    return from_database(error, where=whereabouts(source))


#: query_canceled: what the server answers to a stream that its client gives up.
_OUR_ABORT = "57014"


def _abort(target: Connection, reason: str) -> psycopg.Error | None:
    """Aborts the target's stream; the error that the target reports for it."""
    try:
        _finish_target(target, reason.encode())
    except psycopg.Error as error:
        return error
    return None


def _close(conn: Connection) -> None:
    with contextlib.suppress(psycopg.Error, OSError):
        conn.close()


def unescaped(text: str) -> str | None:
    """The value of a field of COPY's text; None for NULL."""
    if "\\" not in text:
        return text
    if text == r"\N":
        return None
    return _unescaped(text) if len(text) <= _PIECE else "".join(_pieces(text))


def escaped(text: str) -> str:
    """A value as COPY's text has it in a field."""
    return text.translate(_ESCAPED)


def _unescaped(text: str) -> str:
    # Nearly all escapes are backslashes and, in packed events, line breaks.
    parts = text.replace(r"\\", "\0").replace(r"\n", "\n")
    if "\\" in parts:
        return _ESCAPE.sub(_escaped, text)
    return parts.replace("\0", "\\")


def _pieces(text: str) -> Iterator[str]:
    """Unescapes a long text in parts, so that no step needs a second copy of the whole."""
    start = 0
    while start < len(text):
        piece = text[start : start + _PIECE]
        # What the server writes are escapes of two characters; one shall not be cut.
        if (len(piece) - len(piece.rstrip("\\"))) % 2:
            piece = text[start : start + _PIECE + 1]
        yield _unescaped(piece)
        start += len(piece)


def _escaped(found: re.Match[str]) -> str:
    sign = found[1]
    return _LETTERS.get(sign, sign)
