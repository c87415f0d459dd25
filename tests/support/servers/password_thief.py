"""A server that asks for a password in clear text and keeps what it gets."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

#: Requests for encryption by TLS and by GSSAPI.
_ENCRYPTION = (80877103, 80877104)


class PasswordThief:
    """Listens on the loopback address.

    calls -- connections that came.  passwords -- what clients answered.
    """

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.calls = 0
        self.passwords: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        """Ends the server."""
        self._socket.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self.calls += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), client, client.makefile("rwb") as line:
            while struct.unpack("!i", self._packet(line)[:4])[0] in _ENCRYPTION:
                line.write(b"N")
                line.flush()
            line.write(b"R" + struct.pack("!ii", 8, 3))
            line.flush()
            if line.read(1) == b"p":
                self.passwords.append(self._packet(line).rstrip(b"\0").decode())

    @staticmethod
    def _packet(line: object) -> bytes:
        read = line.read  # type: ignore[attr-defined]
        return bytes(read(struct.unpack("!i", read(4))[0] - 4))


@contextlib.contextmanager
def password_thief() -> Iterator[PasswordThief]:
    """The server, for a with block."""
    server = PasswordThief()
    try:
        yield server
    finally:
        server.close()
