"""Server of the console: its socket, and uvicorn in a thread."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from londiste.errors import BadOption
from londiste.settings.fields import split_address

log = logging.getLogger(__name__)

#: Clients at the same time.
_MOST_CLIENTS = 96
#: Seconds for open requests at the end.
_END_SECONDS = 2
#: Bytes of the head of a request.
_LONGEST_HEAD = 16 * 1024


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
            hint="choose a free address: londiste --set listen=127.0.0.1:8458 web",
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
        # Its messages are about itself.
        logging.getLogger(name).setLevel(logging.WARNING)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",
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
