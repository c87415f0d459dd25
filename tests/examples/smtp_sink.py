"""A mail server that accepts mails and stores them."""

from __future__ import annotations

import email
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message


class Sink(socketserver.ThreadingTCPServer):
    """Speaks SMTP on a port of its own.

    ``gone@…`` is refused for good, ``busy@…`` once for now.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Session)
        self.mails: list[Message] = []
        self.tried: Counter[str] = Counter()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def verdict(self, recipient: str) -> str:
        """The answer to RCPT."""
        self.tried[recipient] += 1
        if recipient.startswith("gone@"):
            return "550 5.1.1 no such mailbox"
        if recipient.startswith("busy@") and self.tried[recipient] == 1:
            return "450 4.2.1 mailbox busy"
        return "250 ok"


class Session(socketserver.StreamRequestHandler):
    """One connection."""

    server: Sink

    def handle(self) -> None:
        self._say("220 sink")
        for line in self.rfile:
            word = line.decode().split(":")[0].strip().upper()
            if word == "RCPT TO":
                self._say(self.server.verdict(line.decode().split("<")[1].split(">")[0]))
            elif word == "DATA":
                self._say("354 go on")
                self.server.mails.append(email.message_from_bytes(b"".join(self._lines())))
                self._say("250 taken")
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _lines(self) -> Iterator[bytes]:
        for line in self.rfile:
            if line == b".\r\n":
                return
            yield line.removeprefix(b".")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def smtp_sink() -> Iterator[Sink]:
    """A running mail server."""
    with Sink() as sink:
        thread = threading.Thread(target=sink.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield sink
        finally:
            sink.shutdown()
            thread.join(30)
