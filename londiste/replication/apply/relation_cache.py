"""Cache of this node's table schemas; a changed table is read again.

A table that is not the one that was copied is none of them: whoever writes it stops, as for a table
that is missing.  Nobody looks for it before the table is read, and it is read again when it or its
name has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation, shapes, versions
from londiste.replication import renamed_tables
from londiste.replication.apply.routing import PLAIN, RoutingTable, Shaping
from londiste.replication.renamed_tables import CopiedTable


class RelationCache:
    """Table schemas, read again when a table has changed since the last batch.

    queue -- of a node; '' for tables that no node has copied.
    """

    def __init__(self, conn: Connection, queue: str = "") -> None:
        self._conn = conn
        self._queue = queue
        #: What was copied instead of the table that has the name.
        self.replaced: dict[TableName, CopiedTable] = {}
        self._known: dict[TableName, Relation] = {}
        self._checked: set[TableName] = set()
        self._shaping: Mapping[TableName, Shaping] = {}

    def check_again(self, interest: RoutingTable) -> None:
        """Starts a batch: cached schemas have to be verified.

        interest -- has the row filters and value changes of its tables.
        """
        self._checked.clear()
        shaping = interest.shaping
        if shaping != self._shaping:
            for table in shaping.keys() | self._shaping.keys():
                if shaping.get(table) != self._shaping.get(table):
                    self._known.pop(table, None)
            self._shaping = shaping

    def forget(self) -> None:
        """Invalidates the cache: this transaction may have changed tables."""
        self._known.clear()
        self._checked.clear()

    def remembered(self, tables: Collection[TableName]) -> dict[TableName, Relation] | None:
        """The schemas at the last read; None if a table was never read."""
        if not self._known.keys() >= set(tables):
            return None
        return {table: self._known[table] for table in tables}

    def stale(self, tables: Iterable[TableName]) -> None:
        """Reads these tables again: their names may be those of other tables."""
        for table in tables:
            self._known.pop(table, None)
            self._checked.discard(table)

    def checked(self, tables: Iterable[TableName]) -> None:
        """Marks cached schemas as verified."""
        self._checked.update(tables)

    def oids(self, tables: Iterable[TableName]) -> dict[TableName, int]:
        """The oids of those tables that were read."""
        return {table: self._known[table].oid for table in tables if table in self._known}

    def of(self, tables: Iterable[TableName]) -> dict[TableName, Relation]:
        """The schemas of those tables that exist, and are not ``replaced``."""
        wanted = set(tables)
        new = wanted - self._checked
        if new:
            self._check(new)
            self._checked |= new
        return {table: self._known[table] for table in wanted if table in self._known}

    def _check(self, new: set[TableName]) -> None:
        old = {table: self._known[table] for table in new if table in self._known}
        now = versions(self._conn, [shape.oid for shape in old.values()]) if old else {}
        changed = {t for t in new if t not in old or now.get(old[t].oid) != old[t].version}
        if changed:
            found = shapes(self._conn, changed)
            others = {}
            if self._queue and found:
                oids = {table: shape.oid for table, shape in found.items()}
                others = renamed_tables.replaced(self._conn, self._queue, oids)
            for table in changed:
                self._known.pop(table, None)
                self.replaced.pop(table, None)
            self.replaced |= others
            for table, shape in found.items():
                if table in others:
                    continue
                where, rows, policy = want = self._shaping.get(table, PLAIN)
                shaped = replace(shape, where=where, rows=rows, on_error=policy)
                self._known[table] = shape if want == PLAIN else shaped
