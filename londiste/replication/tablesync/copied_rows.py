"""Rows that a copy has written, in tables that keep the rows of others (``skip_truncate``).

They are known by the transactions that wrote them, until the copy has ended; behind that, changes
of the source have touched them, and they are rows like all others.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from londiste.db import call, owner
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.db.queries import tuples
from londiste.errors import StateError, UsageError
from londiste.replication.forwarding import combined_queue
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import states

log = logging.getLogger(__name__)


def written(conn: Connection, queue: str, table: TableName) -> list[int]:
    """The transactions of the chunks that unfinished attempts have written.  Raises LockTimeout."""
    return call.records(conn, int, "londiste.copy_written", queue, str(table))


def only_its_own(conn: Connection, queue: str, table: ReplicatedTable) -> None:
    """Raises UsageError when others, like partitions or other queues, have rows in this table."""
    others = combined_queue.others_filling(conn, queue, table.name, table.dest)
    if others:
        name, dest = argument(table.name), argument(table.dest)
        beside = f"londiste add-table {name} --dest-table {dest} --skip-truncate"
        if combined_queue.other_queues(conn, queue, table.name, table.dest):
            beside = f"londiste add-table {name} --dest-table {dest} --no-merge --skip-truncate"
        raise UsageError(
            f"table {table.dest}: also filled from {', '.join(others)}",
            detail=f"the copy of {table.name} would empty it first",
            hint=f"londiste remove-table {name}; then {beside}",
        )


def empty_with_children(conn: Connection, queue: str, table: ReplicatedTable) -> None:
    """Empties a table and its child tables, which have rows of it (``TableRules.spreads``).

    Raises UsageError where others have rows in one of them.
    """
    only_its_own(conn, queue, table)
    for child, theirs, name in tuples(conn, "replicated_children", dest=table.dest.quoted):
        raise UsageError(
            f"table {table.dest}: its child table {child} is replicated, too",
            detail=f"as {name} of queue {theirs}; the copy of {table.name} would empty it",
            hint=f"londiste remove-table {argument(name)}; the copy then restarts automatically",
        )
    owner.truncate(conn, table.dest, tree=True)


def take_back(conn: Connection, table: ReplicatedTable, by: Sequence[int], *, tree: bool) -> None:
    """Deletes the rows that these transactions wrote; ``tree``: also those of partitions."""
    if not by:
        return
    xids = ", ".join(f"'{int(xid)}'::xid" for xid in by)
    own = table.dest.own(tree).as_string(conn)
    count = owner.run(conn, table.dest, f"delete from {own} where xmin in ({xids})")  # noqa: S608
    log.info("table %s: deleted %d rows of an interrupted copy", table.name, count)


def require_known(conn: Connection, queue: str, table: ReplicatedTable) -> None:
    """Raises StateError when another copy would double the rows of this one."""
    copied = not isinstance(states.from_text(table.state), states.Missing | states.InCopy)
    if "skip_truncate" in table.attrs and copied:
        name = argument(table.name)
        others = combined_queue.other_queues(conn, queue, table.name, table.dest)
        if others:
            raise StateError(
                f"table {table.name} is also filled from queue {', '.join(others)} and cannot be"
                " copied again alone",
                detail="a copy would duplicate the rows of this queue; nothing was changed",
                hint=f"with the settings of the leaf of each part: londiste remove-table {name};"
                f" then: londiste add-table {name} --merge-all",
            )
        raise StateError(
            f"table {table.name} was added with --skip-truncate and cannot be copied again",
            detail="a copy would duplicate the rows of the target; nothing was changed",
            hint=f"londiste remove-table {name}, delete the provider's rows on this node,"
            f" then londiste add-table {name} --skip-truncate",
        )
