"""Server of the console: its socket, and uvicorn in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Iterator

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from londiste.errors import BadOption
from londiste.settings.fields import split_address

log = logging.getLogger(__name__)

#: Seconds for a request to arrive, and for a client to take what was sent to it.
REQUEST_SECONDS, TAKE_SECONDS = 10.0, 30.0

#: Clients at the same time.
_MOST_CLIENTS = 96
#: Seconds for open requests at the end.
_END_SECONDS = 2
#: Bytes of the head of a request.
_LONGEST_HEAD = 16 * 1024


class Protocol(H11Protocol):
    """HTTP with clients that do not take their time: a slow one is disconnected.

    Otherwise silent connections would use up the number of clients.
    """

    _arriving: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected: its request must follow."""
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        super().connection_lost(exc)
        for timer in (self._arriving, self._taking):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """A part of a request, or all of it."""
        super().data_received(data)
        self._expect_request()

    def pause_writing(self) -> None:
        """The client does not take what was sent."""
        super().pause_writing()
        self._taking = self.loop.call_later(TAKE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It has taken enough."""
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()

    def _expect_request(self) -> None:
        """Lets the time run while a request has not arrived as a whole; parts do not add to it."""
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            if self._arriving is None:
                self._arriving = self.loop.call_later(REQUEST_SECONDS, self.transport.close)
        elif self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None


def bound(address: str) -> socket.socket:
    """A socket at HOST:PORT.  Raises BadOption if the address cannot be used."""
    host, port = split_address(address)
    try:
        family, kind, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(where)
        found.listen(_MOST_CLIENTS)
    except OSError as error:
        raise BadOption(
            f"web: cannot listen on {address}: {error.strerror or error}",
            hint="choose a free address: --set listen=127.0.0.1:8458",
        ) from error
    return found


def url(listener: socket.socket) -> str:
    """The address for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.contextmanager
def serving(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """Answers requests in the with block, in a thread."""
    for name in ("uvicorn", "uvicorn.error"):
        # Its messages are about itself, and any client makes it warn.
        logging.getLogger(name).setLevel(logging.ERROR)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # What a client says of itself is not believed.
            proxy_headers=False,
            limit_concurrency=_MOST_CLIENTS,
            timeout_graceful_shutdown=_END_SECONDS,
            h11_max_incomplete_event_size=_LONGEST_HEAD,
        )
    )
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="console", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_END_SECONDS + 3)
