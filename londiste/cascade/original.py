"""Detection of nodes that have the schemas or the worker of Londiste 3."""

from __future__ import annotations

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.db.connection import Connection, describe_dsn
from londiste.dsn import db_option
from londiste.errors import InstallError, NodeUnreachable, UsageError
from londiste.install import ledger
from londiste.orchestration.connections import Connections
from londiste.pgq import position_check

_SCHEMAS = ("pgq", "pgq_node", "londiste")


def is_original(conn: Connection) -> bool:
    """Whether a database has the schemas of Londiste 3, as extensions or not."""
    found = ledger.read_all(conn, _SCHEMAS)
    return any(one.extension is not None or one.foreign for one in found.values())


def require_adopted(conn: Connection, name: str) -> None:
    """Raises InstallError when the node ``name`` cannot be a provider of a node of Londiste 4."""
    if is_original(conn):
        raise InstallError(
            f"node {name} has the schemas of Londiste 3 and cannot be a provider",
            detail=f"{describe_dsn(conn.info.dsn)}; nothing was changed",
            hint=f"londiste install --adopt {db_option(conn.info.dsn)}",
        )


def originals(sites: Connections, conn: Connection, queue: str, *, adopted: bool) -> list[str]:
    """The nodes of a queue whose worker is that of Londiste 3, of those that answer.

    adopted -- the queue has tables from the time of Londiste 3: a node with new schemas counts
        when its worker has run and is that of Londiste 3.
    """
    found = []
    own = nodes.get_node_info(conn, queue).name
    for member in nodes.get_queue_locations(conn, queue):
        if not member.dead:
            try:
                # Its own location may lead nowhere, as after a restore under another name.
                there = conn if member.name == own else sites.at(sites.reach(member.location))
                if is_original(there) or (adopted and _has_their_worker(there, queue)):
                    found.append(member.name)
            except (NodeUnreachable, UsageError):
                continue
    return found


def _has_their_worker(conn: Connection, queue: str) -> bool:
    """Whether the worker records the provider's queue in its node; that of Londiste 3 does not."""
    node = nodes.find_node_info(conn, queue)
    return (
        node is not None
        and node.type is not NodeType.ROOT
        and node.uptodate
        and position_check.recall(conn, queue, node.worker) is None
    )
