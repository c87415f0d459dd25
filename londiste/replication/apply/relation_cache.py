"""Cache of this node's table schemas; a changed table is read again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation, shapes, versions
from londiste.replication.apply.routing import PLAIN, RoutingTable, Shaping


class RelationCache:
    """Table schemas, read again when a table has changed since the last batch."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
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

    def of(self, tables: Iterable[TableName]) -> dict[TableName, Relation]:
        """The schemas of those tables that exist."""
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
            for table in changed:
                self._known.pop(table, None)
            for table, shape in found.items():
                where, rows, policy = want = self._shaping.get(table, PLAIN)
                shaped = replace(shape, where=where, rows=rows, on_error=policy)
                self._known[table] = shape if want == PLAIN else shaped
