"""What databases have of a replication: an interrupted removal or set-up leaves a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade.commands import install_sql
from londiste.cascade.commands.endpoint import Endpoint
from londiste.db.connection import Connection
from londiste.orchestration.connections import Connections
from londiste.replicate.databases import Replication, node_of


@dataclass(frozen=True)
class Presence:
    """What a database has of the replication.

    node -- it is a node of the queue.  sql -- it has the SQL that this command installed.
    users -- what else uses that SQL, so that a removal keeps it, as sentences.
    """

    name: str
    node: bool
    sql: bool
    users: tuple[str, ...] = ()


def presence(sites: Connections, replication: Replication) -> list[Presence]:
    """What each database has of the replication.  Raises NodeUnreachable."""
    return [_of(one, sites.at(one.dsn), replication) for one in replication.all]


def _of(side: Endpoint, conn: Connection, replication: Replication) -> Presence:
    node = node_of(conn, replication.queue) is not None
    sql = install_sql.marked(conn, replication.mark)
    users = install_sql.users(conn) if sql and not node else ()
    return Presence(side.name, node, sql, tuple(users))


def incomplete(found: Sequence[Presence]) -> str:
    """Pure: what an interrupted removal or set-up has left; '' for all or nothing."""
    nodes_of = [one.name for one in found if one.node]
    lacking = [one.name for one in found if not one.node]
    if nodes_of and lacking:
        return f"{_are(nodes_of, 'a node', 'nodes')}, {_are(lacking, 'no node', 'no nodes')}"
    left = [one.name for one in found if one.sql and not one.users]
    if not nodes_of and left:
        return f"no database is a node any more or yet, but {', '.join(left)}" + (
            " has the SQL" if len(left) == 1 else " have the SQL"
        )
    return ""


def kept(found: Sequence[Presence]) -> list[str]:
    """Pure: which databases keep the SQL after a removal, and why."""
    return [
        f"{one.name}: the SQL is kept: {', '.join(one.users)}"
        for one in found
        if one.users and not one.node
    ]


def _are(names: Sequence[str], one: str, many: str) -> str:
    return f"{', '.join(names)} {f'is {one}' if len(names) == 1 else f'are {many}'}"
