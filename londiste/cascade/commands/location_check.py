"""Checks of a node's public connection string (its location)."""

from __future__ import annotations

import psycopg
from psycopg import conninfo

from londiste.db.advisory_lock import same_database
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.connstr.locations import refusal
from londiste.dsn import PLACE_PARAMETERS, SECRETS, parsed, reduced
from londiste.errors import BadOption, LondisteError, from_database


def check_location(location: str) -> str:
    """A location that may be stored.  Raises BadOption for a password or a syntax error."""
    parts = parsed(location)
    for secret in SECRETS:
        if parts.get(secret) is not None:
            raise BadOption(
                f"the public connection string holds a {secret}",
                detail="the string is stored on every node, readable by other users",
                hint="use a service (service=…) or a password file (~/.pgpass) instead",
            )
    found = refusal(location)
    if found is not None:
        raise BadOption(
            f"the public connection string has {found.parameter}: {found.why}",
            detail="other hosts connect with it, and administrators of queues can change it",
            hint=f"remove {found.parameter}; for the nodes that one program connects to, write it"
            " into remote_extra_connstr of its settings",
        )
    if not parts.get("dbname") and not parts.get("service"):
        raise BadOption(
            "the public connection string names no database",
            hint="add dbname=…, or use service=…",
        )
    return location


def of_database(dsn: str) -> str:
    """The location that a connection string of this program leads to.

    Its secrets remain, and ``check_location`` refuses them.
    """
    return reduced(dsn, lambda key: key in PLACE_PARAMETERS or key in SECRETS)


def reachable_from_elsewhere(location: str) -> bool:
    """False when the string leads other hosts to themselves: no host, address or service."""
    parts = conninfo.conninfo_to_dict(location)
    host = parts.get("host") or parts.get("hostaddr")
    return bool(parts.get("service") or (host and not str(host).startswith("/")))


def check_same_database(
    local: Connection, location: str, *, answer_seconds: float | None = None
) -> None:
    """Raises BadOption unless ``location`` leads to the database of ``local``."""
    try:
        with session(
            location,
            name="londiste create: check",
            autocommit=True,
            answer_seconds=answer_seconds,
        ) as other:
            same = same_database(local, other)
    except LondisteError as error:
        raise type(error)(
            error.message,
            detail="this is the public connection string of the new node",
            hint=(error.hint + "; " if error.hint else "")
            + "--nocheck if only other hosts can use it",
        ) from error
    except psycopg.Error as error:
        raise from_database(error, where=describe_dsn(location)) from error
    if not same:
        raise BadOption(
            f"the public connection string leads to another database: {describe_dsn(location)}",
            detail=f"the node is created in {describe_dsn(local.info.dsn)}",
            hint="correct public_node_location, or the string on the command line",
        )
