"""Connection strings in messages, without passwords.

``masked`` and ``describe_dsn`` are the only forms of a connection string that may be shown.
"""

from __future__ import annotations

import os

import psycopg
from psycopg import conninfo


def masked(dsn: str) -> str:
    """The connection string with every secret replaced by ``***``."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        # Where the password begins and ends in such a text, nobody can tell.
        return "(a string that libpq cannot read)"
    shown = {
        key: ("***" if key in {"password", "sslpassword"} else value)
        for key, value in parts.items()
        if value is not None
    }
    return conninfo.make_conninfo("", **shown) if shown else "(defaults of libpq)"


def describe_dsn(dsn: str) -> str:
    """Where a connection string leads, in short: ``database@host:port``."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        return masked(dsn)
    if parts.get("service"):
        return f"service {parts['service']}"
    database = parts.get("dbname") or os.environ.get("PGDATABASE") or "(default database)"
    host = parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST") or "local socket"
    port = parts.get("port") or os.environ.get("PGPORT") or "5432"
    return f"{database}@{host}:{port}"
