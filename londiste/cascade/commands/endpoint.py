"""Databases that a command gets as connection strings: what it uses, and what nodes may store."""

from __future__ import annotations

from dataclasses import dataclass, field

from psycopg import conninfo

from londiste.cascade.commands import location_check
from londiste.dsn import SECRETS, masked
from londiste.errors import BadOption


@dataclass(frozen=True)
class Endpoint:
    """The database of a node.

    dsn -- as given; may contain a password.  location -- without it; stored on the nodes.
    worker -- the consumer of its worker.
    """

    name: str
    dsn: str = field(repr=False)
    location: str
    worker: str


def parameters(dsn: str) -> dict[str, str]:
    """The parameters of a connection string.  Raises BadOption."""
    try:
        return {key: str(value) for key, value in conninfo.conninfo_to_dict(dsn).items()}
    except Exception as error:
        raise BadOption(
            f"not a connection string: {masked(dsn)}",
            hint="write it as libpq does: host=… port=… dbname=… user=…, or postgresql://…",
        ) from error


def public(dsn: str, **more: str) -> str:
    """A connection string without its secrets, and with other parameters added."""
    kept = {key: value for key, value in parameters(dsn).items() if key not in SECRETS}
    return conninfo.make_conninfo("", **{**kept, **more})


def endpoint(name: str, dsn: str, worker: str, **more: str) -> Endpoint:
    """The database of a connection string.  Raises BadOption.

    more -- parameters that the stored location needs besides those of the string.
    """
    return Endpoint(name, dsn, location_check.check_location(public(dsn, **more)), worker)
