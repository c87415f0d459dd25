"""TLS of connections: default sslmode and errors.

libpq encrypts if the server happens to offer it, and verifies nothing.  Where a root certificate is
there, a host that is not a socket must have a certificate for its name, unless ``sslmode`` says
otherwise.
"""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)

#: Where libpq looks for a root certificate when none is named.
_ROOT = Path(".postgresql") / "root.crt"

#: What libpq says when encryption or the proof of a name fails.
_SIGNS = (
    "ssl error",
    "certificate",
    "server does not support ssl",
    "ssl connection is required",
    "root certificate",
    "private key file",
)

#: With a root certificate that exists, libpq verifies with sslmode=require, too.
UNVERIFIED = "sslmode=require sslrootcert=none"
HINT = (
    "correct the server's certificate, its name, or sslrootcert; to encrypt without verification"
    f" add to the connection string: {UNVERIFIED}; see docs/howto/tls.md"
)
#: Where the server offers no encryption, sslmode=require fails alike.
_NOT_OFFERED = (
    "enable TLS on the server (ssl = on), or connect without encryption: set sslmode=prefer in the"
    " connection string: docs/howto/tls.md"
)
_KEY_FILE = "correct the file of the client key (sslkey): only its owner may read it: chmod 600"


def default_mode(given: Mapping[str, object], environment: Mapping[str, str]) -> str | None:
    """The sslmode for connection parameters that have none; None: as libpq does.

    Pure but for the look whether ``~/.postgresql/root.crt`` is there.
    """
    if given.get("sslmode") or environment.get("PGSSLMODE"):
        return None
    if given.get("service") or environment.get("PGSERVICE"):
        # The file of services has a sslmode of its own, perhaps.
        return None
    if is_socket(given, environment):
        return None
    named = given.get("sslrootcert") or root_certificate(environment)
    return "verify-full" if named else None


def is_socket(given: Mapping[str, object], environment: Mapping[str, str]) -> bool:
    """Pure: whether connection parameters lead to nothing but sockets of the file system.

    As libpq reads its two lists: where the address of a server is empty it takes the host, and
    where that is empty, too, the usual directory.  It refuses lists of different length.
    """
    hosts = _list(given, environment, "host", "PGHOST")
    addresses = _list(given, environment, "hostaddr", "PGHOSTADDR")
    if addresses == [""]:
        addresses *= len(hosts)
    elif hosts == [""]:
        hosts *= len(addresses)
    return len(hosts) == len(addresses) and all(
        not address and (not host or host.startswith(("/", "@")))
        for host, address in zip(hosts, addresses, strict=True)
    )


def _list(
    given: Mapping[str, object], environment: Mapping[str, str], parameter: str, variable: str
) -> list[str]:
    """One of libpq's lists.  A parameter that is given hides the variable, also an empty one."""
    found = given.get(parameter)
    return str(environment.get(variable, "") if found is None else found).split(",")


def root_certificate(environment: Mapping[str, str]) -> str:
    """The root certificate that libpq uses where none is named; '' if there is none."""
    if named := environment.get("PGSSLROOTCERT"):
        return named
    usual = Path(environment.get("HOME") or "/nonexistent") / _ROOT
    return str(usual) if usual.exists() else ""


def mode_for(given: Mapping[str, object]) -> dict[str, str]:
    """``default_mode`` of this process, as connection parameters."""
    mode = default_mode(given, os.environ)
    return {} if mode is None else {"sslmode": mode}


def exposed(address: str | None, *, encrypted: bool) -> bool:
    """Whether the path to this address can be read by others; '' or None: a socket."""
    if encrypted or not address:
        return False
    try:
        return not ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return True


def hint_for(message: str) -> str:
    """Pure: what to do about an error for which ``is_about_tls``."""
    lowered = message.lower()
    if "does not support ssl" in lowered:
        return _NOT_OFFERED
    return _KEY_FILE if "private key file" in lowered else HINT


def is_about_tls(message: str) -> bool:
    """Whether a connection failed for lack of encryption or of a valid certificate."""
    lowered = message.lower()
    return any(sign in lowered for sign in _SIGNS)


#: Places that were warned of: once in a process is enough.
_warned: set[str] = set()


def warn_of_exposure(address: str | None, place: str, *, encrypted: bool) -> None:
    """Warns that a session is neither encrypted nor local.

    address -- of the server; place -- where the session leads, without secrets.
    """
    if place in _warned or not exposed(address, encrypted=encrypted):
        return
    _warned.add(place)
    log.warning(
        "%s: the connection is not encrypted and not local: anyone on the network path can"
        " read all rows; hint: sslmode=verify-full and a root certificate, see"
        " docs/howto/tls.md",
        place,
    )
