"""What applications do: each kind is the middle of one transaction, or changes how it ends.

Every transaction also adds a line to the ledger, a token, and moves an amount between accounts
(``writer``): that is what a reader of a subscriber can check.
"""

from __future__ import annotations

import random
from typing import Any

import psycopg

from londiste.selftest.registry import Registry
from londiste.selftest.shapes import Table

WORK = Registry()

#: Numbers of keys; few, so that the same rows change again and again.
KEYS = 30


def key(chance: random.Random) -> int:
    return chance.randint(0, KEYS - 1)


def insert(conn: psycopg.Connection[Any], table: Table, chance: random.Random, k: int) -> None:
    values = table.row(chance, k)
    over = f"on conflict ({', '.join(table.key(k))}) do nothing"
    if table.shape.keyless:
        over = ""
    conn.execute(
        f"insert into {table.sql} ({', '.join(values)})"
        f" values ({', '.join(values.values())}) {over}".encode()
    )


def update(conn: psycopg.Connection[Any], table: Table, chance: random.Random, k: int) -> None:
    values = table.rest(chance)
    sets = ", ".join(f"{c} = {v}" for c, v in values.items())
    conn.execute(f"update {table.sql} set {sets} where {table.where(k)}".encode())


def delete(conn: psycopg.Connection[Any], table: Table, chance: random.Random, k: int) -> None:
    conn.execute(f"delete from {table.sql} where {table.where(k)}".encode())


def move(conn: psycopg.Connection[Any], table: Table, k: int, to: int) -> None:
    """Another key for a row, if it is free."""
    sets = ", ".join(f"{c} = {v}" for c, v in table.key(to).items())
    conn.execute(
        f"update {table.sql} set {sets} where {table.where(k)}"
        f" and not exists (select from {table.sql} where {table.where(to)})".encode()
    )


def _some(conn: Any, tables: list[Table], chance: random.Random, count: int) -> None:
    for _ in range(count):
        table = chance.choice(tables)
        chance.choice([insert, insert, update, update, delete])(conn, table, chance, key(chance))


@WORK.add("rows", weight=4)
def rows(conn: Any, tables: list[Table], chance: random.Random) -> None:
    _some(conn, tables, chance, chance.randint(1, 6))


@WORK.add("same key", weight=2)
def same_key(conn: Any, tables: list[Table], chance: random.Random) -> None:
    """A row comes, changes, goes and comes again."""
    table, k = chance.choice(tables), key(chance)
    for what in chance.sample([insert, update, delete, insert, update, delete, insert], 6):
        what(conn, table, chance, k)


@WORK.add("keys", weight=2)
def keys(conn: Any, tables: list[Table], chance: random.Random) -> None:
    """Keys move: along a chain, and in a circle."""
    table = chance.choice(tables)
    if table.shape.keyless:
        return _some(conn, [table], chance, 2)
    first, free = key(chance), KEYS + 5
    chain = [(first + i) % KEYS for i in range(3)]
    for to, k in zip([free, *chain], [*chain, free], strict=True):
        move(conn, table, k, to)
    return None


@WORK.add("swap")
def swap(conn: Any, tables: list[Table], chance: random.Random) -> None:
    """Two rows exchange a unique value, in one statement."""
    able = [t for t in tables if t.shape.swap]
    if not able:
        return _some(conn, tables, chance, 1)
    table = chance.choice(able)
    c = table.shape.swap
    one, other = chance.sample(range(KEYS), 2)
    a, b = table.where(one), table.where(other)
    conn.execute(
        f"update {table.sql} set {c} = case when {a} then (select {c} from {table.sql} where {b})"
        f" else (select {c} from {table.sql} where {a}) end where ({a} or {b})"
        f" and 2 = (select count(*) from {table.sql} where {a} or {b})".encode()
    )
    return None


@WORK.add("savepoint")
def savepoint(conn: Any, tables: list[Table], chance: random.Random) -> None:
    for _ in range(chance.randint(1, 5)):
        with conn.transaction(force_rollback=chance.random() < 0.6):
            _some(conn, tables, chance, 2)


@WORK.add("aborted", more="rollback")
def aborted(conn: Any, tables: list[Table], chance: random.Random) -> None:
    _some(conn, tables, chance, 3)


@WORK.add("two-phase", more="prepare", weight=0.7)
def two_phase(conn: Any, tables: list[Table], chance: random.Random) -> None:
    _some(conn, tables, chance, 3)


@WORK.add("long", more="long", weight=0.5)
def long(conn: Any, tables: list[Table], chance: random.Random) -> None:
    """Others commit and ticks are made before it ends."""
    # Rows that no other transaction touches: it must not be waited for.
    table = chance.choice(tables)
    if not table.shape.keyless:
        insert(conn, table, chance, KEYS + 10 + chance.randint(0, 3))


@WORK.add("serializable", more="serializable", weight=0.5)
def serializable(conn: Any, tables: list[Table], chance: random.Random) -> None:
    _some(conn, tables, chance, 3)


@WORK.add("copy", weight=0.7)
def copy(conn: Any, tables: list[Table], chance: random.Random) -> None:
    """COPY of rows that were deleted before in the same transaction."""
    table = chance.choice(tables)
    first = key(chance)
    conn.execute(
        f"create temp table loaded on commit drop as select * from {table.sql} limit 0".encode()
    )
    columns = ", ".join(table.row(chance, 0)) if table.shape.name != "toast" else "id, small"
    for k in range(first, first + 4):
        values = table.row(chance, k)
        conn.execute(
            f"insert into loaded ({', '.join(values)})"
            f" values ({', '.join(values.values())})".encode()
        )
        delete(conn, table, chance, k)
    with conn.cursor().copy(f"copy (select {columns} from loaded) to stdout".encode()) as out:
        data = b"".join(bytes(part) for part in out)
    with conn.cursor().copy(f"copy {table.sql} ({columns}) from stdin".encode()) as into:
        into.write(data)


@WORK.add("bulk", weight=0.7)
def bulk(conn: Any, tables: list[Table], chance: random.Random) -> None:
    """Statements that change many rows."""
    table = chance.choice(tables)
    if chance.random() < 0.5:
        for k in range(0, KEYS, 2):
            insert(conn, table, chance, k)
    if chance.random() < 0.5:
        sets = ", ".join(f"{c} = {v}" for c, v in table.rest(chance).items() if c != "u")
        conn.execute(f"update {table.sql} set {sets}".encode())
    elif chance.random() < 0.4:
        conn.execute(f"delete from {table.sql}".encode())


@WORK.add("upsert", weight=0.7)
def upsert(conn: Any, tables: list[Table], chance: random.Random) -> None:
    table = chance.choice([t for t in tables if t.shape.name == "plain"] or tables)
    if table.shape.name != "plain":
        return _some(conn, [table], chance, 1)
    conn.execute(
        f"insert into {table.sql} select i, 'up' from generate_series(%s::int, %s::int) i"
        " on conflict (id) do update set v = excluded.v".encode(),
        [key(chance), KEYS],
    )
    return None


@WORK.add("truncate", weight=0.4)
def truncate(conn: Any, tables: list[Table], chance: random.Random) -> None:
    table = chance.choice(tables)
    if chance.random() < 0.5:
        insert(conn, table, chance, key(chance))
    conn.execute(f"truncate {table.sql} cascade".encode())
    insert(conn, table, chance, key(chance))
