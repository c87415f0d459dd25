"""Shapes of this node's tables between batches: asked for again when a table has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation, shapes, versions
from londiste.replication.apply.routing import PLAIN, RoutingTable, Shaping


class RelationCache:
    """Shapes of the tables, asked for again when a table has changed since the last batch."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._known: dict[TableName, Relation] = {}
        self._checked: set[TableName] = set()
        self._shaping: Mapping[TableName, Shaping] = {}

    def check_again(self, interest: RoutingTable) -> None:
        """A new batch begins: nothing is taken for granted.

        interest -- says which rows its tables keep, and what changes them.
        """
        self._checked.clear()
        shaping = interest.shaping
        if shaping != self._shaping:
            for table in shaping.keys() | self._shaping.keys():
                if shaping.get(table) != self._shaping.get(table):
                    self._known.pop(table, None)
            self._shaping = shaping

    def forget(self) -> None:
        """The tables may have changed in this transaction: they are looked at again."""
        self._known.clear()
        self._checked.clear()

    def remembered(self, tables: Collection[TableName]) -> dict[TableName, Relation] | None:
        """What the tables were when they were last looked at; None if one never was."""
        if not self._known.keys() >= set(tables):
            return None
        return {table: self._known[table] for table in tables}

    def checked(self, tables: Iterable[TableName]) -> None:
        """They were found to be what they were."""
        self._checked.update(tables)

    def of(self, tables: Iterable[TableName]) -> dict[TableName, Relation]:
        """The shapes of those of the tables that exist."""
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
