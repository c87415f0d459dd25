"""Connection strings in messages, without passwords.

``masked`` and ``describe_dsn`` are the only forms of a connection string that may be shown.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from psycopg import conninfo

from londiste.errors import BadOption

#: Parameters that nobody else may see; libpq before release 18 knows only the first two.
SECRETS = (
    "password",
    "sslpassword",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)


#: What a stored connection string may have: where the node is, and how long to wait for it.
PLACE_PARAMETERS = frozenset(
    (
        "service",
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "target_session_attrs",
        "load_balance_hosts",
        "application_name",
        "fallback_application_name",
        "client_encoding",
        "connect_timeout",
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
        "sslmode",
        "sslrootcert",
        "sslnegotiation",
        "gssencmode",
        "channel_binding",
    )
)


def may_show_password(dsn: str) -> bool:
    """Pure: whether libpq may take a part of the password of a URI for host, port or database.

    It ends the password at the first ``@`` before a ``/``, and without one takes it for the port;
    in a password both are written as %40 and %2F.
    """
    scheme, mark, rest = dsn.partition("://")
    if not mark or scheme.strip() not in ("postgresql", "postgres"):
        return False
    after = rest.partition("@")[2] if "@" in rest.partition("/")[0] else rest
    place = after.partition("?")[0]
    hosts = place.partition("/")[0].split(",")
    ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
    return "@" in place or not all(re.fullmatch("[0-9]*", port) for port in ports)


def parsed(dsn: str, setting: str = "") -> dict[str, Any]:
    """The parameters of a connection string; setting -- where it is from, if it is not ``db``.

    Raises BadOption where it is none, or a URI that makes libpq show a part of the password.
    """
    of = f"{setting}: " if setting else ""
    in_uri = (
        "in a password write % as %25, @ as %40 and / as %2F; or use the form host=… password=…"
    )
    if may_show_password(dsn):
        what = "a connection string has an @ that belongs to no host, or a port that is no number"
        raise BadOption(f"{of}{what}", hint=in_uri)
    try:
        return conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError) as error:
        usual = "write it as for libpq: host=… port=… dbname=… user=…, or postgresql://…"
        raise BadOption(
            f"{of}{masked(dsn)}: not a connection string", hint=in_uri if "://" in dsn else usual
        ) from error


def given_parameters(parts: Mapping[str, Any]) -> dict[str, str]:
    """Pure: those that have a value."""
    return {key: str(value) for key, value in parts.items() if value not in (None, "")}


def extra_parameters(extra: str) -> dict[str, str]:
    """The parameters of ``remote_extra_connstr``.

    Raises BadOption where it is none, or where every server that a location names got its password.
    """
    found = given_parameters(parsed(extra, "remote_extra_connstr"))
    if "password" in found and not found.keys() & {"dbname", "service", "host", "hostaddr"}:
        raise BadOption(
            "remote_extra_connstr has a password and names no server",
            detail="stored locations name it, and administrators of queues can change them",
            hint="write it into ~/.pgpass: HOST:PORT:DATABASE:USER:PASSWORD; or add host=, or also"
            " dbname=, to remote_extra_connstr: with both it is the whole connection string of one"
            " node",
        )
    return found


def masked(dsn: str) -> str:
    """The connection string with every secret replaced by ``***``."""
    unreadable = "(a string that libpq cannot read)"
    # Where the password begins and ends in such texts, nobody can tell.
    if may_show_password(dsn):
        return unreadable
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        return unreadable
    shown = {
        key: ("***" if key in SECRETS else value)
        for key, value in parts.items()
        if value is not None
    }
    return conninfo.make_conninfo("", **shown) if shown else "(defaults of libpq)"


def reduced(dsn: str, keep: Callable[[str], bool]) -> str:
    """A connection string with some of its parameters only.

    Unchanged if it has no others, or cannot be read: that error is reported by who uses it.
    """
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        return dsn
    if all(map(keep, parts)):
        return dsn
    return conninfo.make_conninfo("", **{k: v for k, v in parts.items() if keep(k)})


def without_secrets(dsn: str) -> str:
    """A connection string without its secrets; unchanged if it has none, or cannot be read."""
    return reduced(dsn, lambda key: key not in SECRETS)


def as_location(dsn: str) -> str:
    """What a node may store of a connection string: where it leads, and how it is verified."""
    return reduced(dsn, PLACE_PARAMETERS.__contains__)


#: Variables of libpq for the place of a database, which other shells and hosts do not have.
_VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}


#: Parameters of a connection string that say which database it is.
PLACE = ("service", "host", "port", "dbname")


def place(dsn: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Pure: which database a connection string means, to compare it with another one.

    Raises BadOption.
    """
    found, usual = parsed(dsn), {"port": "5432"}
    variables = {"service": "PGSERVICE", **_VARIABLES}
    return tuple(
        str(found.get(key) or environment.get(variables[key]) or usual.get(key, ""))
        for key in PLACE
    )


def with_environment(dsn: str, environment: Mapping[str, str]) -> str:
    """Pure: a connection string with the place that libpq takes from the environment.

    Unchanged if the environment adds nothing, if a service names the place, or if it cannot be
    read: that error is reported by who uses it.
    """
    if may_show_password(dsn):
        return dsn
    try:
        given = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        return dsn
    if given.get("service") or environment.get("PGSERVICE"):
        return dsn
    more = {
        key: environment[variable]
        for key, variable in _VARIABLES.items()
        if environment.get(variable) and not given.get(key)
    }
    if given.get("hostaddr") or environment.get("PGHOSTADDR"):
        # The server is at the address; a name would only be verified.
        more.pop("host", None)
    return conninfo.make_conninfo("", **{**given, **more}) if more else dsn


def secrets_of(dsn: str) -> str:
    """The secrets of a connection string as another one; '' if it has none, or cannot be read."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        return ""
    return conninfo.make_conninfo("", **{k: v for k, v in parts.items() if k in SECRETS})


def is_of_one_node(parameters: Mapping[str, Any]) -> bool:
    """Pure: whether parameters of ``remote_extra_connstr`` are the whole string of one node.

    Such a string is used for this node, and its secrets are sent to no other.
    """
    if parameters.get("dbname"):
        return True
    return bool(parameters.get("service") and parameters.keys() & set(SECRETS))


def leads_to_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Pure: whether parameters of two connection strings have the same server and database."""

    def place(of: Mapping[str, Any]) -> list[str]:
        usual = {"port": "5432"}
        keys = ("service", "host", "hostaddr", "port", "dbname")
        return [str(of.get(key) or usual.get(key, "")) for key in keys]

    return place(one) == place(other)


def place_of(dsn: str) -> str:
    """A connection string of an open session, without what only that session needs."""
    known = ("service", "host", "port", "dbname", "user")
    parts = conninfo.conninfo_to_dict(dsn)
    return conninfo.make_conninfo("", **{k: str(parts[k]) for k in known if parts.get(k)})


def db_option(dsn: str) -> str:
    """The option that leads a command of a hint there, without a password: ``--db dbname=shop``."""
    return f"--db {shlex.quote(place_of(dsn))}"


def describe_dsn(dsn: str) -> str:
    """Where a connection string leads, in short: ``database@host:port``."""
    if may_show_password(dsn):
        return masked(dsn)
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        return masked(dsn)
    host, address = parts.get("host"), parts.get("hostaddr")
    if address and host and address != host:
        # The server is at the address; the name only chooses passwords and is verified.
        host = f"{host}={address}"
    host = host or address
    if parts.get("service"):
        return f"service {parts['service']}" + (f" at {host}" if host else "")
    database = parts.get("dbname") or os.environ.get("PGDATABASE") or "(default database)"
    host = host or os.environ.get("PGHOST") or "local socket"
    port = parts.get("port") or os.environ.get("PGPORT") or "5432"
    return f"{database}@{host}:{port}"
