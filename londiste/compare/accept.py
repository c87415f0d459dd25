"""Findings about rows that were changed without events, and their end by a comparison.

The proof is about the table as it was read.  So its shape is kept from before the comparison, and
compared under a lock that keeps DDL out, in the transaction that ends the finding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from londiste.compare.context import open_session
from londiste.compare.result import TableResult
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.db.queries import first, translated
from londiste.errors import AccessDenied, InstallError, LondisteError
from londiste.replication import lost_rows
from londiste.replication import sqlapi as tables
from londiste.settings import WorkerSettings


class Accepted(Enum):
    """Whether a finding has ended.  DENIED: this role has not the right.  CHANGED: DDL came."""

    ENDED = "ended"
    DENIED = "denied"
    CHANGED = "changed"


@dataclass(frozen=True)
class Doubt:
    """A finding about a table of this node.

    what -- in words; rewritten -- changed without events, which the root may have found, too.
    shape -- of the table before the comparison.
    """

    table: TableName
    dest: TableName
    what: str
    rewritten: bool
    shape: str | None


def doubts(settings: WorkerSettings) -> dict[str, Doubt]:
    """The findings of this node by table; none before 4.1.0."""
    with contextlib.suppress(InstallError), open_session(settings) as conn:
        queue = settings.queue_name
        rewritten = tables.rewritten_tables(conn, queue)
        changed = dict.fromkeys(rewritten, "was changed without events")
        marked = changed | lost_rows.find(conn, queue)
        if not marked:
            return {}
        dests = {table.name: table.dest for table in tables.get_table_list(conn, queue)}
        return {
            str(name): Doubt(name, dests[name], what, name in rewritten, shape(conn, dests[name]))
            for name, what in marked.items()
        }
    return {}


def unproven(result: TableResult) -> tuple[str, str] | None:
    """Why an equal table may have other values than the root, and what to do; None: it has not.

    Pure.  Columns of this node alone are not replicated.
    """
    pairing = result.pairing
    if columns := pairing.unread:
        words = "column {} of the root was" if len(columns) == 1 else "columns {} of the root were"
        why = f"{words.format(', '.join(columns))} not compared"
        return why, f"londiste resync {argument(result.table)} ends it"
    if columns := pairing.computed:
        return (
            f"generated columns have other expressions than on the root: {', '.join(columns)}",
            "give them the expressions of the root and compare it again",
        )
    if columns := pairing.lossy:
        return (
            f"the types on this node do not keep all values of the root: {', '.join(columns)}",
            "give these columns the types of the root and compare it again",
        )
    if result.ranges_known:
        return "some of its ranges were compared before", "compare it without --resume"
    return None


def accept(settings: WorkerSettings, found: Mapping[str, Doubt], name: str) -> Accepted:
    """Ends the finding about a table that is equal, if it still is the table that was compared."""
    with open_session(settings) as conn:
        doubt = found[name]
        try:
            with conn.transaction():
                # DDL waits for it, and this does not wait for DDL.
                lock = f"lock table {doubt.dest.quoted} in access share mode nowait"
                with translated(conn):
                    conn.execute(lock.encode())
                if shape(conn, doubt.dest) != doubt.shape:
                    return Accepted.CHANGED
                call.ret(conn, "londiste.accept_rewrite", settings.queue_name, name)
        except AccessDenied:
            return Accepted.DENIED
        except LondisteError:
            return Accepted.CHANGED
    return Accepted.ENDED


def shape(conn: Connection, table: TableName) -> str | None:
    """The shape of a table; None: it does not exist."""
    row = first(conn, "table_shape", name=table.quoted)
    return None if row is None else row[0]
