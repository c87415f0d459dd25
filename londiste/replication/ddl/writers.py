"""Keeps applications out of the replicated tables that a script writes from, or reads, on the root.

A script that writes rows has the same effect on every node only if no transaction is open that has
written into these tables: its events have lower numbers than the script, so other nodes apply them
before the script, which has not seen these rows on the root.  A lock waits for such transactions:

    before a statement    of the tables that its words name
    behind the last one   the server tells what else it has read or written, in functions, triggers
                          and views; then the script is rolled back, and runs again with these locks
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import psycopg

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import records, savepoint, tuples
from londiste.replication.ddl.rows import may_write
from londiste.replication.ddl.split import Statement

log = logging.getLogger(__name__)


class Used(NamedTuple):
    """A table that a script has read or written.

    written -- a statement could have written into it, even if it found no row.
    locked -- no other transaction may write into it.
    """

    oid: int
    written: bool
    locked: bool


@dataclass
class WriterLock:
    """The tables of a queue's root that a script has locked, or has to.

    tables -- those that are replicated, and what is in their trees, by their oids.
    wanted -- to be locked before the first statement.
    refused -- the session's role may not lock them.
    """

    tables: Mapping[int, TableName]
    wanted: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, conn: Connection, queue: str) -> WriterLock:
        """For a script on the root of ``queue``; it locks nothing yet."""
        found = tuples(conn, "script_tables", queue=queue)
        return cls({oid: TableName(schema, name) for oid, schema, name in found})

    def begin(self, conn: Connection) -> None:
        """Locks the tables that a former attempt has used."""
        self._lock(conn, self.wanted)

    def before(self, conn: Connection, statement: Statement) -> None:
        """Locks the tables that a statement names, if it may write rows."""
        if may_write([statement]):
            self._lock(conn, named(statement, self.tables))

    def missed(self, conn: Connection, *, wrote: bool) -> bool:
        """Whether the script has used tables without such a lock, which ``begin`` locks then.

        wrote -- it has written rows.  Inside the savepoint of the script.
        """
        used = records(conn, Used, "script_used", oids=sorted(self.tables))
        found = unlocked(used, wrote=wrote) - self.wanted - self.refused
        self.wanted |= found
        return bool(found)

    def _lock(self, conn: Connection, oids: Iterable[int]) -> None:
        for oid in sorted(set(oids) - self.refused):
            name = self.tables[oid]
            try:
                with savepoint(conn):
                    conn.execute(f"lock table {name.quoted} in share row exclusive mode".encode())
            except psycopg.errors.UndefinedTable:
                # The script has dropped or renamed it, which is refused at its end.
                continue
            except psycopg.errors.InsufficientPrivilege:
                self.refused.add(oid)
                log.warning(
                    "table %s: role %s may not lock it: if applications write into it during the"
                    " script, other nodes may stop at the script",
                    name,
                    conn.info.user,
                )


def named(statement: Statement, tables: Mapping[int, TableName]) -> set[int]:
    """Pure: the tables whose names are words of a statement, in any schema."""
    words = {word.text for word in statement.words if word.names}
    return {oid for oid, name in tables.items() if name.name in words}


def unlocked(used: Iterable[Used], *, wrote: bool) -> set[int]:
    """Pure: the tables to be locked for a script: none, unless it could write rows.

    wrote -- it has written rows.
    """
    found = list(used)
    if not wrote and not any(one.written for one in found):
        return set()
    return {one.oid for one in found if not one.locked}
