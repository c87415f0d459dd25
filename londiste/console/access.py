"""Access to the console: who a request is from, by a session or a proxy, and what it may reach."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from londiste.console.login import Logins
from londiste.errors import BadOption

#: Paths that need no login.
_OPEN = ("/login", "/healthz")
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Identity:
    """Who a request is from; session -- what the tokens of its forms belong to."""

    user: str
    session: str
    client: str


@dataclass(frozen=True)
class Proxy:
    """A reverse proxy that names the user; addresses -- from which its header is believed."""

    header: str
    addresses: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

    def user(self, scope: Scope) -> str:
        """The user whom the proxy names; '' if the request is not from it."""
        try:
            client = ipaddress.ip_address((scope.get("client") or ("",))[0])
        except ValueError:
            return ""
        if not any(client in network for network in self.addresses):
            return ""
        found = Headers(scope=scope).getlist(self.header)
        # Two of them: a client has added one that the proxy did not remove.
        name = found[0] if len(found) == 1 else ""
        return name if len(name) <= _LONGEST_NAME and name.isprintable() else ""


def proxy_of(header: str, addresses: Sequence[str]) -> Proxy | None:
    """The proxy of the settings; None without one.  Raises BadOption if a part is missing."""
    if not header and not addresses:
        return None
    hint = 'set auth_header = "X-Remote-User" and auth_proxies = ["127.0.0.1"]'
    if not header or not addresses:
        raise BadOption("auth_header and auth_proxies require each other", hint=hint)
    if not header.replace("-", "").isalnum() or not header.isascii():
        raise BadOption(f"auth_header = {header}: not the name of a header", hint=hint)
    networks = []
    for text in addresses:
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise BadOption(
                f"auth_proxies: {text} is not an address or network", hint=hint
            ) from error
    return Proxy(header, tuple(networks))


def cookie_name(secure: bool) -> str:
    """The name of the cookie; with the prefix browsers keep it from other hosts."""
    return "__Host-londiste" if secure else "londiste"


def browser_cookie(secure: bool) -> str:
    """The name of the cookie by which a browser is known after its session."""
    return f"{cookie_name(secure)}-browser"


def cookie(scope: Scope, name: str) -> str:
    """A cookie of a request; '' without one.

    Those of other programs on the same host may have any form, and hide none of the console's.
    """
    return cookie_parser(Headers(scope=scope).get("cookie", "")).get(name, "")


@dataclass(frozen=True)
class Policy:
    """What the console demands of a request.

    logins -- without users there is no login.  proxy -- None: none.
    secure -- browsers reach it by https.
    """

    logins: Logins = field(default_factory=Logins)
    proxy: Proxy | None = None
    secure: bool = False
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @property
    def is_closed(self) -> bool:
        """Whether a request needs an identity."""
        return bool(self.logins) or self.proxy is not None

    def identify(self, scope: Scope, *, touch: bool = True) -> Identity | None:
        """Who a request is from; None: unknown.

        touch -- it is a request of the user, and not of a page that stays open.
        """
        client = str((scope.get("client") or ("",))[0])
        named = self.proxy.user(scope) if self.proxy is not None else ""
        if named:
            return Identity(named, f"proxy:{named}", client)
        secret = cookie(scope, cookie_name(self.secure))
        user = self.logins.user(secret, touch=touch) if secret else None
        return None if user is None else Identity(user, secret, client)

    def token(self, identity: Identity) -> str:
        """The token of the forms of a request's session."""
        return hmac.new(self._secret, identity.session.encode(), hashlib.sha256).hexdigest()

    def remembered(self, scope: Scope, name: str) -> str:
        """The number of the browser, if this user has logged in with it; else ''."""
        number, _, proof = cookie(scope, browser_cookie(self.secure)).partition(".")
        same = hmac.compare_digest(self._proof(number, name).encode(), proof.encode())
        return number if number and same else ""

    def browser(self, number: str, name: str) -> str:
        """What a browser keeps after a login of this user."""
        return f"{number}.{self._proof(number, name)}"

    def _proof(self, number: str, name: str) -> str:
        text = f"browser {number} {name}".encode()
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    def has_token(self, identity: Identity, token: str) -> bool:
        """Whether a form is of this session."""
        return hmac.compare_digest(self.token(identity).encode(), token.encode())


class Gate:
    """Lets requests of known users through, if the policy demands one."""

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        identity = self._policy.identify(scope, touch=not path.startswith("/live/"))
        scope.setdefault("state", {})["identity"] = identity
        app: ASGIApp = self._app
        is_open = path in _OPEN or path.startswith("/static/")
        if identity is None and self._policy.is_closed and not is_open:
            app = self._refusal(path, scope)
        await app(scope, receive, send)

    def _refusal(self, path: str, scope: Scope) -> Response:
        if path.startswith(("/api/", "/live/")) or not self._policy.logins:
            return JSONResponse({"version": 1, "error": "no login"}, 401)
        query = scope.get("query_string", b"").decode("latin-1")
        wanted = path + (f"?{query}" if query else "")
        return RedirectResponse(f"/login?next={quote(wanted, safe='')}", 303)


def next_page(wanted: str) -> str:
    """Pure: where a login leads; a page of the console, not another site."""
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/cascade"
    is_own = not parts.scheme and not parts.netloc and wanted.startswith("/")
    odd = "\\" in wanted or wanted.startswith("//") or not wanted.isprintable()
    if not is_own or odd or parts.path in ("/login", "/logout"):
        return "/cascade"
    return wanted
