"""Hostile clients of the console: silent, slow, with invented headers and paths."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="needs the extra web")

from londiste.console import app, server
from londiste.console.access import Policy, proxy_of
from londiste.console.login import FREE, Logins
from tests.support.waiting import wait_for
from tests.unit.console.test_login import HASH, Browser, Start, start
from tests.unit.console.test_pages import Answers, answers, get, place, snapshot

__all__ = ["answers", "place", "start"]
#: More than the console has places for.
MANY = server._MOST_CLIENTS + 8


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(server, "TAKE_SECONDS", 0.3)


@contextlib.contextmanager
def connected(place: tuple[str, int], data: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(place, timeout=20) as client:
        client.sendall(data)
        yield client


def answers_now(place: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        return get(place, "/cascade")[0] == 200
    return False


@pytest.mark.parametrize("data", [b"", b"GET /cascade HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "])
def test_silent_clients_do_not_keep_others_out(
    impatient: None, place: tuple[str, int], data: bytes
) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(place, data)) for _ in range(MANY)]
        wait_for(lambda: answers_now(place), timeout=20, what="a page for another client")
        # Each of them was disconnected.
        for client in clients:
            with contextlib.suppress(ConnectionResetError):
                while client.recv(65536):
                    pass


def test_a_client_that_sends_byte_by_byte_is_disconnected(
    impatient: None, place: tuple[str, int]
) -> None:
    with connected(place, b"GET /cascade HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ") as client:

        def ended() -> bool:
            try:
                client.sendall(b"a")
            except OSError:
                return True
            return False

        wait_for(ended, timeout=20, what="the end of the connection")


def test_a_form_that_does_not_come_ends(impatient: None, start: Start) -> None:
    browser = start(Policy(Logins({"anna": HASH})))
    head = (
        f"POST /login HTTP/1.1\r\nHost: {browser.place[0]}\r\nOrigin: {browser.origin}\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nuser="
    )
    # The origin names the host without a port here.
    head = head.replace(f"Host: {browser.place[0]}\r\n", f"Host: {browser.origin[7:]}\r\n")
    with connected(browser.place, head.encode()) as client:
        client.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            assert b" 200 " not in client.recv(65536)
    assert browser("GET", "/login").status == 200


def test_a_page_that_is_not_read_gives_its_place_back(
    impatient: None,
    place: tuple[str, int],
    answers: Answers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "MOST_STREAMS", 1)
    # A page is larger than what the kernel keeps for a client.
    answers.found = snapshot("q" * 3_000_000)
    request = b"GET /live/cascade HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connected(place, request):

        def live() -> int:
            conn = http.client.HTTPConnection(*place, timeout=20)
            try:
                conn.request("GET", "/live/cascade")
                return conn.getresponse().status
            except ConnectionResetError:
                # On a busy machine this client reads too late as well.
                return 0
            finally:
                conn.close()

        wait_for(lambda: live() == 503, timeout=20, what="the place to be taken")
        wait_for(lambda: live() == 200, timeout=20, what="the place to be free")


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
def test_an_invented_address_is_not_another_client(start: Start, header: str) -> None:
    browser = start(Policy(Logins({"anna": HASH})))

    def log_in(number: int) -> int:
        address = f"10.0.0.{number}" if header != "Forwarded" else f"for=10.0.0.{number}"
        form = {"user": f"name{number}", "password": "wrong"}
        return browser("POST", "/login", form, **{header.replace("-", "_"): address}).status

    assert [log_in(number) for number in range(FREE)] == [401] * FREE
    assert log_in(FREE) == 429


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd",
        "/static//etc/passwd",
        "/static/..\\app.py",
        "/static/%00",
        "/static/",
        "/api/v1/../../static/../app.py",
    ],
)
def test_a_path_does_not_leave_the_static_files(place: tuple[str, int], path: str) -> None:
    status, _, text = get(place, path)
    assert status in (400, 404), text
    assert "import" not in text and "root:" not in text


@pytest.mark.parametrize(
    ("request_line", "hosts"),
    [
        ("GET /cascade", ["127.0.0.1", "evil.example.org"]),
        ("GET /cascade", ["evil.example.org", "127.0.0.1"]),
        ("GET /cascade", ["evil.example.org"]),
        ("GET /cascade", []),
        ("GET /cascade", ["127.0.0.1, evil.example.org"]),
    ],
)
def test_a_request_names_one_known_host(
    place: tuple[str, int], request_line: str, hosts: list[str]
) -> None:
    lines = "".join(f"Host: {host}\r\n" for host in hosts)
    data = f"{request_line} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode()
    with connected(place, data) as client:
        answer = client.makefile("rb").read().decode()
    assert answer.split()[1] in ("400", "421"), answer
    assert "<html" not in answer


def test_another_site_does_not_start_a_dry_run(start: Start) -> None:
    """With a proxy that names the user, the browser sends no cookie that could be withheld."""
    proxy = proxy_of("X-Remote-User", ["127.0.0.1"])
    browser = start(Policy(proxy=proxy))
    path = "/action/pause?node=leaf"
    for site in ("cross-site", "same-site"):
        answer = browser("GET", path, X_Remote_User="anna", Sec_Fetch_Site=site)
        assert answer.status == 403
        # Pages that only read may be linked.
        assert browser("GET", "/tables", X_Remote_User="anna", Sec_Fetch_Site=site).status == 200
    for headers in ({}, {"Sec_Fetch_Site": "none"}, {"Sec_Fetch_Site": "same-origin"}):
        answer = browser("GET", path, X_Remote_User="anna", **headers)
        assert "Pause the worker" in answer.text  # type: ignore[attr-defined]


def test_a_cookie_that_was_planted_is_no_session(start: Start) -> None:
    browser = start(Policy(Logins({"anna": HASH})))
    victim = Browser(browser.place)
    victim.cookie = "londiste=planted"
    assert victim.log_in().status == 303
    attacker = Browser(browser.place)
    for cookie in ("londiste=planted", "londiste=", "londiste=planted; londiste=planted"):
        attacker.cookie = cookie
        assert attacker("GET", "/api/v1/cascade").status == 401
    # Nor does the session of one user let another one's form through.
    other = Browser(browser.place)
    assert other.log_in().status == 303
    form = {"node": "leaf", "token": other.token()}
    assert victim("POST", "/action/pause", form).status == 403
    victim.cookie = ""
    assert victim("POST", "/action/pause", form).status == 303


def test_an_invalid_request_writes_nothing_into_the_log(
    place: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    for data in (b"\x00\xff\r\n\r\n", b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"):
        with connected(place, data) as client, contextlib.suppress(ConnectionResetError):
            client.recv(65536)
    assert answers_now(place)
    assert [one.getMessage() for one in caplog.records] == []
