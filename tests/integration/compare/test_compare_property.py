"""Compare finds exactly the random damage to many tables, and repair removes it.

Both tables of a pair are in one database, under different names, so that one transaction damages,
compares, repairs and rolls back.  The oracle is EXCEPT ALL both ways, over the texts of rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from londiste.compare import recheck
from londiste.compare.checksum import Piece, differing, specs
from londiste.compare.column_pairing import Pairing, TablePair, pairing
from londiste.compare.diff import DIFFERS, EXTRA, MISSING, RowDifference
from londiste.compare.pause_at_tick import Aligned
from londiste.compare.repair import rules
from londiste.compare.repair_plan import changes
from londiste.compare.row_diff import Drill, Suspect, drill_between
from londiste.db import key_ranges
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.engine.tasks import sums
from tests.fixtures.cluster import Database

#: Name -> columns on the root, columns here, columns of the key (0: none, whole rows).
TABLES = {
    "keyed": ("id int primary key, a text, b text, n numeric", None, 1),
    "words": ("id text primary key, a text, b text, n numeric", None, 1),
    "two": ("id int, a text, b text, n numeric, primary key (id, a)", None, 2),
    "bare": ("id int, a text, b text, n numeric", None, 0),
    "wider": (
        "id int primary key, a varchar(20), b text, n int",
        "id bigint primary key, a text, b varchar, n numeric(9,2)",
        1,
    ),
    # Whose key nobody checks while triggers are silent.
    "late": (
        "id int primary key, a text, b text, n numeric",
        "id int primary key deferrable, a text, b text, n numeric",
        1,
    ),
    "late_parted": (
        "id int primary key, a text, b text, n numeric",
        "id int, a text, b text, n numeric, primary key (id) deferrable initially deferred",
        1,
    ),
    "parted": (
        "id int, a text, b text, n numeric, primary key (id)",
        "id int, a text, b text, n numeric, primary key (id)",
        1,
    ),
    "lax": (
        "id int primary key, a text, b text, n numeric",
        "id int, a text, b text, n numeric",
        1,
    ),
}
ROWS = 60
BOUNDS = [("10",), ("11",), ("30",), ("31",), ("50",)]


def damages(table: str, draw: random.Random) -> list[str]:
    """Statements that harm the table here, each in a way of its own; some may do nothing."""
    ids = sorted(draw.sample(range(1, ROWS + 1), 2))
    # Most at the borders of the ranges, on either side of them.
    if draw.random() < 0.4:
        ids[0] = draw.choice([9, 10, 11, 29, 30, 31, 49, 50, 1, ROWS])
    one, other = (f"'{i:02d}'" if table == "words" else str(i) for i in ids)
    column = draw.choice(["a", "b"])
    value = draw.choice(["''", "null", "'x '", "'é'", f"{column} || ' '", "upper(a)", "E'\\t\\n'"])
    if table == "two":
        column, value = "b", value.replace("a ||", "b ||")
    new = draw.choice(["1000", "0", "-5", "61"])
    new = f"'{new}'" if table == "words" else new
    return [
        f"update {{t}} set {column} = {value} where id = {one}",
        f"update {{t}} set n = n + {draw.choice(['0.01', '1', '-1', '0.00'])} where id = {one}",
        f"delete from {{t}} where id = {one}",
        f"insert into {{t}} values ({new}, 'a', 'b', 1)",
        f"insert into {{t}} select {new}, a, b, n from {{t}} where id = {one}",
        f"update {{t}} set id = {new} where id = {one}",
        # Values swapped between two rows, between two columns, and whole keys.
        f"update {{t}} t set b = s.b, n = s.n from {{t}} s"
        f" where t.id in ({one}, {other}) and s.id in ({one}, {other}) and t.id <> s.id",
        f"update {{t}} set b = a, a = b where id = {one}",
        f"delete from {{t}} where id in ({one}, {other})",
        "delete from {t}",
        f"delete from {{t}} where id >= {one}",
        # Twice, where there is no key to forbid it: row, and one row in the place of another.
        f"insert into {{t}} select * from {{t}} where id = {one}",
        f"delete from {{t}} where id = {one};"
        f" insert into {{t}} select * from {{t}} where id = {other}",
        "update {t} set b = b",
    ]


def make(conn: Connection) -> dict[str, tuple[Pairing, list[Piece]]]:
    """The tables, the same on both sides, and the pieces that they are compared in."""
    found = {}
    for name, (there, here, _) in TABLES.items():
        for side, columns in (("root", there), ("node", here or there)):
            parted = name in {"parted", "late_parted"} and side == "node"
            tail = " partition by range (id)" if parted else ""
            conn.execute(f"create table public.{name}_{side} ({columns}){tail}".encode())
            if parted:
                for n, (low, high) in enumerate([("minvalue", 10), (10, 40), (40, "maxvalue")]):
                    conn.execute(
                        f"create table public.{name}_{n} partition of public.{name}_{side}"
                        f" for values from ({low}) to ({high})".encode()
                    )
            key = "lpad(i::text, 2, '0')" if name == "words" else "i"
            # Rows that are there more than once, where they may be.
            times = "generate_series(1, 1 + i % 3)" if name == "bare" else "generate_series(1, 1)"
            conn.execute(
                f"insert into public.{name}_{side} select {key}, md5(i::text)::varchar(20),"
                f" case when i % 7 <> 0 then 'b' || i % 5 end, i % 4"
                f" from generate_series(1, {ROWS}) i, {times} order by random()".encode()
            )
        pair = TablePair(TableName("public", f"{name}_root"), TableName("public", f"{name}_node"))
        table = pairing(conn, conn, pair, count_only=False)
        found[name] = (table, cut(table))
    return found


def cut(table: Pairing) -> list[Piece]:
    """Small pieces: five bounds, or 16 buckets."""
    if not table.ordered:
        return [Piece(table, 0, "", 16)]
    bounds = [(b[0], "x")[: len(table.key)] for b in BOUNDS]
    return [
        Piece(table, n, text, 1)
        for n, text in enumerate(key_ranges.ranges(bounds, table.key, table.key_types))
    ]


def compare(conn: Connection, table: Pairing, cut: list[Piece]) -> list[RowDifference]:
    """What the command does, in the transaction of one session."""
    at = Aligned(1, conn.info.dsn, "", conn.info.dsn, "")
    suspects: list[Suspect] = []
    for piece in cut:
        there, here = (
            sums(conn, next(iter(specs(at, piece, 0, root=root)))) for root in (True, False)
        )
        unequal = differing(there, here)
        if not unequal:
            continue
        among = tuple(bucket for bucket, _ in unequal) if piece.buckets > 1 else ()
        drilled = drill_between(conn, conn, Drill(at, piece, among, 3 * ROWS, 10_000))
        assert drilled.suspects, "a piece differs, and none of its rows"
        suspects += drilled.suspects
    return recheck.look(conn, conn, table, suspects) if suspects else []


def oracle(conn: Connection, table: Pairing) -> tuple[int, int]:
    """(rows that only the root has, rows that only this node has), as multisets."""
    sides = []
    for root in (True, False):
        columns = table.root if root else table.node
        name = table.pair.table if root else table.pair.dest
        query = f"select row({', '.join(columns)})::text from {name.quoted}"
        sides.append(Counter(str(row[0]) for row in conn.execute(query.encode())))
    return (sides[0] - sides[1]).total(), (sides[1] - sides[0]).total()


def trial(
    conn: Connection, table: Pairing, cut: list[Piece], statements: list[str], *, mend: bool
) -> bool:
    """Damages, compares and repairs; whether there was a difference.  Leaves nothing behind."""
    conn.execute("savepoint trial")
    try:
        for statement in statements:
            for part in statement.format(t=table.pair.dest.quoted).split(";"):
                conn.execute("savepoint one")
                try:
                    conn.execute(part.encode())
                except Exception as error:
                    # A key that is there already: this harm cannot be done.
                    assert getattr(error, "sqlstate", "") in {"23505", "23502"}, error
                    conn.execute("rollback to one")
        missing, extra = oracle(conn, table)
        found = compare(conn, table, cut)
        kinds = Counter(difference.kind for difference in found)
        told = (kinds[MISSING] + kinds[DIFFERS], kinds[EXTRA] + kinds[DIFFERS])
        assert told == (missing, extra), (statements, found)
        if mend:
            for change in changes(table, found, rules(conn, table)):
                assert conn.execute(change.statement.encode()).rowcount == 1, change.statement
            assert oracle(conn, table) == (0, 0), statements
        return bool(found)
    finally:
        conn.execute("rollback to trial; release trial")


def run(conn: Connection, trials: int, seed: int) -> int:
    """Random trials; how many of them had a difference."""
    draw = random.Random(seed)
    made = make(conn)
    differed = 0
    for number in range(trials):
        name = draw.choice(list(TABLES))
        table, cut = made[name]
        possible = damages(name, draw)
        count = draw.choice([1, 1, 1, 2, 4])
        chosen = [draw.choice(possible) for _ in range(count)]
        differed += trial(conn, table, cut, chosen, mend=number % 4 == 0)
    for table, cut in made.values():
        assert compare(conn, table, cut) == []
    return differed


def test_every_kind_of_damage_is_found_and_mended(new_database: Callable[..., Database]) -> None:
    database = new_database()
    with database.connect() as conn:
        conn.autocommit = False
        conn.execute("set session_replication_role = replica")
        made = make(conn)
        for name, (table, cut) in made.items():
            for statement in damages(name, random.Random(name)):
                trial(conn, table, cut, [statement], mend=True)
            assert compare(conn, table, cut) == []


@pytest.mark.parametrize(("trials", "seed"), [pytest.param(10_000, 2, marks=[pytest.mark.slow])])
@pytest.mark.timeout(3600)
def test_random_damage_is_found_and_mended(
    new_database: Callable[..., Database], trials: int, seed: int
) -> None:
    database = new_database()
    with database.connect() as conn:
        conn.autocommit = False
        conn.execute("set session_replication_role = replica")
        # Most harms are harms; were they none, nothing would be tested.
        assert run(conn, trials, seed) > trials * 0.7


def test_sums_that_are_not_the_same_differ() -> None:
    """Number and both sums count, and a bucket that one side has alone."""
    one = {0: (2, 10, 20)}
    assert differing(one, {0: (2, 10, 20)}) == ()
    assert differing(one, {0: (2, 10, 21)}) == ((0, 2),)
    assert differing(one, {0: (3, 10, 20)}) == ((0, 3),)
    assert differing(one, {0: (2, 10, 20), 3: (1, 0, 0)}) == ((3, 1),)
