"""Names by which requests reach an HTTP server of Londiste; others are of pages of other sites.

Such a page can make a browser send requests to any address under its own name, and read the answers
(DNS rebinding).  It cannot do so under an address, nor under a name that no public domain has.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

#: Domains that are never public: mDNS, private networks, services of Kubernetes.
_PRIVATE = (".local", ".internal", ".localhost", ".home.arpa", ".svc")


def known_host(header: str, hosts: Collection[str]) -> bool:
    """Pure: whether a request names an address, ``localhost`` or one of the hosts."""
    host = _host(header)
    return host in ("localhost", *hosts) or _is_address(host)


def is_scrape(
    header: str, hosts: Collection[str], own: Callable[[], Collection[str]] = lambda: ()
) -> bool:
    """Pure: whether a request for metrics names this host.

    hosts -- of the settings.  own -- names of this host, which may take a look-up.
    """
    host = _host(header)
    if not host:
        return False
    is_private = "." not in host or host.endswith(_PRIVATE)
    return is_private or known_host(header, [one.lower() for one in hosts]) or host in own()


@functools.cache
def own_names() -> frozenset[str]:
    """The name of this host, and its full name if the network knows it."""
    name = socket.gethostname()
    return frozenset({name.lower(), socket.getfqdn(name).lower()})


def _host(header: str) -> str:
    """Pure: the name or address in a header, in lower case; '' without one or with more."""
    try:
        parts = urlsplit(f"//{header}")
        host = parts.hostname or ""
    except ValueError:
        return ""
    return "" if parts.netloc != header or "@" in header else host.removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
