"""Schemas of Londiste in which another role could replace what daemons call, or write."""

from __future__ import annotations

from londiste.db.connection import Connection
from londiste.install import default_rights, owners
from londiste.install.default_rights import Excess
from londiste.monitor.queues.model import Finding, Severity


def findings(conn: Connection, queue: str) -> list[Finding]:
    """The findings of ``londiste check`` about them, from the view of the session's role."""
    return [
        Finding(Severity.CRITICAL, "schema-owner", one.message, one.detail, one.hint, queue)
        for one in owners.find(conn)
    ] + [excess(one, queue) for one in default_rights.find(conn)]


def excess(one: Excess, queue: str = "") -> Finding:
    """Pure: the finding about a role that can write what is for administrators."""
    return Finding(Severity.CRITICAL, "internal-rights", one.what, one.why, one.remedy, queue)
