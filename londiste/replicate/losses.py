"""What keeps changes of tables, or values of their columns, from the databases of ``replicate``."""

from __future__ import annotations

from collections.abc import Sequence

from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.monitor.captures import losses
from londiste.monitor.queues.model import Finding, Severity
from londiste.orchestration.connections import Connections
from londiste.replicate.databases import Replication, node_of
from londiste.replication.commands import columns

#: Kind of findings about columns that a target lacks, which the checks before the start have, too.
STRUCTURE = "structure"
#: The findings by queue, and in it by database.
Lost = Sequence[Sequence[Sequence[Finding]]]


def look_for_losses(sites: Connections, replications: Sequence[Replication]) -> Lost:
    """What keeps changes of tables from the databases, or from those below.

    Slower than the state: if there is something, each table is looked at.
    """
    return [
        [
            losses_of(sites.at(side.dsn), one.queue, None if side is one.source else root)
            for side in one.all
        ]
        for one in replications
        for root in [sites.at(one.source.dsn)]
    ]


def losses_of(conn: Connection, queue: str, root: Connection | None = None) -> list[Finding]:
    """The findings of one database.  root -- its source, if that is another one and answers."""
    node = node_of(conn, queue)
    if node is None:
        return []
    found = losses.find(conn, queue)
    if root is None or node_of(root, queue) is None:
        return found
    return found + [
        _without(name, missing, node.name, queue)
        for name, missing in columns.lacking(conn, root, queue).items()
    ]


def _without(table: TableName, missing: Sequence[str], node: str, queue: str) -> Finding:
    one = len(missing) == 1
    return Finding(
        Severity.CRITICAL,
        STRUCTURE,
        f"table {table} does not store column{'' if one else 's'} {', '.join(missing)} of the"
        " source",
        f"{'its' if one else 'their'} values are lost",
        f"with the settings of {node}: londiste columns {argument(table)} --add",
        queue,
    )
