"""COPY protocol: forwards the frames of a stream from one socket to another unparsed.

libpq hands out a COPY one row per call, which costs a client more than the copying itself.
But the frame around a row (``d``, length, bytes) is the same in both directions.  So where
nobody encrypts, whole frames go from the source's socket to the target's as they came; the
only work per row is to step over it, so that no other message slips through.

The reader takes over a session behind libpq's back.  So that libpq knows how it ended, it gets the
messages about the whole stream afterwards, through a pair of sockets that stands in for the
server's: then the session can be used again.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import psycopg
from psycopg import errors as pg_errors
from psycopg import sql
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn

from londiste.db.connection import Connection, end_if_silent
from londiste.db.queries import query

_HEADER = struct.Struct(">BI")
_DATA = ord("d")
#: What libpq gets to know of a stream: that it began, that it ended, and what was done.
_ANSWERS = frozenset(b"HcCZ")


class Sent(NamedTuple):
    """A finished stream: rows as the source counted them, bytes without the frames."""

    rows: int
    bytes: int


class TargetAnswered(Exception):
    """The target has sent a message in mid-stream that only its session can read."""


class Silence:
    """How long a session has sent nothing of its stream while it was waited for; ends a lost one.

    waiting -- returns at once whether something has come, without reading it.
    """

    def __init__(self, conn: Connection, waiting: Callable[[], bool]) -> None:
        self._conn = conn
        self._waiting = waiting
        self._ms = 0.0
        #: Messages have come since, and when.
        self._aside: float | None = None

    def broken(self) -> None:
        """A part of the stream has come."""
        self._ms, self._aside = 0.0, None

    def lasts(self, pause_ms: float) -> None:
        """Nothing has come for so long.  Raises psycopg.OperationalError (``end_if_silent``)."""
        self._ms += pause_ms
        heard = self._aside is not None
        if end_if_silent(self._conn, self._ms / 1000, self._waiting, heard=heard):
            self.broken()

    def interrupted(self, longest_ms: int) -> None:
        """Messages have come that are no part of the stream.  Raises as ``lasts``.

        longest_ms -- the longest wait for them; other work than waiting does not count.
        """
        now = time.monotonic()
        passed = 0.0 if self._aside is None else min((now - self._aside) * 1000, longest_ms)
        self._aside = now
        self.lasts(passed)


def in_the_clear(conn: Connection) -> bool:
    """Whether the socket of this session carries plain protocol messages.

    False with TLS and with GSSAPI encryption.
    """
    if conn.pgconn.ssl_in_use:
        return False
    if (conn.info.host or "/").startswith(("/", "@")):
        return True
    row = conn.execute(query("session_is_encrypted")).fetchone()
    return row is not None and not row[0]


def forward(
    source: Connection,
    statement: sql.Composed,
    target: Connection,
    *,
    look_around: Callable[[int], None],
    pause_ms: int,
    block: int,
) -> Sent:
    """Runs a ``COPY … TO STDOUT`` on source, and sends its frames to target, which is in COPY.

    look_around -- called with the bytes so far, after every block and every ``pause_ms`` while
        nothing comes; what it raises ends the stream between two frames.

    Raises the source's error (psycopg.Error), or TargetAnswered; the target has then got whole
    frames only, so that its session can end the COPY as usual.
    """
    source.pgconn.send_query(statement.as_bytes(source))
    while source.pgconn.flush():
        select.select([], [source.pgconn.socket], [])
    with (
        socket.socket(fileno=os.dup(source.pgconn.socket)) as incoming,
        socket.socket(fileno=os.dup(target.pgconn.socket)) as outgoing,
    ):
        stream = _Stream(source, incoming, outgoing, target.pgconn, look_around, pause_ms, block)
        stream.run()
    _tell_libpq(source, stream.answers)
    return Sent(stream.rows, stream.bytes)


def _tell_libpq(source: Connection, answers: bytes) -> None:
    """Has libpq read what the server has answered to the COPY, as if no row had come.

    answers -- from CopyOutResponse to ReadyForQuery, which is the last there is.  They are some
        kilobytes at most, so they go into the socket at once.

    Raises psycopg.Error when the session cannot be used any more.
    """
    libpq = source.pgconn.socket
    with contextlib.ExitStack() as stack:
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        stack.enter_context(theirs)
        theirs.setblocking(False)
        ours.sendall(answers)
        server = os.dup(libpq)
        stack.callback(os.close, server)
        stack.callback(os.dup2, server, libpq, inheritable=False)
        os.dup2(theirs.fileno(), libpq, inheritable=False)
        source.pgconn.consume_input()
        while True:
            # It must never wait: nothing more will come from this socket.
            if source.pgconn.is_busy():
                raise psycopg.OperationalError("the end of a COPY stream is incomplete")
            result = source.pgconn.get_result()
            if result is None:
                return
            if result.status == ExecStatus.COPY_OUT and source.pgconn.get_copy_data(1)[0] != -1:
                raise psycopg.OperationalError("the end of a COPY stream is incomplete")


class _Stream:
    """State between two reads: a buffer with frames, the last one possibly incomplete."""

    def __init__(
        self,
        source: Connection,
        incoming: socket.socket,
        outgoing: socket.socket,
        target: PGconn,
        look_around: Callable[[int], None],
        pause_ms: int,
        block: int,
    ) -> None:
        self.incoming = incoming
        self.outgoing = outgoing
        self.target = target
        self.look_around = look_around
        self.pause_ms = pause_ms
        self.buffer = bytearray(max(block, 8192))
        self.filled = 0
        self.sockets = select.poll()
        self.sockets.register(incoming, select.POLLIN)
        self.sockets.register(outgoing, select.POLLIN)
        coming = select.poll()
        coming.register(incoming, select.POLLIN)
        self.silence = Silence(source, lambda: bool(coming.poll(0)))
        self.room = select.poll()
        self.room.register(outgoing, select.POLLIN | select.POLLOUT)
        self.rows = 0
        self.bytes = 0
        #: The messages of ``_ANSWERS``, as they came; notices may be many.
        self.answers = b""
        self._failure: psycopg.Error | None = None
        #: The last messages had one that is no part of the stream.
        self._is_aside = False

    def run(self) -> None:
        """Reads until the source is ready for the next command."""
        finished = False
        while not finished:
            self._fill()
            self._is_aside = False
            finished = self._digest()
            if self._is_aside:
                self.silence.interrupted(self.pause_ms)
                self.look_around(self.bytes)
            else:
                self.silence.broken()
        if self._failure is not None:
            raise self._failure

    def _fill(self) -> None:
        """Reads until the buffer is full or no more data is available."""
        got = False
        while self.filled < len(self.buffer):
            try:
                count = self.incoming.recv_into(
                    memoryview(self.buffer)[self.filled :], 0, socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                if got:
                    return
                self._wait()
                continue
            except OSError as error:
                raise psycopg.OperationalError(f"connection lost: {error.strerror}") from error
            if count == 0:
                # After a FATAL error the server closes at once.
                raise self._failure or psycopg.OperationalError(
                    "server closed the connection unexpectedly"
                )
            self.filled += count
            got = True

    def _digest(self) -> bool:
        """Sends the whole frames of the buffer; true when the source has finished.

        The inner loop is the cost of a copy: one step per row.
        """
        buffer, filled = self.buffer, self.filled
        unpack, last_header = _HEADER.unpack_from, self.filled - _HEADER.size
        position = 0
        while True:
            start = frame = position
            frames, kind, length = -1, _DATA, 0
            while kind == _DATA and position <= last_header:
                kind, length = unpack(buffer, position)
                frame = position
                position += length + 1
                frames += 1
            if position <= last_header + _HEADER.size and kind == _DATA:
                # Nothing but rows; at the end at most a part of a header.
                self._send(start, position, frames + 1)
                return self._keep(position, _HEADER.size)
            # The last frame is another message, or only a part of it is there.
            self._send(start, frame, frames)
            if position > filled:
                return self._keep(frame, length + 1)
            if kind in _ANSWERS:
                self.answers += buffer[frame:position]
            if self._message(kind, bytes(buffer[frame + _HEADER.size : position])):
                # Should the server have said more since, that is libpq's.
                self.answers += buffer[position:filled]
                return True

    def _keep(self, start: int, needed: int) -> bool:
        """The bytes from ``start`` on stay until their frame is complete."""
        rest = self.filled - start
        if needed > len(self.buffer):
            # One row larger than the buffer: memory is bounded by the largest row.
            grown = bytearray(needed + 8192)
            with memoryview(self.buffer) as old:
                grown[:rest] = old[start : self.filled]
            self.buffer = grown
        elif start:
            with memoryview(self.buffer) as buffer:
                # Overlapping is fine.  A row that comes in thousands of pieces is not moved again.
                buffer[:rest] = buffer[start : self.filled]
        self.filled = rest
        return False

    def _send(self, start: int, end: int, frames: int) -> None:
        if start == end:
            return
        self.bytes += end - start - frames * _HEADER.size
        refused = False
        block = memoryview(self.buffer)[start:end]
        while block:
            try:
                block = block[self.outgoing.send(block, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                # Whatever the target says, it gets the whole block: half a frame would make
                # it wait for the other half for ever.
                refused = self._listen(self.room.poll()) or refused
            except OSError as error:
                raise TargetAnswered from error
        if self._listen(self.sockets.poll(0)) or refused:
            raise TargetAnswered
        self.look_around(self.bytes)

    def _wait(self) -> None:
        ready = self.sockets.poll(self.pause_ms)
        if self._listen(ready):
            raise TargetAnswered
        if not ready:
            self.silence.lasts(self.pause_ms)
            self.look_around(self.bytes)

    def _listen(self, ready: Sequence[tuple[int, int]]) -> bool:
        """Reads the target's messages; true for an error or the end.

        It has to be read: a server that cannot get rid of its notices stops reading rows.
        """
        if not any(fd == self.outgoing.fileno() and flags & ~select.POLLOUT for fd, flags in ready):
            return False
        try:
            first = self.outgoing.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            self.target.consume_input()
            self.target.is_busy()
        except BlockingIOError:
            return False
        except (OSError, psycopg.Error):
            return True
        return first in {b"E", b""}

    def _message(self, kind: int, body: bytes) -> bool:
        """Handles a message other than a row; true for the last one, ReadyForQuery."""
        match chr(kind):
            case "Z":
                return True
            case "C":
                # COPY 123
                self.rows = int(body.rstrip(b"\0").split()[-1])
            case "E":
                self._failure = _error(body)
            case "N" | "S" | "A":
                self._is_aside = True
            case "H" | "c":
                pass
            case other:
                raise psycopg.OperationalError(f"unexpected message {other!r} in a COPY stream")
        return False


def _error(body: bytes) -> psycopg.Error:
    """The exception for an ErrorResponse: fields of one letter and a text."""
    fields = {part[0]: part[1:] for part in body.split(b"\0") if part}
    text = fields.get(ord("M"), b"unknown error").decode("utf-8", "replace")
    try:
        kind = pg_errors.lookup(fields.get(ord("C"), b"").decode("ascii", "replace"))
    except KeyError:
        kind = psycopg.DatabaseError
    return kind(text, info=dict(fields), encoding="utf-8")
