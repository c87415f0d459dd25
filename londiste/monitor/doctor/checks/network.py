"""Checks of the connections themselves: encryption."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.db import tls
from londiste.monitor.doctor.situation import Situation, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {
    "connection": "connection that is neither encrypted nor local",
    "unreachable": "database that cannot be reached",
    "access": "user or password that the server refuses",
    "tls": "server that cannot prove its identity",
    "pooler": "pooler in transaction or statement mode",
}


def check(pair: Situation) -> Iterator[Finding]:
    """Findings about connections that others can read; the others come from ``examine``."""
    for side, facts in pair.sides:
        if tls.exposed(facts.more.address, encrypted=facts.more.encrypted):
            yield warning(
                "connection",
                f"the connection to the {side} server at {facts.more.address} is neither"
                " encrypted nor local",
                "hosts on the network path can read and change all rows",
                "use sslmode=verify-full and a root certificate: docs/howto/tls.md",
                side=side,
                object=facts.more.address,
            )
