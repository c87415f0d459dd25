"""Connection strings that a database stores for its nodes: which of their parameters are used.

Every administrator of the queues of one node can write such a string, and other hosts connect with
it.  So it says where a node is.  It does not weaken the proof of who answers there, and names no
file that is read or written on the host that connects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg import conninfo

from londiste.db import tls
from londiste.db.names import word
from londiste.dsn import (
    PLACE_PARAMETERS,
    describe_dsn,
    extra_parameters,
    given_parameters,
    is_of_one_node,
    leads_to_same,
    parsed,
)
from londiste.errors import StateError

#: The same, and what earlier versions stored: only the server that the string names gets it.
_READ = PLACE_PARAMETERS | {"password"}

#: How far a mode of TLS proves who answers; the first three prove nothing.
_MODES = {"disable": 0, "allow": 0, "prefer": 0, "require": 1, "verify-ca": 2, "verify-full": 3}

#: In strings of earlier versions, from a node with run_as_owner = false: of its own sessions only.
_OWN_OPTION = re.compile(r"(?:\s|-c\s*londiste\.run_as_owner=(?:on|off))*")


#: Seconds of ``connect_timeout``; libpq waits without limit for 0.
_LONGEST = 60


@dataclass(frozen=True)
class Refused:
    """Why a stored connection string is not used.

    parameter -- the one in question.  why -- a sentence about it.
    """

    parameter: str
    why: str


class LocationRefused(StateError):
    """A stored location must not be used as it is."""

    #: Whose it is, if known.
    node = ""


def reach(location: str, extra: str, *, node: str = "") -> str:
    """The connection string for a stored location.

    extra -- ``remote_extra_connstr``: its parameters replace those of the location.  With a
        ``dbname`` it is the whole string of one node: used for the location that leads there, and
        for no other.
    node -- whose location it is, if known.

    Raises StateError for a location that must not be used as it is, BadOption for a wrong extra.
    """
    more = extra_parameters(extra)
    try:
        given = conninfo.conninfo_to_dict(location)
    except psycopg.Error as error:
        raise StateError(
            f"{_whose(location, node)} is not a connection string",
            hint=f"store a valid one: londiste move-node {word(node or 'NODE')} CONNECTION",
        ) from error
    stored = given_parameters(given)
    if is_of_one_node(more):
        if leads_to_same(stored, more):
            return extra
        more = {}
    found = used(stored, more, os.environ)
    if isinstance(found, Refused):
        refused = LocationRefused(
            f"{_whose(location, node)} has {found.parameter}: {found.why}",
            detail="administrators of queues can change it; nothing was sent to that server",
            hint=f"store another one: londiste move-node {word(node or 'NODE')} CONNECTION; or, if"
            f" the parameter is right, write {found.parameter}=… into remote_extra_connstr of these"
            " settings",
        )
        refused.node = node
        raise refused
    # An empty parameter would hide that of the environment, and what it proves.
    return location if found == given else conninfo.make_conninfo("", **found)


def completed(dsn: str, extra: str) -> str:
    """A connection string of the settings or the command line, with ``remote_extra_connstr``.

    Raises BadOption for one that is none.
    """
    more, given = extra_parameters(extra), parsed(dsn)
    if is_of_one_node(more):
        return extra if leads_to_same(given, more) else dsn
    return conninfo.make_conninfo(dsn, **more) if more else dsn


def with_parameters(dsn: str, **more: str | int | None) -> str:
    """A connection string of this program's own, with other parameters added."""
    return conninfo.make_conninfo(dsn, **more)


def refusal(location: str) -> Refused | None:
    """Why no program would use a location, whatever its settings.  Raises psycopg.Error."""
    found = used(given_parameters(conninfo.conninfo_to_dict(location)), {}, {})
    return found if isinstance(found, Refused) else None


def used(
    stored: Mapping[str, str], extra: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str] | Refused:
    """Pure but for the look for a root certificate: the parameters to connect with.

    stored -- of the location.  extra -- of the settings of this program, which have precedence.
    """
    kept = {key: value for key, value in stored.items() if key not in extra}
    if _OWN_OPTION.fullmatch(kept.get("options", "")):
        kept.pop("options", None)
    if re.fullmatch(r"\s*[+-]?\d+\s*", wait := kept.get("connect_timeout", "")):
        kept["connect_timeout"] = wait if 0 < int(wait) <= _LONGEST else str(_LONGEST)
    if "host" in extra:
        # The address of another server than the one that the settings name.
        kept.pop("hostaddr", None)
    for parameter in sorted(kept.keys() - _READ):
        return Refused(parameter, "only the settings of this program may set that")
    for parameter in ("host", "hostaddr", "port", "sslrootcert"):
        if parameter in kept and ("service" in kept or "service" in extra):
            return Refused(parameter, "the secrets of a service are for the server that it names")
    return _less_proof(kept, extra, environment) or {**kept, **extra}


def _less_proof(
    kept: Mapping[str, str], extra: Mapping[str, str], environment: Mapping[str, str]
) -> Refused | None:
    """Whether the server would prove less of its identity than without the location."""
    for parameter in ("gssencmode", "channel_binding"):
        if parameter in kept and environment.get("PG" + parameter.replace("_", "").upper()):
            return Refused(parameter, "the environment of this program sets it")
    if kept.get("channel_binding", "require") != "require":
        return Refused("channel_binding", "only require is taken from a stored location")
    if "hostaddr" in kept and not all(kept["hostaddr"].split(",")):
        return Refused("hostaddr", "an address of its list is empty, so the host is used")
    place = {**kept, **extra}
    if "service" not in place and tls.is_socket(place, environment):
        return None
    own = {key: value for key, value in place.items() if key not in ("sslmode", "sslrootcert")}
    own |= {key: extra[key] for key in ("sslmode", "sslrootcert") if key in extra}
    usual = own.get("sslmode") or environment.get("PGSSLMODE") or _usual_mode(own, environment)
    mode = kept.get("sslmode", usual)
    if _MODES.get(mode, 0) < _MODES.get(usual, 0):
        return Refused("sslmode", f"{mode} proves less than {usual}, the mode without it")
    root = own.get("sslrootcert") or tls.root_certificate(environment)
    if root and kept.get("sslrootcert", root) != root:
        return Refused("sslrootcert", f"this program verifies with {root}")
    named = place.get("host") or environment.get("PGHOST")
    if "hostaddr" in kept and named and mode != "verify-full":
        return Refused(
            "hostaddr", f"only with sslmode=verify-full does the server prove that it is {named}"
        )
    return None


def _usual_mode(own: Mapping[str, str], environment: Mapping[str, str]) -> str:
    if "service" in own or environment.get("PGSERVICE"):
        # What its file asks for is not known here.
        return "verify-full"
    return tls.default_mode(own, environment) or "prefer"


def _whose(location: str, node: str) -> str:
    owner = f"the stored location of node {node}" if node else "a stored location"
    return f"{owner} ({describe_dsn(location)})"
