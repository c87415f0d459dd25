"""Login of the console: hashes, sessions, limits, forms of other sites, and a proxy's header."""

from __future__ import annotations

import contextlib
import html
import http.client
import re
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from urllib.parse import urlencode

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.console import login, server
from londiste.console.access import Policy, Proxy, cookie, next_page, proxy_of
from londiste.console.actions import ACTIONS
from londiste.console.app import Console
from londiste.console.history import History
from londiste.console.login import FREE, LONGEST_SECONDS, Limiter, Logins, hashed, users_of
from londiste.console.render import Renderer
from londiste.console.watch import Watch
from londiste.errors import BadOption
from londiste.settings import WebSettings
from tests.support.waiting import wait_for
from tests.unit.console.test_pages import snapshot

PASSWORD = "correct horse 🔑"
with pytest.MonkeyPatch.context() as cheap:
    # As it is by default, each attempt takes a tenth of a second.
    cheap.setattr(login, "_COST", 2**10)
    HASH = hashed(PASSWORD)


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_hash_fits_its_password_only_and_is_salted() -> None:
    assert HASH.startswith("scrypt$")
    assert hashed(PASSWORD) != HASH
    assert login.matches(HASH, PASSWORD)
    for wrong in ("", "correct horse", PASSWORD + " "):
        assert not login.matches(HASH, wrong)
    logins = Logins({"anna": HASH})
    assert logins.verify("anna", PASSWORD)
    assert not logins.verify("anna", "x")
    # An unknown user with the password of another one.
    assert not logins.verify("otto", PASSWORD)
    assert not Logins({}).verify("", "")


@pytest.mark.parametrize(
    "line",
    ["", "anna", "anna:secret-word", f":{HASH}", f"a b:{HASH}", f"a\n:{HASH}",
     f"anna:{HASH.replace('$8$', '$999$')}", f"anna:{HASH[:-30]}"],
    ids=range(8),
)  # fmt: skip
def test_a_wrong_line_of_a_user_is_refused_and_not_printed(line: str) -> None:
    with pytest.raises(BadOption) as refused:
        users_of([line])
    assert "secret-word" not in f"{refused.value}{refused.value.hint}"
    assert "--hash-password" in refused.value.hint


def test_settings_do_not_print_hashes() -> None:
    assert HASH not in repr(WebSettings(users=[f"anna:{HASH}"]))


def test_the_command_prints_a_line_that_is_accepted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("long enough\n"))
    assert run(cli, ["web", "--hash-password", "anna"]) == 0
    line = capsys.readouterr().out.strip()
    assert Logins(users_of([line])).verify("anna", "long enough")
    for name, password in (("anna", "short"), ("a:b", "long enough")):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        assert run(cli, ["web", "--hash-password", name]) != 0
        assert "error: " in capsys.readouterr().err


def test_failed_attempts_wait_longer_and_longer_and_are_forgotten_after_success() -> None:
    clock = Clock()
    limiter = Limiter(clock)
    for _ in range(FREE - 1):
        limiter.fail("client a", "user x")
        assert limiter.wait("client a", "user x") == 0
    limiter.fail("client a", "user x")
    first = limiter.wait("client a")
    assert first == limiter.wait("user x") > 0
    assert limiter.wait("client b", "user y") == 0
    clock.now += first
    assert limiter.wait("client a") == 0
    limiter.fail("client a")
    assert limiter.wait("client a") == 2 * first
    for _ in range(100):
        limiter.fail("client a")
    assert limiter.wait("client a") == login.LONGEST_WAIT
    limiter.succeed("client a")
    assert limiter.wait("client a") == 0
    for number in range(3 * login._MOST_COUNTED):
        limiter.fail(f"client {number}")
    assert len(limiter._failed) == login._MOST_COUNTED


def test_a_session_ends_when_it_is_idle_or_old_and_their_number_is_bounded() -> None:
    clock = Clock()
    logins = Logins({"anna": HASH}, clock)
    idle, busy = logins.begin("anna"), logins.begin("anna")
    assert idle != busy
    while clock.now < LONGEST_SECONDS:
        assert logins.user(busy) == "anna"
        # A page that stays open keeps no session.
        logins.user(idle, touch=False)
        clock.now += login.IDLE_SECONDS / 2
    assert logins.user(idle, touch=False) is None
    clock.now += 1
    assert logins.user(busy) is None
    first = logins.begin("anna")
    for _ in range(login.MOST_SESSIONS):
        clock.now += 0.001
        logins.begin("anna")
    assert logins.user(first) is None
    assert len(logins._sessions) == login.MOST_SESSIONS


@pytest.mark.parametrize(
    ("wanted", "leads"),
    [
        ("/tables?find=x", "/tables?find=x"),
        ("/action/pause?node=a", "/action/pause?node=a"),
        ("https://evil.example.org/", "/cascade"),
        ("//evil.example.org/", "/cascade"),
        ("/\\evil.example.org", "/cascade"),
        ("/x\r\nSet-Cookie: a=b", "/cascade"),
        ("javascript:alert(1)", "/cascade"),
        ("/logout", "/cascade"),
        ("//[x", "/cascade"),
        ("", "/cascade"),
    ],
)
def test_a_login_leads_to_a_page_of_the_console(wanted: str, leads: str) -> None:
    assert next_page(wanted) == leads


def test_a_proxy_is_believed_at_its_address_only() -> None:
    proxy = Proxy("X-Remote-User", (ip_network("10.0.0.0/30"), ip_network("::1/128")))

    def user(client: str, *names: str) -> str:
        headers = [(b"x-remote-user", name.encode()) for name in names]
        return proxy.user({"type": "http", "client": (client, 1), "headers": headers})

    assert user("10.0.0.2", "anna") == "anna"
    assert user("::1", "anna") == "anna"
    assert user("10.0.0.9", "anna") == ""
    assert user("10.0.0.2", "anna", "root") == ""
    assert user("10.0.0.2") == ""
    assert user("10.0.0.2", "x" * 500) == ""
    assert user("", "anna") == ""
    for header, addresses in (
        ("X-User", ()),
        ("", ("127.0.0.1",)),
        ("X User", ("127.0.0.1",)),
        ("X-User", ("nonsense",)),
    ):
        with pytest.raises(BadOption):
            proxy_of(header, addresses)
    assert proxy_of("", ()) is None


class Browser:
    """Requests to a console, with the cookie that it has set."""

    def __init__(self, place: tuple[str, int]) -> None:
        self.place = place
        self.origin = f"http://{place[0]}:{place[1]}"
        self.cookie = ""

    def __call__(
        self, method: str, path: str, form: dict[str, str] | None = None, **headers: str
    ) -> http.client.HTTPResponse:
        """An answer, read already; ``text`` is its body."""
        conn = http.client.HTTPConnection(*self.place, timeout=60)
        sent = {"Cookie": self.cookie, "Origin": self.origin} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        body = None if form is None else urlencode(form)
        conn.request(method, path, body, {k: v for k, v in sent.items() if v})
        answer = conn.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        conn.close()
        return answer

    def log_in(self, name: str = "anna", password: str = PASSWORD) -> http.client.HTTPResponse:
        answer = self("POST", "/login", {"user": name, "password": password, "next": "/tables"})
        given = answer.getheader("Set-Cookie", "")
        if given:
            self.cookie = given.partition(";")[0]
        return answer

    def token(self) -> str:
        found = re.search(r'name="token" value="(\w+)"', self("GET", "/cascade").text)  # type: ignore[attr-defined]
        assert found
        return found[1]


Start = Callable[..., Browser]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts consoles: ``start(users={"anna": HASH}, actions=True)``."""
    with contextlib.ExitStack() as stack:

        def made(policy: Policy, *, actions: bool = True, public_url: str = "") -> Browser:
            watch = Watch(lambda: snapshot("q"), History(1.0), refresh=0.2)
            listener = server.bound("127.0.0.1:0")
            console = Console(watch, policy=policy)
            forms = console.forms(list, lambda: None, actions=actions, show_values=False)
            watch.start()
            stack.callback(watch.stop)
            stack.enter_context(server.serving(console.app(public_url, forms), listener))
            return Browser(listener.getsockname())

        yield made


def test_without_a_session_nothing_is_shown_and_nothing_is_done(start: Start) -> None:
    browser = start(Policy(Logins({"anna": HASH})))
    for path in ("/cascade", "/tables?find=x", "/action/pause?node=leaf", "/", "/none"):
        answer = browser("GET", path)
        assert answer.status == 303, path
        assert answer.getheader("Location", "").startswith("/login?next=%2F")
    for path in ("/api/v1/cascade", "/live/cascade", "/api/v1/none"):
        assert browser("GET", path).status == 401
    assert browser("POST", "/action/pause", {"node": "leaf"}).status == 303
    for path in ("/healthz", "/static/console.css", "/login"):
        assert browser("GET", path).status == 200
    # An invented session.
    browser.cookie = "londiste=aaaa"
    assert browser("GET", "/api/v1/cascade").status == 401


def test_a_login_sets_a_cookie_with_its_flags_and_a_logout_ends_the_session(start: Start) -> None:
    browser = start(Policy(Logins({"anna": HASH})))
    planted = browser.cookie = "londiste=planted"
    answer = browser.log_in()
    assert (answer.status, answer.getheader("Location")) == (303, "/tables")
    given = answer.headers.get_all("Set-Cookie", [])[0]
    flags = {part.strip().lower() for part in given.split(";")[1:]}
    assert flags == {"httponly", "samesite=strict", "path=/"}
    # The session is a new one, and no value of the browser's.
    assert browser.cookie != planted
    page = browser("GET", "/cascade").text  # type: ignore[attr-defined]
    assert "anna" in page
    assert PASSWORD not in page

    stream = http.client.HTTPConnection(*browser.place, timeout=60)
    stream.request("GET", "/live/cascade", headers={"Cookie": browser.cookie})
    events = stream.getresponse()
    assert events.readline() == b"event: page\n"
    token = browser.token()
    assert browser("POST", "/logout", {"token": "x"}).status == 403
    assert browser("POST", "/logout", {"token": token}).status == 303
    assert browser("GET", "/api/v1/cascade").status == 401
    # A page that stays open ends with the session.
    wait_for(lambda: events.read1(65536) == b"", what="the end of the stream")
    stream.close()


def test_other_users_end_the_sessions_of_those_who_are_removed_or_changed() -> None:
    other = hashed("other")
    logins = Logins({"anna": HASH, "otto": HASH, "eva": HASH})
    anna, otto, eva = (logins.begin(name) for name in ("anna", "otto", "eva"))
    logins.replace({"otto": HASH, "eva": other})
    assert [logins.user(one) for one in (anna, otto, eva)] == [None, "otto", None]
    # The password was compared before the change.
    assert logins.user(logins.begin("eva", HASH)) is None
    assert (logins.verify("eva", PASSWORD), logins.verify("eva", "other")) == ("", other)
    logins.replace({"anna": HASH})
    assert [logins.user(one) for one in (anna, otto)] == [None, None]
    logins.replace({})
    assert not logins and not Policy(logins).is_closed


@pytest.mark.parametrize("other", ['x={"a": 1}', "a b", "flag", "x[y]=1", 'x="', ";"])
def test_cookies_of_other_programs_end_no_session(other: str) -> None:
    for header in (f"{other}; londiste=secret", f"londiste=secret; {other}"):
        scope = {"headers": [(b"cookie", header.encode())]}
        assert cookie(scope, "londiste") == "secret"
        assert cookie(scope, "londiste-browser") == ""


def test_with_https_the_cookie_is_for_it_only(start: Start) -> None:
    policy = Policy(Logins({"anna": HASH}), secure=True)
    browser = start(policy, public_url="https://console.example.org")
    browser.origin = "https://console.example.org"
    given = browser.log_in().getheader("Set-Cookie", "")
    assert given.startswith("__Host-londiste=")
    assert "secure" in given.lower()
    assert browser("GET", "/cascade").status == 200


def test_passwords_are_not_tried_without_end(start: Start) -> None:
    browser = start(Policy(Logins({"anna": HASH})))
    for _ in range(FREE):
        answer = browser.log_in(password="wrong")
        assert answer.status == 401
        assert "wrong" not in answer.text.replace("Wrong name", "")  # type: ignore[attr-defined]
    answer = browser.log_in()
    assert answer.status == 429
    assert int(answer.getheader("Retry-After", "0")) > 0
    assert browser.cookie == ""
    # The client has to wait, whatever name it gives.
    assert browser.log_in("otto").status == 429


def test_failed_attempts_of_others_lock_out_no_known_browser(start: Start) -> None:
    """Behind a proxy all clients have one address."""
    operator = start(Policy(Logins({"anna": HASH, "otto": HASH})))
    given = operator.log_in().headers.get_all("Set-Cookie", [])
    operator.cookie = "; ".join(one.partition(";")[0] for one in given)
    token = operator.token()
    assert operator("POST", "/logout", {"token": token}).status == 303
    known = operator.cookie = given[1].partition(";")[0]

    attacker = Browser(operator.place)
    for name in ("anna", "x") * FREE:
        attacker.log_in(name, "wrong")
    assert attacker.log_in().status == 429
    # Of another user, or invented, the cookie is of no use.
    attacker.cookie = known
    assert attacker.log_in("otto").status == 429
    attacker.cookie = known.partition(".")[0] + ".x"
    assert attacker.log_in().status == 429

    assert operator.log_in().status == 303
    # It has a limit of its own.
    for _ in range(FREE):
        operator.cookie = known
        assert operator.log_in(password="wrong").status == 401
    assert operator.log_in().status == 429


def test_a_form_of_another_site_or_session_changes_nothing(start: Start) -> None:
    browser = start(Policy(Logins({"anna": HASH, "otto": HASH})))
    other = Browser(browser.place)
    browser.log_in()
    other.log_in("otto")
    token, theirs = browser.token(), other.token()
    assert token != theirs
    form = {"node": "leaf", "token": token}
    for headers in (
        {"Origin": "https://evil.example.org"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": browser.origin + ".evil.example.org"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Host": "evil.example.org"},
    ):
        for path in ("/action/pause", "/login", "/logout"):
            assert browser("POST", path, form, **headers).status in (403, 421), (headers, path)
    for wrong in ("", "x", theirs, "ß"):
        answer = browser("POST", "/action/pause", {"node": "leaf", "token": wrong})
        assert (answer.status, "another session" in answer.text) == (403, True)  # type: ignore[attr-defined]
    # More than a form can be.
    answer = browser("POST", "/action/pause", {"token": token, "node": "x" * 100_000})
    assert answer.status == 403
    # The same request with its token arrives: here no node answers.
    assert browser("GET", "/api/v1/cascade").status == 200


def test_actions_are_not_there_unless_they_are_allowed(start: Start) -> None:
    browser = start(Policy(Logins({"anna": HASH})), actions=False)
    browser.log_in()
    assert browser("GET", "/action/pause?node=leaf").status == 404
    assert (
        browser("POST", "/action/pause", {"node": "leaf", "token": browser.token()}).status == 404
    )
    assert "/action/" not in browser("GET", "/cascade").text  # type: ignore[attr-defined]
    allowed = start(Policy(Logins({"anna": HASH})))
    allowed.log_in()
    assert "/action/pause?node=q" in allowed("GET", "/cascade").text  # type: ignore[attr-defined]
    assert allowed("GET", "/action/none").status == 404
    # A GET changes nothing, with any token.
    assert allowed("PUT", "/action/pause").status == 405


def test_a_name_with_an_end_of_a_line_reaches_the_action_as_it_is(start: Start) -> None:
    words = {"node": "leaf", "table": " a\nb\r&"}
    page = Renderer([], 1.0).page_of(
        "action",
        title="Copy a table again",
        action=ACTIONS["resync"],
        words=words,
        steps=[],
        error=None,
        command="",
        token="t",
    )
    found = re.search(r'action="(/action/[^"]*)"', page)
    assert found
    # A browser sends fields of a form with other ends of lines, and an address as it is.
    assert not re.search(r'name="(node|table)"', page)
    browser = start(Policy(Logins({"anna": HASH})))
    browser.log_in()
    answer = browser("POST", html.unescape(found[1]), {"token": browser.token()})
    # No node answers here.
    assert answer.status == 409
    shown = html.unescape(answer.text)  # type: ignore[attr-defined]
    assert ACTIONS["resync"].command(words) in shown


def test_a_user_whom_a_proxy_names_needs_no_password(start: Start) -> None:
    proxy = Proxy("X-Remote-User", (ip_network("127.0.0.1/32"),))
    browser = start(Policy(proxy=proxy))
    assert browser("GET", "/cascade").status == 401
    page = browser("GET", "/cascade", X_Remote_User="anna")
    assert page.status == 200
    assert "anna" in page.text  # type: ignore[attr-defined]
    assert "Log out" not in page.text  # type: ignore[attr-defined]
    assert browser("GET", "/login").status == 401 or browser("GET", "/login").status == 404
    strange = start(Policy(proxy=Proxy("X-Remote-User", (ip_network("10.0.0.0/8"),))))
    assert strange("GET", "/cascade", X_Remote_User="anna").status == 401
