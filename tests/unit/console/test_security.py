"""Security of the console without a login: hosts, methods, headers, addresses."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from londiste.console.security import origin_of, public_host, refuse_open, same_origin
from londiste.errors import BadOption
from londiste.settings.hosts import known_host


@pytest.mark.parametrize(
    ("header", "known"),
    [
        ("127.0.0.1:8457", True),
        ("localhost:8457", True),
        ("[::1]:8457", True),
        ("192.168.1.7", True),
        ("console.example.org", True),
        ("CONSOLE.example.org:443", True),
        ("evil.example.org", False),
        ("localhost.evil.example.org", False),
        ("evil.example.org@127.0.0.1", False),
        ("evil.example.org:x@console.example.org:8457", False),
        ("127.0.0.1/evil.example.org", False),
        ("127.0.0.1#evil.example.org", False),
        ("127.0.0.1.evil.example.org", False),
        ("user@evil.example.org", False),
        ("127.0.0.1@evil.example.org", False),
        ("evil.example.org#127.0.0.1", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_only_own_hosts_are_known(header: str, known: bool) -> None:
    assert known_host(header, ["console.example.org"]) is known


@pytest.mark.parametrize("listen", ["0.0.0.0:80", "[::]:80", "192.168.1.7:80", "example.org:80"])
def test_an_address_that_other_machines_reach_is_refused_without_a_login(listen: str) -> None:
    with pytest.raises(BadOption) as refused:
        refuse_open(listen, has_login=False, actions=False)
    assert "127.0.0.1:80" in refused.value.hint
    refuse_open(listen, has_login=True, actions=True)


@pytest.mark.parametrize("listen", ["127.0.0.1:80", "[::1]:80", "localhost:0", "127.8.0.1:1"])
def test_an_address_of_this_machine_is_accepted(listen: str) -> None:
    refuse_open(listen, has_login=False, actions=False)
    with pytest.raises(BadOption, match="requires a login"):
        refuse_open(listen, has_login=False, actions=True)


def test_the_public_address_is_that_of_a_host() -> None:
    assert public_host("https://Console.example.org/") == "console.example.org"
    assert public_host("") == ""
    for wrong in (
        "console.example.org",
        "ftp://x",
        "https://",
        "https://x/path",
        "https://[x",
        "https://x:y",
    ):
        with pytest.raises(BadOption):
            public_host(wrong)


@pytest.mark.parametrize(
    ("public_url", "origin"),
    [
        ("https://Console.example.org/", "https://console.example.org"),
        ("HTTPS://console.example.org:443", "https://console.example.org"),
        ("http://console.example.org:80", "http://console.example.org"),
        ("https://console.example.org:8443", "https://console.example.org:8443"),
        ("https://[2001:DB8::1]:443", "https://[2001:db8::1]"),
        ("", ""),
    ],
)
def test_the_origin_of_the_public_address_is_as_browsers_send_it(
    public_url: str, origin: str
) -> None:
    assert origin_of(public_url) == origin
    sent = Headers({"host": "127.0.0.1:8457", "origin": origin})
    assert same_origin(sent, "http", public_url) is bool(origin)
    other = Headers({"host": "127.0.0.1:8457", "origin": "https://evil.example.org"})
    assert not same_origin(other, "http", public_url)
