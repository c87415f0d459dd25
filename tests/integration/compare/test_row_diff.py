"""A large differing range is narrowed to buckets on the servers before rows are fetched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from londiste.compare.checksum import Piece, compare
from londiste.compare.column_pairing import TablePair, pairing
from londiste.compare.compare import drill_task
from londiste.compare.pause_at_tick import Aligned
from londiste.compare.row_diff import Drill, drill, narrow
from londiste.db.names import TableName
from londiste.engine.local import threads
from londiste.engine.local.engine import LocalEngine
from tests.fixtures.cluster import Database

ROWS = 20_000
TABLES = f"""
create table there (id int primary key, v text);
create table here (id int primary key, v text);
insert into there select i, 'v' || i from generate_series(1, {ROWS}) i;
insert into here select * from there;
update here set v = null where id = 7;
delete from here where id = 15000;
insert into here values (-3, '');
"""


def test_only_the_rows_of_the_buckets_that_differ_are_drilled(
    new_database: Callable[..., Database],
) -> None:
    database = new_database()
    database.execute(TABLES)
    pair = TablePair(TableName("public", "there"), TableName("public", "here"))
    engine = LocalEngine()
    with database.connect() as conn:
        conn.autocommit = False
        table = pairing(conn, conn, pair, count_only=False)
        row = conn.execute("select pg_export_snapshot()").fetchone()
        assert row is not None
        at = Aligned(1, database.dsn, row[0], database.dsn, row[0])
        cut = [Piece(table, 0, '"id" < 10000', 1), Piece(table, 1, '"id" >= 10000', 1)]
        found = sorted(compare(at, cut, engine, 4), key=lambda r: r.piece.number)
        close = narrow(at, found, engine, 4)
        tasks: list[Drill] = [drill_task(at, result, 100) for result in close]
        assert [r.piece.number for r in close] == [0, 1]
        assert [len(r.differing) for r in close] == [2, 1]
        # Of about 10,000 rows each.
        assert all(0 < task.rows < 6000 for task in tasks)
        suspects = [s.values for task in tasks for s in drill(task).suspects]
    assert sorted(suspects) == [("-3",), ("15000",), ("7",)]


def test_the_first_error_is_raised_and_nothing_begins_after_it() -> None:
    begun: list[int] = []

    def task(number: int) -> int:
        begun.append(number)
        if number == 0:
            raise ValueError("wrong")
        return number

    assert sorted(threads.run(lambda n: n * 2, deque(range(9)), 3)) == [n * 2 for n in range(9)]
    with pytest.raises(ValueError, match="wrong"):
        list(threads.run(task, deque(range(1000)), 1))
    assert begun == [0]
    with pytest.raises(ValueError, match="wrong"):
        list(threads.run(task, deque(range(100_000)), 2))
    assert len(begun) < 100_000
