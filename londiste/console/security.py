"""Security of the console's HTTP side: hosts, methods, and headers of every answer."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from londiste.errors import BadOption
from londiste.settings.fields import split_address
from londiste.settings.hosts import known_host

#: No script, style or form of another origin, none inside the page, and no frame around it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
METHODS = ("GET", "HEAD")
#: Paths that take forms.
ACTIONS = "/action/"
FORMS = ("/login", "/logout", ACTIONS)


def is_local(host: str) -> bool:
    """Pure: whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_open(listen: str, *, has_login: bool, actions: bool) -> None:
    """Raises BadOption without a login for an address that others reach, and for actions."""
    host, port = split_address(listen)
    if has_login:
        return
    if actions:
        raise BadOption(
            "actions = true requires a login",
            hint="set users in [web]: londiste web --hash-password NAME prints a line",
        )
    if not is_local(host):
        raise BadOption(
            f"listen = {listen}: other machines can reach this address, and there is no login",
            hint=f"set listen = 127.0.0.1:{port}; or set users in [web]:"
            " londiste web --hash-password NAME prints a line",
        )


def public_host(url: str) -> str:
    """Host of ``public_url``; '' without one.  Raises BadOption."""
    if not url:
        return ""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        # Raises for what is not the number of one.
        _ = parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not host or parts.path not in ("", "/"):
        raise BadOption(
            f"public_url = {url}: not the address of a host",
            hint="write public_url = https://londiste.example.org",
        )
    return host.lower()


def origin_of(url: str) -> str:
    """Pure: the origin that browsers send for pages of an address; '' without one."""
    if not url:
        return ""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{host}" + ("" if parts.port in (None, usual) else f":{parts.port}")


def same_origin(headers: Headers, scheme: str, public_url: str) -> bool:
    """Pure: whether a form was sent by a page of this console, as the browser says."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin", "")
    own = {f"{scheme}://{headers.get('host', '')}", origin_of(public_url)}
    return bool(origin) and origin in own


def own_visit(headers: Headers) -> bool:
    """Pure: whether the user has opened a page from the console or by its address."""
    return headers.get("sec-fetch-site", "none") in ("same-origin", "none")


class Guard:
    """Refuses requests of unknown hosts and other methods, and adds the headers to all answers.

    public_url -- the address in browsers, if it is another one; its host is known.
    """

    def __init__(self, app: ASGIApp, public_url: str = "") -> None:
        self._app = app
        self._public_url = public_url
        host = public_host(public_url)
        self._hosts = (host,) if host else ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        app: ASGIApp = self._app
        headers = Headers(scope=scope)
        method, path = scope["method"], scope["path"]
        takes_form = method == "POST" and path.startswith(FORMS)
        if not known_host(headers.get("host", ""), self._hosts):
            app = PlainTextResponse("unknown host: set public_url of the console\n", 421)
        elif method not in METHODS and not takes_form:
            app = PlainTextResponse("method not allowed\n", 405, {"Allow": ", ".join(METHODS)})
        elif "\0" in path:
            # starlette before 1.1 fails at one.
            app = PlainTextResponse("not found\n", 404)
        elif path.startswith(ACTIONS) and not own_visit(headers):
            # A dry run compares rows or asks nodes: other sites must not start it.
            app = PlainTextResponse("the link is of another site: open the console\n", 403)
        elif takes_form and not same_origin(headers, scope["scheme"], self._public_url):
            app = PlainTextResponse("the form is of another site\n", 403)
        await app(scope, receive, with_headers)
