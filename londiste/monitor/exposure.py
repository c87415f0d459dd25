"""Sessions of Londiste in a database that are neither encrypted nor local."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.monitor.queues.model import Finding, Severity


@dataclass(frozen=True)
class Exposed:
    """Sessions of one client: its address, and the names of the sessions."""

    client: str
    names: str


def find(conn: Connection) -> tuple[Exposed, ...]:
    """Those that are open now and are neither encrypted nor local."""
    return tuple(Exposed(*map(str, row)) for row in tuples(conn, "exposed_sessions"))


def findings(found: tuple[Exposed, ...], queue: str) -> list[Finding]:
    """The findings of ``londiste check`` about them."""
    return [
        Finding(
            Severity.WARNING,
            "connection",
            f"sessions from {one.client} are neither encrypted nor local: {one.names}",
            "hosts on the network path can read and change all rows",
            "use sslmode=verify-full and a root certificate: docs/howto/tls.md",
            queue,
        )
        for one in found
    ]
