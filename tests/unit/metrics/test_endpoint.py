"""The endpoint of a daemon: hostile clients, its address, and one collection for all clients."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.cascadefile.daemons import refuse_shared
from londiste.errors import BadOption
from londiste.metrics import endpoint as module
from londiste.metrics import exposition
from londiste.metrics.cache import Cache
from londiste.metrics.endpoint import Endpoint, Response, listening
from londiste.settings import TickerSettings, load
from londiste.settings.fields import MetricsFields, split_address
from londiste.settings.hosts import is_scrape
from tests.support.waiting import wait_for


def fails() -> Response:
    raise ValueError("password=secret")


@pytest.fixture
def served() -> Iterator[tuple[str, int]]:
    endpoint = Endpoint("127.0.0.1:0")
    endpoint.serve({"/metrics": lambda: Response(b"a 1\n"), "/fails": fails})
    yield endpoint.socket.getsockname()
    endpoint.close()


def ask(place: tuple[str, int], request: bytes) -> bytes:
    """The answer to the bytes of a request, until the server closes the connection."""
    with socket.create_connection(place, timeout=60) as conn:
        with contextlib.suppress(OSError):
            conn.sendall(request)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while part := conn.recv(65536):
                found += part
        return found


def test_known_paths_are_answered(served: tuple[str, int]) -> None:
    conn = http.client.HTTPConnection(*served, timeout=60)
    conn.request("GET", "/metrics?x=1")
    answer = conn.getresponse()
    assert (answer.status, answer.read()) == (200, b"a 1\n")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert b"a 1" not in ask(served, b"HEAD /metrics HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b'GET /metrics HTTP/1.1\r\nHost: evil.example"><script>\r\n\r\n', b"421"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: evil.example\r\n\r\n", b"421"),
        (b"GET /../../etc/passwd<script> HTTP/1.1\r\n\r\n", b"404"),
        (b"GET //evil.example/metrics HTTP/1.1\r\n\r\n", b"404"),
        (b"GET http://evil.example/metrics HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics%0d%0aX-Evil:1 HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\nevil=1234", b"501"),
        (b"EVIL<script> / HTTP/1.1\r\n\r\n", b"501"),
        (b"GET /evil HTTP/9.9\r\n\r\n", b"505"),
        (b"evil\r\n\r\n", b"400"),
        (b"GET /" + b"e" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET /metrics HTTP/1.1\r\n" + b"X-Evil: 1\r\n" * 200 + b"\r\n", b"431"),
        (b"GET /fails HTTP/1.1\r\n\r\n", b"500"),
    ],
)
def test_nothing_of_a_hostile_request_is_repeated(
    served: tuple[str, int], request_: bytes, code: bytes
) -> None:
    answer = ask(served, request_)
    # An old form of request has an answer without a head.
    assert answer.split(b" ")[1] == code if answer.startswith(b"HTTP/") else answer
    assert not any(word in answer.lower() for word in (b"evil", b"script", b"eee", b"secret"))
    assert b"python" not in answer.lower()


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ("10.0.0.7:9187", True),
        ("[::1]:9187", True),
        ("db1.example.com:9187", True),
        ("DB1.Example.com.", True),
        # Compose, Kubernetes, the network at home.
        ("londiste:9187", True),
        ("londiste.monitoring.svc:9187", True),
        ("londiste.monitoring.svc.cluster.local:9187", True),
        ("ip-10-0-0-7.eu-west-1.compute.internal:9187", True),
        ("own.example.net:9187", True),
        ("evil.example.com:9187", False),
        ("db1.example.com.evil.example", False),
        ("londiste@evil.example", False),
        ("local", True),
        ("[::1", False),
        ("", False),
    ],
)
def test_a_scrape_names_this_host_or_a_name_that_no_site_has(header: str, known: bool) -> None:
    assert is_scrape(header, ["db1.Example.com"], lambda: ["own.example.net"]) is known


REQUEST = b"GET /metrics HTTP/1.0\r\n\r\n"


def test_clients_that_are_answered_are_bounded() -> None:
    asked, end = threading.Semaphore(0), threading.Event()

    def slow() -> Response:
        asked.release()
        end.wait(60)
        return Response(b"slow\n")

    endpoint = Endpoint("127.0.0.1:0")
    endpoint.serve({"/metrics": lambda: Response(b"a 1\n"), "/slow": slow})
    place = endpoint.socket.getsockname()
    with contextlib.ExitStack() as clients, contextlib.closing(endpoint):
        waiting = []
        for _ in range(module.MOST_CLIENTS):
            waiting.append(clients.enter_context(socket.create_connection(place, timeout=60)))
            waiting[-1].sendall(b"GET /slow HTTP/1.0\r\n\r\n")
            assert asked.acquire(timeout=60)
        assert ask(place, REQUEST) == b""
        end.set()
        for client in waiting:
            assert b"slow" in client.makefile("rb").read()
        wait_for(lambda: b"a 1" in ask(place, REQUEST), what="a free place")


def test_slow_clients_keep_nobody_out(served: tuple[str, int]) -> None:
    with contextlib.ExitStack() as clients:
        slow = []
        for _ in range(3 * module.MOST_CLIENTS):
            slow.append(clients.enter_context(socket.create_connection(served, timeout=60)))
            slow[-1].sendall(b"GET /metr")
        assert b"a 1" in ask(served, REQUEST)
        # The oldest has given its place away.
        assert slow[0].recv(1) == b""


def test_a_request_has_a_time_however_often_a_byte_comes(
    served: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLIENT_SECONDS", 0.3)
    with socket.create_connection(served, timeout=60) as client:

        def dripped() -> bool:
            try:
                client.sendall(b"x")
                client.settimeout(0.01)
                return client.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_for(dripped, what="the end of the connection", timeout=20)


def test_an_address_in_use_is_one_line() -> None:
    first = Endpoint("127.0.0.1:0")
    port = first.socket.getsockname()[1]
    with pytest.raises(BadOption, match=f"cannot listen on 127.0.0.1:{port}: ") as error:
        Endpoint(f"127.0.0.1:{port}")
    assert "--set metrics=" in error.value.hint
    first.close()
    Endpoint(f"127.0.0.1:{port}").close()
    with pytest.raises(BadOption, match=r"cannot listen on host\.invalid:1: "):
        Endpoint("host.invalid:1")


def test_without_the_package_the_hint_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(BadOption, match="prometheus-client is not installed") as error:
        exposition.require()
    assert error.value.hint == 'pip install "londiste4[web]"'
    with pytest.raises(BadOption), listening(MetricsFields(metrics="127.0.0.1:0")):
        pass
    with listening(MetricsFields()) as nothing:
        assert nothing is None


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:9187", ("127.0.0.1", 9187)), ("[::1]:0", ("::1", 0)), ("db1:80", ("db1", 80))],
)
def test_addresses(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["9187", ":9187", "::1:9187", "a:b", "a:70000", "a:", "a:-1"])
def test_wrong_addresses(address: str, tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text(f"[ticker]\nmetrics = {json.dumps(address)}\n")
    with pytest.raises(BadOption, match=r"t\.toml:2: metrics: .*not an address HOST:PORT"):
        load(TickerSettings, file)


def test_daemons_of_one_process_have_their_own_addresses() -> None:
    refuse_shared(Path("f"), [("[run]", "a:1"), ("[ticker]", ""), ("x", ""), ("y", "a:2")])
    with pytest.raises(BadOption, match=r"f: metrics = a:1 in \[run\] and in y"):
        refuse_shared(Path("f"), [("[run]", "a:1"), ("[ticker]", ""), ("y", "a:1")])


# -- one collection for all clients ---------------------------------------------------------------


def in_threads(number: int, call: Callable[[], object]) -> list[object]:
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(call())) for _ in range(number)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    return found


def test_clients_at_the_same_time_share_one_collection() -> None:
    calls: list[int] = []
    gate = threading.Event()

    def collect() -> int:
        calls.append(1)
        assert gate.wait(30)
        return len(calls)

    cache = Cache(collect, fresh=60.0)
    threading.Timer(0.1, gate.set).start()
    found = in_threads(20, lambda: cache.get().value)
    assert (found, calls) == ([1] * 20, [1])
    assert cache.get().value == 1
    assert len(calls) == 1


def test_a_collection_that_hangs_holds_no_client_and_is_not_repeated() -> None:
    gates = [threading.Event(), threading.Event()]
    calls: list[int] = []

    def collect() -> int:
        calls.append(1)
        assert gates[len(calls) - 1].wait(30)
        return len(calls)

    gates[0].set()
    cache = Cache(collect, fresh=0.0, patience=0.1)
    first = cache.get()
    assert (first.value, first.ok) == (1, True)
    late = cache.get(), cache.get()
    assert [(one.value, one.ok) for one in late] == [(1, False)] * 2
    assert len(calls) == 2
    gates[1].set()


def test_a_value_that_is_too_old_is_not_shown() -> None:
    answers: list[int | None] = [7, None]

    def collect() -> int:
        found = answers.pop(0)
        if found is None:
            raise BadOption("gone")
        return found

    cache = Cache(collect, fresh=0.0, oldest=0.0)
    cache.get()
    failed = cache.get()
    assert (failed.value, failed.ok) == (None, False)
