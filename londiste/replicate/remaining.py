"""What ``replicate --dry-run`` shows of the steps that are planned only when others are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from londiste.db.names import TableName
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Later
from londiste.replicate.databases import Replication, node_of
from londiste.replicate.setup import Share, replicated

#: The tables that each node has, by its name; None where the database is no node yet.
Existing = Mapping[str, Collection[TableName] | None]


def existing(sites: Connections, replication: Replication) -> Existing:
    """What the databases have of a queue."""
    queue = replication.queue
    return {
        one.name: None if node_of(conn, queue) is None else replicated(conn, [queue])
        for one in replication.all
        for conn in [sites.at(one.dsn)]
    }


def later(shares: Sequence[Share], there: Sequence[Existing]) -> list[Later]:
    """Pure: the remaining steps after ``setup.first`` in words.

    there -- what the databases have, for each queue.
    """
    of_queues = list(map(_words, shares, there))
    return [Later(text) for same in zip(*of_queues, strict=True) for text in same if text]


def _words(share: Share, there: Existing) -> list[str]:
    """Pure: the remaining steps of a queue, '' for what is done, as ``setup.stages`` has them."""
    replication, several = share.replication, share.selection.only is not None
    source, targets = replication.source.name, [one.name for one in replication.targets]
    leaf = f"leaf of queue {replication.queue}" if several else "leaf"

    def add(name: str, does: str, after: str = "") -> str:
        known = there[name] or ()
        missing = [table for table in share.names if table not in known]
        if not missing:
            return ""
        many = f"{len(missing)} tables" if len(missing) > 1 else f"table {missing[0]}"
        many += f" to queue {replication.queue}" if several else ""
        return f"{name}: {does} {many}{after}"

    create = [
        f"{source}: create root of queue {replication.queue}",
        *(f"{name}: create {leaf}, provider {source}" for name in targets),
    ]
    return [
        *(
            text if there[name] is None else ""
            for name, text in zip((source, *targets), create, strict=True)
        ),
        add(source, "add"),
        *(add(name, "create if missing and add", ", to be copied") for name in targets),
    ]
