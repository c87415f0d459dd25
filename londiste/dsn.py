"""Connection strings in messages, without passwords.

``masked`` and ``describe_dsn`` are the only forms of a connection string that may be shown.
"""

from __future__ import annotations

import os

import psycopg
from psycopg import conninfo

#: Parameters that nobody else may see; libpq before release 18 knows only the first two.
SECRETS = (
    "password",
    "sslpassword",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
)


def masked(dsn: str) -> str:
    """The connection string with every secret replaced by ``***``."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        # Where the password begins and ends in such a text, nobody can tell.
        return "(a string that libpq cannot read)"
    shown = {
        key: ("***" if key in SECRETS else value)
        for key, value in parts.items()
        if value is not None
    }
    return conninfo.make_conninfo("", **shown) if shown else "(defaults of libpq)"


def without_secrets(dsn: str) -> str:
    """A connection string without its secrets; unchanged if it has none, or cannot be read."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        # The error is reported when a session connects.
        return dsn
    if not parts.keys() & set(SECRETS):
        return dsn
    return conninfo.make_conninfo("", **{k: v for k, v in parts.items() if k not in SECRETS})


def secrets_of(dsn: str) -> str:
    """The secrets of a connection string as another one; '' if it has none, or cannot be read."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        return ""
    return conninfo.make_conninfo("", **{k: v for k, v in parts.items() if k in SECRETS})


def place_of(dsn: str) -> str:
    """A connection string of an open session, without what only that session needs."""
    known = ("service", "host", "port", "dbname", "user")
    parts = conninfo.conninfo_to_dict(dsn)
    return conninfo.make_conninfo("", **{k: str(parts[k]) for k in known if parts.get(k)})


def describe_dsn(dsn: str) -> str:
    """Where a connection string leads, in short: ``database@host:port``."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        return masked(dsn)
    if parts.get("service"):
        return f"service {parts['service']}"
    database = parts.get("dbname") or os.environ.get("PGDATABASE") or "(default database)"
    host = parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST") or "local socket"
    port = parts.get("port") or os.environ.get("PGPORT") or "5432"
    return f"{database}@{host}:{port}"
