"""Reverts diverged rows to their state at the last common tick."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from londiste.applier.plan import TableChange
from londiste.applier.row_by_row import RowWriter
from londiste.changes.types import RowChange, Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation, shapes
from londiste.errors import StateError
from londiste.replication.failover.rejoin.divergence import Firsts, changes, read


def undo(
    conn: Connection,
    reader: Connection,
    queue: str,
    node: str,
    from_tick: int,
    to_tick: int,
    wanted: Mapping[TableName, TableName],
) -> int:
    """Reverts the rows; returns their number.  The caller's transaction decides.

    conn -- session with the replica role, in a transaction; reader -- another session there.
    wanted -- name in the events -> table here, of the tables that are undone.

    Raises StateError when the old row is unknown, EventError when it cannot be written.
    """
    shaped = shapes(conn, wanted.values())
    count = 0

    def rows() -> Iterator[tuple[Relation, TableChange]]:
        nonlocal count
        firsts = Firsts()
        for event, change in changes(read(reader, queue, from_tick, to_tick)):
            if not isinstance(change, RowChange | Truncate) or change.table not in wanted:
                continue
            shape = shaped[wanted[change.table]]
            was = firsts.before(event, change, shape)
            if isinstance(was, str):
                raise StateError(
                    f"table {change.table} cannot be undone: {was}",
                    detail="nothing was changed",
                    hint="run the command with --resync: it copies the table again",
                )
            if was is not None:
                count += 1
                yield shape, was

    writer = RowWriter(conn, node=node, queue=queue)
    writer.write(rows)
    writer.settle()
    return count
