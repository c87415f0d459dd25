"""Endpoint: a small HTTP server in threads of a daemon, for ``/metrics`` and health checks.

It answers GET and HEAD of known paths, repeats nothing of a request, and holds a bounded number of
clients for a bounded time.  Slow clients keep no other one out: one that has not sent its request
yet gives its place to the next client.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from londiste.daemon.loop import as_londiste, describe
from londiste.errors import BadOption
from londiste.settings.fields import MetricsFields, split_address
from londiste.settings.hosts import is_scrape, own_names

log = logging.getLogger(__name__)

#: Clients at the same time; others are disconnected.
MOST_CLIENTS = 16
#: Seconds that a client has to send its request, and then to take the answer.
CLIENT_SECONDS = 5.0
#: Seconds until a thread whose client was disconnected has ended.
_LEAVE_SECONDS = 1.0
#: Seconds until the next attempt after the system had no room for a client.
_NO_ROOM_SECONDS = 1.0
_UNKNOWN = b"unknown host: use an address, or add the name to metrics_hosts\n"


@dataclass(frozen=True)
class Response:
    """Answer to a request."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    type: str = "text/plain; charset=utf-8"


Routes = Mapping[str, Callable[[], Response]]


class Endpoint:
    """A listening socket, and the server on it once ``serve`` is called.

    hosts -- names by which requests may reach it, besides those that ``is_scrape`` knows.

    Raises BadOption if the address cannot be used.
    """

    def __init__(self, address: str, hosts: Collection[str] = ()) -> None:
        host, port = split_address(address)
        self._hosts = (host, *hosts)
        try:
            family, kind, _, _, where = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self.socket = socket.socket(family, kind)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(where)
            self.socket.listen(MOST_CLIENTS)
        except OSError as error:
            raise BadOption(
                f"metrics: cannot listen on {address}: {error.strerror or error}",
                hint="choose a free address: --set metrics=127.0.0.1:9188",
            ) from error

    @property
    def url(self) -> str:
        """The address for a browser."""
        host, port = self.socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def serve(self, routes: Routes) -> None:
        """Answers requests from now on, in threads."""
        server = _Server(self.socket, routes, self._hosts)
        threading.Thread(target=server.accept_all, name="endpoint", daemon=True).start()
        log.info("metrics at %s/metrics", self.url)

    def close(self) -> None:
        """Stops answering."""
        with contextlib.suppress(OSError):
            # Ends the wait for a client.
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@contextlib.contextmanager
def listening(settings: MetricsFields, *, once: bool = False) -> Iterator[Endpoint | None]:
    """The endpoint of the settings; None without one, and for a process that ends by itself."""
    if once or not settings.metrics:
        yield None
        return
    from londiste.metrics import exposition

    exposition.require()
    endpoint = Endpoint(settings.metrics, settings.metrics_hosts)
    try:
        yield endpoint
    finally:
        endpoint.close()


class _Server(socketserver.ThreadingMixIn, socketserver.BaseServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, routes: Routes, hosts: Collection[str]) -> None:
        class Handler(_Handler):
            pass

        Handler.routes, Handler.hosts = routes, hosts
        super().__init__(listener.getsockname(), Handler)
        self.socket = listener
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        #: Clients that have not sent their whole request, the oldest first.
        self.asking: dict[socket.socket, None] = {}

    def accept_all(self) -> None:
        """Accepts clients until the socket is closed; does not wake up between them."""
        while self.socket.fileno() >= 0:
            try:
                request, address = self.socket.accept()
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    return
                time.sleep(_NO_ROOM_SECONDS)
                continue
            try:
                self.process_request(request, address)
            except Exception:
                # No thread could be started.
                self.handle_error(request, address)
                self.shutdown_request(request)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False) and not self._make_room():
            self.shutdown_request(request)
            return
        self.asking[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.asking.pop(request, None)
            self._places.release()
            raise

    def _make_room(self) -> bool:
        """Disconnects the client that has been sending its request for the longest time."""
        for slow in list(self.asking):
            with contextlib.suppress(OSError):
                slow.shutdown(socket.SHUT_RDWR)
            return self._places.acquire(timeout=_LEAVE_SECONDS)
        return False

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.asking.pop(request, None)
            self._places.release()

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_WR)
        request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # The client has gone away.
        log.debug("metrics: a request failed", exc_info=True)


class _RequestBytes(socket.SocketIO):
    """The bytes of a client, all within a time: not so long for each of them."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, "r")
        self._client = sock
        self._end = time.monotonic() + CLIENT_SECONDS

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._client.settimeout(left)
        return super().readinto(buffer)


class _Handler(BaseHTTPRequestHandler):
    server_version = "londiste"
    sys_version = ""
    routes: ClassVar[Routes] = {}
    hosts: ClassVar[Collection[str]] = ()

    server: _Server

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_RequestBytes(self.connection))

    def do_GET(self) -> None:
        self._answer(self._response())

    def do_HEAD(self) -> None:
        self._answer(self._response())

    def _response(self) -> Response:
        self.server.asking.pop(self.connection, None)
        # Browsers always name one.
        for host in self.headers.get_all("Host", []):
            if not is_scrape(host, self.hosts, own_names):
                return Response(_UNKNOWN, HTTPStatus.MISDIRECTED_REQUEST)
        route = self.routes.get(self.path.partition("?")[0])
        if route is None:
            return Response(b"not found\n", HTTPStatus.NOT_FOUND)
        try:
            return route()
        except Exception as error:
            log.warning("metrics: %s", describe(as_londiste(error)))
            return Response(b"internal error\n", HTTPStatus.INTERNAL_SERVER_ERROR)

    def _answer(self, response: Response) -> None:
        self.connection.settimeout(CLIENT_SECONDS)
        self.send_response(response.status)
        self.send_header("Content-Type", response.type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers a request that cannot be understood; nothing of it is repeated."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._answer(Response(f"{status.phrase.lower()}\n".encode(), status))

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""
