"""Random damage to the tables of a target, with an independent oracle of the differences.

Half of the damage is what an application would write, done on the target alone; half is made from
the catalog: rows deleted, changed, made equal, twice, values that trade places, nothing left.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import LiteralString, cast

import psycopg
from psycopg import sql

from londiste.compare.compare import TableResult
from londiste.compare.diff import Row, RowDifference
from londiste.db.connection import Connection
from tests.capture.cases import Copy, Statement, Undone
from tests.capture.pair import UNKNOWN, USERS_OWN

#: What stands in the way of damage: constraints, and statements made for other columns.
_HARMLESS = USERS_OWN | UNKNOWN | {"22001", "22003", "22P02", "428C9", "55P03"}


def harm(target: Connection, tables: Sequence[str], more: Iterable[Statement], seed: int) -> int:
    """Damages tables, with triggers and foreign keys silent; how many statements were done."""
    pick = random.Random(seed)
    statements = [*more]
    for table in tables:
        found = _harms(target, table, pick)
        statements += pick.sample(found, pick.choice([0, 1, 1, 2, 3]))
    pick.shuffle(statements)
    return sum(_do(target, statement) for statement in statements)


def _do(target: Connection, statement: Statement) -> bool:
    if isinstance(statement, Undone):
        return False
    try:
        with target.transaction():
            if isinstance(statement, Copy):
                with target.cursor().copy(cast(LiteralString, statement.text)) as copy:
                    copy.write(statement.data)
            else:
                target.execute(statement.encode())
            target.execute("set constraints all immediate")
    except psycopg.Error as error:
        if error.sqlstate not in _HARMLESS:
            raise
        return False
    return True


def _harms(target: Connection, table: str, pick: random.Random) -> list[Statement]:
    """One statement of every kind, over rows that are chosen by chance."""
    columns = _columns(target, table)
    seed = pick.random()
    one, other, key = (pick.choice(columns) for _ in range(3))
    few = f"(select ctid from {table} order by md5(ctid::text || '{seed}') limit {{}})"
    rest = ", ".join(columns)
    where = f"ctid in {few.format(pick.choice([1, 1, 2, 5]))}"
    two = few.format(2)
    return [
        f"delete from {table} where {where}",
        f"update {table} set {one} = null where {where}",
        f"update {table} set {one} = default, {other} = default where {where}"
        if one != other
        else f"update {table} set {one} = default where {where}",
        # One row in the place of another, in a column and whole.
        f"update {table} set {one} = (select {one} from {table} where ctid in {few.format(1)}"
        f" limit 1) where {where}",
        f"with a as (delete from {table} where {where} returning *)"
        f" insert into {table} ({rest}) overriding system value select {rest} from {table}"
        f" where ctid in {few.format(2)}",
        f"insert into {table} ({rest}) overriding system value select {rest} from {table} where"
        f" {where}",
        # Values of two rows, and keys, trade places.
        f"update {table} as t set {one} = s.{one} from {table} as s"
        f" where t.ctid in {two} and s.ctid in {two} and t.ctid <> s.ctid",
        f"update {table} as t set {key} = s.{key}, {other} = t.{other} from {table} as s"
        f" where t.ctid in {two} and s.ctid in {two} and t.ctid <> s.ctid"
        if key != other
        else f"delete from {table}",
        f"truncate {table} cascade",
        f"delete from {table}",
    ]


def _columns(conn: Connection, table: str) -> list[str]:
    """Columns that can be written, quoted."""
    return [
        row[0]
        for row in conn.execute(
            "select quote_ident(attname) from pg_attribute where attrelid = %s::regclass"
            " and attnum > 0 and not attisdropped and attgenerated = '' order by attnum",
            [table],
        ).fetchall()
    ]


def rows(conn: Connection, table: str, columns: Sequence[str]) -> Counter[Row]:
    """The rows as texts of these columns; of the table alone unless it is partitioned."""
    kind = conn.execute(
        "select relkind::text from pg_class where oid = %s::regclass", [table]
    ).fetchone()
    statement = sql.SQL("copy (select {columns} from {only}{table}) to stdout").format(
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        only=sql.SQL("" if kind == ("p",) else "only "),
        table=sql.Identifier(*table.split(".")),
    )
    with conn.cursor().copy(statement) as copy:
        return Counter(tuple(row) for row in copy.rows())


def wrongly_told(source: Connection, target: Connection, result: TableResult) -> str:
    """What compare has told otherwise than it is; empty when it was right.

    Every row that one side has alone is told once, and a row of one key on both sides as one.
    """
    pairing = result.pairing
    there = rows(source, str(pairing.pair.table), pairing.columns)
    here = rows(target, str(pairing.pair.dest), pairing.columns)
    missing, extra = there - here, here - there
    told_missing = Counter(d.there for d in result.differences if d.there is not None)
    told_extra = Counter(d.here for d in result.differences if d.here is not None)
    found = []
    for what, right, told in (("source", missing, told_missing), ("target", extra, told_extra)):
        if right != told:
            found.append(f"on the {what} not told: {right - told}, wrongly: {told - right}")
    if result.equal != (there == here):
        found.append(f"equal: {result.equal}")
    apart = _apart(result.differences)
    if pairing.key and pairing.unique_here and apart:
        found.append(f"two differences of one key: {apart}")
    return "\n".join(found)


def _apart(differences: Iterable[RowDifference]) -> list[Row]:
    """Keys that more than one difference names."""
    return [key for key, count in Counter(d.key for d in differences).items() if count > 1]
