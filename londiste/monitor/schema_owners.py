"""Schemas of Londiste in which another role could replace what daemons call."""

from __future__ import annotations

from londiste.db.connection import Connection
from londiste.install import owners
from londiste.monitor.queues.model import Finding, Severity


def findings(conn: Connection, queue: str) -> list[Finding]:
    """The findings of ``londiste check`` about them, from the view of the session's role."""
    return [
        Finding(Severity.CRITICAL, "schema-owner", one.message, one.detail, one.hint, queue)
        for one in owners.find(conn)
    ]
