"""Commands that create a node, for hints: whole, with placeholders for what is not known."""

from __future__ import annotations

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db.connection import Connection
from londiste.db.names import argument, word


def create(
    kind: NodeType,
    name: str = "",
    location: str = "",
    *,
    provider: str = "",
    merge: str | None = None,
) -> str:
    """Pure: the command that creates a branch or leaf.

    location, provider -- connection strings without passwords, as the nodes store them.
    """
    words = ["londiste", f"create-{kind.value}", word(name) if name else "NAME"]
    if location:
        words.append(word(location))
    words += ["--provider", word(provider) if provider else "DSN"]
    if merge:
        words += ["--merge", word(merge)]
    return " ".join(words)


def again(
    kind: NodeType,
    name: str,
    location: str = "",
    *,
    provider: str = "",
    merge: str | None = None,
) -> str:
    """Pure: how a node is dropped and created again."""
    return (
        f"londiste drop-node {argument(name)}; then, with the settings of {name}:"
        f" {create(kind, name, location, provider=provider, merge=merge)}"
    )


def location_of(conn: Connection, queue: str, name: str) -> str:
    """Where a node is, as the node of ``conn`` knows it; '' for one that it does not know."""
    known = {one.name: one.location for one in nodes.get_queue_locations(conn, queue)}
    return known.get(name, "")


def like(conn: Connection, info: NodeInfo) -> str:
    """The command that creates the branch or leaf of ``conn`` as it is, below its provider."""
    return create(
        info.type,
        info.name,
        location_of(conn, info.queue, info.name),
        provider=info.provider_location,
        merge=info.combined_queue,
    )
