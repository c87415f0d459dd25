"""Receiver of webhooks: a real HTTP server that keeps what it gets, and refuses on request."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Got:
    """A request: path, headers in lower case, and body."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """status -- of the answers; 0: none.  got -- accepted requests, refused -- all others.

    longest -- bytes of a body; longer ones are answered by 413.
    """

    url: str
    status: int = 204
    longest: int = 1_000_000
    headers: dict[str, str] = field(default_factory=dict)
    got: list[Got] = field(default_factory=list)
    refused: list[Got] = field(default_factory=list)

    def events(self) -> list[tuple[str, str, str | None]]:
        """Event, kind and node of each accepted message."""
        found = [one.message for one in self.got]
        return [(m["event"], m["finding"]["kind"], m["finding"]["node"]) for m in found]


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """A server for the length of a with block."""
    end = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {key.lower(): value for key, value in self.headers.items()}
            one = Got(self.path, headers, data)
            if found.status == 0:
                found.refused.append(one)
                end.wait(30)
                return
            status = found.status if len(data) <= found.longest else 413
            (found.got if 200 <= status < 300 else found.refused).append(one)
            self.send_response(status)
            for key, value in found.headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            found.refused.append(Got(self.path, {}, b""))
            self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        end.set()
        server.shutdown()
        thread.join()
        server.server_close()
