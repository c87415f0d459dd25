"""Changes that are difficult to apply as a set, with the rows that they must end in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from londiste.applier.applier import Applier
from londiste.applier.plan import TableChange
from londiste.changes.types import Op, RowChange, Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import shapes
from londiste.replication.apply.routing import plan
from tests.fixtures.cluster import Database

T = TableName("public", "t")


class Target:
    """A database with a table ``t``; events are numbered as they are given."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.conn: Connection = database.connect(replica=True, lock_timeout_ms=500)
        self.applier = Applier(self.conn, node="leaf", queue="q")
        self.number = 0

    def i(self, table: TableName = T, **image: str | None) -> RowChange:
        return self._change(Op.INSERT, table, image)

    def u(self, table: TableName = T, **image: str | None) -> RowChange:
        return self._change(Op.UPDATE, table, image)

    def d(self, table: TableName = T, **image: str | None) -> RowChange:
        return self._change(Op.DELETE, table, image)

    def s(self, table: TableName = T, **image: str | None) -> RowChange:
        return self.i(table, **image)._replace(state=True)

    def n(self, table: TableName = T, **image: str | None) -> RowChange:
        return self.d(table, **image)._replace(state=True)

    def r(self, table: TableName = T) -> Truncate:
        self.number += 1
        return Truncate(self.number, 1, table)

    def _change(self, op: Op, table: TableName, image: dict[str, str | None]) -> RowChange:
        self.number += 1
        return RowChange(self.number, 1, table, op, (next(iter(image)),), image)

    def apply(self, *changes: TableChange) -> None:
        grouped: dict[TableName, list[TableChange]] = {}
        for change in changes:
            grouped.setdefault(change.table, []).append(change)
        with self.conn.transaction():
            self.conn.execute("select 1")
            self.applier.apply(plan(grouped, shapes(self.conn, grouped), node="leaf"))

    def rows(self, sql: str = "select * from public.t order by 1") -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.database.execute(sql)]


HAZARDS: dict[str, tuple[str, Callable[[Target], list[TableChange]], list[tuple[int, str]]]] = {
    "unique value swapped between rows": (
        "(1, 'x'), (2, 'y')",
        lambda t: [t.u(id="1", v="~"), t.u(id="2", v="x"), t.u(id="1", v="y")],
        [(1, "y"), (2, "x")],
    ),
    "chain of updates": (
        "(1, 'a'), (2, 'b'), (3, 'c')",
        lambda t: [t.u(id="1", v="z"), t.u(id="2", v="a"), t.u(id="3", v="b")],
        [(1, "z"), (2, "a"), (3, "b")],
    ),
    "chain of updates, rows in the other order": (
        "(3, 'c'), (2, 'b'), (1, 'a')",
        lambda t: [t.u(id="1", v="z"), t.u(id="2", v="a"), t.u(id="3", v="b")],
        [(1, "z"), (2, "a"), (3, "b")],
    ),
    "delete, insert of another key with the value": (
        "(1, 'x')",
        lambda t: [t.d(id="1"), t.i(id="2", v="x")],
        [(2, "x")],
    ),
    "update frees, insert takes": (
        "(1, 'x')",
        lambda t: [t.u(id="1", v="y"), t.i(id="2", v="x")],
        [(1, "y"), (2, "x")],
    ),
    "delete frees, update takes": (
        "(1, 'x'), (2, 'y')",
        lambda t: [t.d(id="1"), t.u(id="2", v="x")],
        [(2, "x")],
    ),
    "inserted row gives its value away": (
        "(1, 'x')",
        lambda t: [t.i(id="2", v="y"), t.u(id="2", v="z"), t.u(id="1", v="y")],
        [(1, "y"), (2, "z")],
    ),
    "delete and insert of the same key": (
        "(1, 'x')",
        lambda t: [t.d(id="1"), t.i(id="1", v="y")],
        [(1, "y")],
    ),
    "key changed": (
        "(1, 'x')",
        lambda t: [t.d(id="1"), t.i(id="5", v="x")],
        [(5, "x")],
    ),
    "keys swapped": (
        "(1, 'x'), (2, 'y')",
        lambda t: [
            *(t.d(id="1"), t.i(id="9", v="x")),
            *(t.d(id="2"), t.i(id="1", v="y")),
            *(t.d(id="9"), t.i(id="2", v="x")),
        ],
        [(1, "y"), (2, "x")],
    ),
    "truncate in the middle": (
        "(1, 'x'), (2, 'y')",
        lambda t: [t.u(id="1", v="z"), t.i(id="3", v="w"), t.r(), t.i(id="1", v="x")],
        [(1, "x")],
    ),
    "rows as they are now, there before or not": (
        "(1, 'x'), (2, 'y')",
        lambda t: [t.s(id="1", v="z"), t.s(id="3", v="x"), t.n(id="2"), t.n(id="7")],
        [(1, "z"), (3, "x")],
    ),
    "rows as they are now pass a unique value on": (
        "(1, 'x'), (2, 'y')",
        lambda t: [t.s(id="1", v="y"), t.s(id="2", v="x"), t.s(id="3", v="z"), t.n(id="4")],
        [(1, "y"), (2, "x"), (3, "z")],
    ),
    "row that comes and goes": (
        "(1, 'x')",
        lambda t: [t.i(id="2", v="y"), t.u(id="2", v="z"), t.d(id="2")],
        [(1, "x")],
    ),
}

CONFLICTS: dict[str, tuple[str, str, Callable[[Target], list[TableChange]], list[Any]]] = {
    "states swap a value, columns of its own": (
        "id int primary key, u int unique, own text default 'new'",
        "(1, 1, 'one'), (2, 2, 'two')",
        lambda t: [t.s(id="1", u="2"), t.s(id="2", u="1"), t.s(id="3", u="3")],
        [(1, 2, "one"), (2, 1, "two"), (3, 3, "new")],
    ),
    "states swap a value, keys whose text does not tell": (
        "id interval primary key, u int unique, own text default 'new'",
        "('24:00', 1, 'one'), ('2 days', 2, 'two')",
        lambda t: [
            *(t.s(id="1 day", u="2"), t.s(id="3 days", u="7")),
            *(t.s(id="48:00:00", u="3"), t.u(id="24:00:00", u="4")),
        ],
        [
            (timedelta(1), 4, "one"),
            (timedelta(2), 3, "two"),
            (timedelta(3), 7, "new"),
        ],
    ),
    "a row that waits is deleted": (
        "id float8 primary key, u int unique",
        "(1, 1), (2, 2)",
        lambda t: [t.s(id="1", u="2"), t.n(id="1"), t.s(id="5", u="1"), t.d(id="2")],
        [(5, 1)],
    ),
    "a row that waits goes with its table": (
        "id float8 primary key, u int unique",
        "(1, 1), (2, 2)",
        lambda t: [t.s(id="1", u="2"), t.r(), t.i(id="1", u="9")],
        [(1, 9)],
    ),
    "an insert is told before the delete that it follows": (
        "id float8 primary key, u int unique",
        "(1, 1)",
        lambda t: [t.i(id="2", u="1"), t.d(id="1")],
        [(2, 1)],
    ),
    "an update is told before the one that it follows": (
        "id float8 primary key, u int unique, own text",
        "(1, 1, 'one'), (2, 2, 'two')",
        lambda t: [t.u(id="1", u="2"), t.u(id="2", u="1")],
        [(1, 2, "one"), (2, 1, "two")],
    ),
    "an insert is told before the delete of its own row": (
        "id int primary key, u int",
        "(1, 1), (2, 2)",
        lambda t: [t.i(id="1", u="7"), t.n(id="1"), t.s(id="1", u="7"), t.n(id="2")],
        [(1, 7)],
    ),
    "the same, and the row is deleted later": (
        "id int primary key, u int",
        "(1, 1), (2, 2)",
        lambda t: [t.i(id="1", u="7"), t.s(id="1", u="7"), t.n(id="2"), t.d(id="1")],
        [],
    ),
    "the same, after another change": (
        "id int primary key, u int",
        "(1, 1)",
        lambda t: [t.u(id="1", u="5"), t.i(id="1", u="7"), t.s(id="1", u="7")],
        [(1, 7)],
    ),
    "the same, keys whose text does not tell": (
        "id float8 primary key, u int",
        "(1, 1)",
        lambda t: [t.i(id="1", u="7"), t.s(id="1", u="7"), t.u(id="1", u="8")],
        [(1, 8)],
    ),
    "an exclusion constraint": (
        "id int primary key, u int, exclude using btree (u with =)",
        "(1, 1), (2, 2)",
        lambda t: [t.u(id="1", u="2"), t.u(id="2", u="1")],
        [(1, 2), (2, 1)],
    ),
}

FAILURES: dict[str, tuple[Callable[[Target], list[TableChange]], str, str]] = {
    "update of a row that is missing": (
        lambda t: [t.u(id="1", v="new"), t.u(id="7", v="x"), t.i(id="8", v="y")],
        "event 2 (update of table public.t) cannot be applied on node leaf: no row matches the key",
        "londiste compare public.t",
    ),
    "delete of a row that is missing": (
        lambda t: [t.u(id="1", v="new"), t.d(id="7")],
        "event 2 (delete of table public.t) cannot be applied on node leaf: no row matches the key",
        "londiste resync public.t",
    ),
    "insert of a row that is there": (
        lambda t: [t.i(id="8", v="y"), t.i(id="1", v="new")],
        "event 2 (insert of table public.t) cannot be applied on node leaf: duplicate key value"
        ' violates unique constraint "t_pkey"',
        "londiste compare public.t",
    ),
    "value that does not fit": (
        lambda t: [t.i(id="8", v="y"), t.i(id="9 secret", v="y")],
        "event 2 (insert of table public.t) cannot be applied on node leaf:"
        " invalid input syntax for type integer: ***",
        "change the definition of public.t to match",
    ),
    "column that is missing": (
        lambda t: [t.i(id="8", v="y"), t.i(id="9", v="y", w="secret")],
        "event 2 (insert of table public.t) cannot be applied on node leaf:"
        " the table has no column w",
        'alter table "public"."t" add column',
    ),
    "check that refuses": (
        lambda t: [t.i(id="8", v="y"), t.i(id="9", v="bad")],
        "event 2 (insert of table public.t) cannot be applied on node leaf:"
        ' new row for relation "t" violates check constraint "fine"',
        "change the definition of public.t to match",
    ),
}
