"""Schemas of Londiste in which another role could replace what daemons call, or write."""

from __future__ import annotations

from londiste.db.connection import Connection
from londiste.db.names import argument
from londiste.errors import LondisteError, NotTrusted
from londiste.install import default_rights, owners
from londiste.install.default_rights import Excess
from londiste.monitor.queues.model import Finding, Severity


def findings(conn: Connection, queue: str) -> list[Finding]:
    """The findings of ``londiste check`` about them, from the view of the session's role."""
    return [
        Finding(Severity.CRITICAL, "schema-owner", one.message, one.detail, one.hint, queue)
        for one in owners.find(conn)
    ] + [excess(one, queue) for one in default_rights.find(conn)]


def refused(error: LondisteError, queue: str, node: str = "") -> tuple[Finding, ...]:
    """Pure: the finding about a database in which nothing was asked; none for other errors.

    node -- whose stored location leads there.
    """
    if not isinstance(error, NotTrusted):
        return ()
    what, do = error.message, error.hint
    if node:
        what = f"node {node}: {what}"
        do = f"if the node is elsewhere: londiste move-node {argument(node)} CONNECTION; else: {do}"
    return (Finding(Severity.CRITICAL, "schema-owner", what, error.detail, do, queue),)


def excess(one: Excess, queue: str = "") -> Finding:
    """Pure: the finding about a role that can write what is for administrators."""
    return Finding(Severity.CRITICAL, "internal-rights", one.what, one.why, one.remedy, queue)
