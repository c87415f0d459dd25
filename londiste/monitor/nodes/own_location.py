"""Findings about the stored location of a node, which other nodes use to reach it."""

from __future__ import annotations

from londiste.cascade import copied_database
from londiste.cascade import sqlapi as nodes
from londiste.cascade.copied_database import WHY, Astray
from londiste.db.names import argument
from londiste.errors import (
    AccessDenied,
    BadOption,
    LondisteError,
    NodeUnreachable,
    NotSecured,
    NotTrusted,
    UsageError,
)
from londiste.monitor.nodes.own_findings import restored
from londiste.monitor.queues.model import Finding, Severity
from londiste.monitor.schema_owners import refused
from londiste.orchestration.connections import Connections

_ELSEWHERE = "other nodes use it: they do not reach this node"


def find(sites: Connections, dsn: str, queue: str) -> list[Finding]:
    """The finding about the stored location of the node of ``dsn``, or none.

    Nobody gets in there, or it leads to another node, or to that of which the database is a copy.

    Raises BadOption for settings of this program that are wrong.
    """
    local = sites.at(dsn)
    own = nodes.get_node_info(local, queue).name
    known = {m.name: m.location for m in nodes.get_queue_locations(local, queue)}
    if own not in known:
        return []
    try:
        place = sites.reach(known[own])
        if place == dsn:
            return []
        with copied_database.stored_location(place) as there:
            found = copied_database.beside(local, there, queue, own, known)
    except BadOption:
        raise
    except NotTrusted as error:
        return [*refused(error, queue, own)]
    except (NodeUnreachable, UsageError) as error:
        rebase = bool(restored(local, queue))
        return [finding(own, error, queue, rebase=rebase)]
    if found is None:
        return []
    if isinstance(found, Astray):
        return [Finding(Severity.WARNING, "unreachable", found.what, _ELSEWHERE, found.do, queue)]
    return [Finding(Severity.CRITICAL, "node-copy", found.what, WHY, found.do, queue)]


def finding(node: str, error: LondisteError, queue: str, *, rebase: bool) -> Finding:
    """Pure: the finding about a location by which this program does not get in.

    rebase -- the database was restored from another server.
    """
    if isinstance(error, (AccessDenied, NotSecured)):
        # A server does answer there: it is the access of this program that is to be mended.
        what, do = "refuses this program", error.hint
    else:
        what, do = "does not answer", f"londiste move-node {argument(node)} CONNECTION"
        do = f"{do}; before it: londiste queue rebase" if rebase else do
    return Finding(
        Severity.WARNING,
        "unreachable",
        f"node {node}: its stored location {what}; other nodes use it",
        error.message,
        do,
        queue,
    )
