"""Nodes whose schemas are those of Londiste 3: which they are, and what cannot read from them."""

from __future__ import annotations

from londiste.cascade import nodes
from londiste.cascade.plan import Sites
from londiste.db.connection import Connection, masked, place
from londiste.errors import InstallError, NodeUnreachable
from londiste.install import ledger

_SCHEMAS = ("pgq", "pgq_node", "londiste")


def is_original(conn: Connection) -> bool:
    """Whether a database has the schemas of Londiste 3, as extensions or not."""
    found = [ledger.read(conn, name) for name in _SCHEMAS]
    return any(one.extension is not None or one.foreign for one in found)


def require_adopted(conn: Connection, name: str) -> None:
    """Raises InstallError when the node ``name`` cannot be a provider of a node of ours."""
    if is_original(conn):
        raise InstallError(
            f"node {name} has the schemas of Londiste 3: no worker of ours can read from it",
            detail=f"{place(conn.info.dsn)}; nothing was changed",
            hint=f'londiste install --adopt --db "{masked(conn.info.dsn)}"',
        )


def originals(sites: Sites, conn: Connection, queue: str) -> list[str]:
    """The nodes of a queue that have the schemas of Londiste 3, of those that answer."""
    found = []
    for member in nodes.get_queue_locations(conn, queue):
        if not member.dead:
            try:
                if is_original(sites.at(sites.reach(member.location))):
                    found.append(member.name)
            except NodeUnreachable:
                continue
    return found


__all__ = ["is_original", "originals", "require_adopted"]
