"""A server that lets everybody in, and answers the first statement by messages without end."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import BinaryIO

#: Requests for encryption by TLS and by GSSAPI.
_ENCRYPTION = (80877103, 80877104)


def message(kind: str, body: bytes = b"") -> bytes:
    """A message of the protocol."""
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


NOTICE = message("N", b"SNOTICE\0VNOTICE\0C00000\0Mwait\0\0")
PARAMETER = message("S", b"application_name\0x\0")
NOTIFICATION = message("A", struct.pack("!i", 7) + b"pgq_tick\0q\0")
ROW = message("D", struct.pack("!hi", 1, 100) + b"x" * 100)
#: The beginning of an answer with rows, and of a COPY.
ROWS = message("T", struct.pack("!h", 1) + b"c\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0))
COPY = message("H", struct.pack("!bhh", 0, 1, 0))
_PARSED = message("1") + message("2")
_HELLO = (
    message("R", struct.pack("!i", 0))
    + message("S", b"client_encoding\0UTF8\0")
    + message("S", b"server_version\x0017.0\0")
    + message("K", struct.pack("!ii", 42, 7))
    + message("Z", b"I")
)


class ChattyServer:
    """Listens on the loopback address.

    first -- how each answer begins.  then -- what comes after it, with that pause in seconds.
    enough -- it closes the connection.
    """

    def __init__(self, then: bytes, first: bytes, pause: float) -> None:
        self._first, self._then, self._pause = first, then, pause
        self.enough = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        port = self._socket.getsockname()[1]
        self.dsn = f"host=127.0.0.1 port={port} user=u dbname=x sslmode=disable"
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        """Ends the server."""
        self.enough.set()
        self._socket.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), client, client.makefile("rb") as line:
            while struct.unpack("!i", _body(line)[:4])[0] in _ENCRYPTION:
                client.sendall(b"N")
            client.sendall(_HELLO)
            kind = line.read(1)
            while kind not in (b"Q", b"S"):
                # Up to Sync, in the extended protocol.
                _body(line)
                kind = line.read(1)
            client.sendall((_PARSED if kind == b"S" else b"") + self._first)
            several = self._then * (1 if self._pause else 1 + 65_536 // len(self._then))
            while not self.enough.wait(self._pause):
                client.sendall(several)


def _body(line: BinaryIO) -> bytes:
    return line.read(struct.unpack("!i", line.read(4))[0] - 4)


@contextlib.contextmanager
def chatty_server(then: bytes, *, first: bytes = b"", pause: float = 0.0) -> Iterator[ChattyServer]:
    """The server, for a with block."""
    server = ChattyServer(then, first, pause)
    try:
        yield server
    finally:
        server.close()
