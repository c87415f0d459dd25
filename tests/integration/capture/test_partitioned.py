"""Partitioned tables, whole or partition by partition, with other partitions here or none."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from londiste.db.names import TableName
from londiste.errors import LondisteError
from tests.fixtures.shapes import Shapes

TREE = """
create schema {s};
create table {s}.m (id int, day date not null, v text, n numeric, primary key (day, id))
    partition by range (day);
create table {s}.m_old partition of {s}.m for values from (minvalue) to ('2024-01-01');
create table {s}.m_2024 partition of {s}.m for values from ('2024-01-01') to ('2025-01-01')
    partition by hash (id);
create table {s}.m_2024_0 partition of {s}.m_2024 for values with (modulus 2, remainder 0);
create table {s}.m_2024_1 (n numeric, gone int, v text, day date not null, id int not null);
alter table {s}.m_2024_1 drop gone;
alter table {s}.m_2024 attach partition {s}.m_2024_1 for values with (modulus 2, remainder 1);
create table {s}.m_rest partition of {s}.m default;
"""
PLAIN = """
create schema {s};
create table {s}.m (n numeric, id int, day date, v text, primary key (day, id));
"""
OTHER = """
create schema {s};
create table {s}.m (v text, n numeric, id int, day date not null, primary key (day, id))
    partition by hash (id);
create table {s}.m_a partition of {s}.m for values with (modulus 3, remainder 0);
create table {s}.m_b partition of {s}.m for values with (modulus 3, remainder 1);
create table {s}.m_c partition of {s}.m for values with (modulus 3, remainder 2);
"""
#: Schema: the table on the root, and the one on the leaf.
PAIRS = {
    "same": (TREE, TREE),
    "flat": (TREE, PLAIN + "alter table {s}.m add own int default 7;"),
    "other": (TREE, OTHER),
    "back": (PLAIN, TREE),
}
TABLES = [f"{name}.m" for name in PAIRS]
#: Those whose root is partitioned.
TREES = TABLES[:3]

ANY = [
    "update {m} set day = day + 400, v = 'moved' where id % 7 = 0",
    "update {m} set id = -id where id % 11 = 0",
    "delete from {m} where id % 13 = 0",
    "insert into {m} (id, day, v, n) values (1, '2022-06-03', 'on conflict', 0),"
    " (5001, '2030-01-01', null, 'NaN') on conflict (day, id) do update set v = excluded.v, n = 7",
    "merge into {m} as t using (select g as id, date '2024-03-01' as day"
    " from generate_series(1, 40) g) as s on t.id = s.id and t.day = s.day"
    " when matched then update set v = 'merged'"
    " when not matched then insert (id, day, v) values (s.id, s.day, 'by merge')",
    "begin; update {m} set v = 'twice' where id = 9; update {m} set day = day - 500 where id = 9;"
    " update {m} set day = day + 500 where id = 9; commit",
]
LEAVES = [
    "update {m}_old set v = v || '+' where id % 2 = 0",
    "delete from {m}_2024 where id % 5 = 0",
    "delete from {m}_rest where id % 3 = 0",
    "insert into {m}_2024_0 (id, day, v, n) select id, day, v || 'x', 1.50 from {m}_2024_0"
    " on conflict (day, id) do update set n = excluded.n",
]


def written(shapes: Shapes, start: int) -> None:
    """Whatever can happen to the tables."""
    for table in TABLES:
        some = [*ANY, *LEAVES] if table in TREES else ANY
        shapes.run(*(statement.format(m=table) for statement in some))
    with shapes.root.database.connect() as conn:
        for table in TABLES:
            with conn.cursor().copy(f"copy {table} (id, day, v) from stdin".encode()) as copy:
                for number in range(30):
                    copy.write_row((start + number, f"20{22 + number % 5}-05-05", "by copy"))


@pytest.mark.parametrize(
    ("source", "here", "way"),
    [
        (15, 18, "resumable"),
        pytest.param(18, 18, "snapshot", marks=pytest.mark.slow),
        pytest.param(18, 16, "resumable", marks=pytest.mark.slow),
        pytest.param(18, 16, "snapshot", marks=pytest.mark.slow),
    ],
)
def test_a_partitioned_table_is_copied_and_followed(
    shapes_on: Callable[..., Shapes], source: int, here: int, way: str
) -> None:
    shapes = shapes_on(
        source,
        here,
        "".join(pair[0].format(s=name) for name, pair in PAIRS.items()),
        "".join(pair[1].format(s=name) for name, pair in PAIRS.items()),
        copy_chunk_bytes=65536,
    )
    for table in TABLES:
        shapes.run(
            f"insert into {table} (id, day, v, n) select i, date '2022-06-01' + i * 2, 'v' || i,"
            " i / 3.0 from generate_series(1, 1200) i"
        )
    shapes.add(*TABLES, copy_mode=way)
    written(shapes, 7000)
    shapes.sync()
    shapes.compare(*TABLES)
    chosen = shapes.leaf.database.execute("select distinct mode from londiste.copy_choice")
    assert chosen == [(way,)]

    for table in TREES:
        shapes.run(
            f"create table {table}_2031 partition of {table}"
            " for values from ('2031-01-01') to ('2032-01-01')",
            f"insert into {table} select i, date '2031-02-01' + i % 300, 'new partition', i"
            " from generate_series(9001, 9600) i",
            f"update {table}_2031 set v = null where id % 2 = 0",
        )
    written(shapes, 7100)
    shapes.replay()
    shapes.compare(*TABLES)
    # a partition by itself, and one that maintenance has to be told of
    shapes.run("select londiste.periodic_maintenance()")
    for table in TREES:
        shapes.run(
            f"truncate {table}_2024",
            f"begin; delete from {table}_2031 where id = 9001; truncate {table}_2031;"
            f" insert into {table} values (9001, '2031-05-05', 'behind', 1); commit",
        )
    shapes.replay()
    shapes.compare(*TABLES)
    assert all(len(shapes.rows(table)) > 100 for table in TABLES)
    # all of it: one event, and no row is told
    tick = shapes.line.tick()
    for table in TABLES:
        shapes.run(
            f"begin; truncate {table}; insert into {table} (id, day) values (2, now()); commit"
        )
    count = shapes.root.database.value("select count(*) from pgq.event_template where ev_txid > 0")
    shapes.replay()
    shapes.compare(*TABLES)
    assert all(len(shapes.rows(table)) == 1 for table in TABLES)
    told = shapes.root.database.value(
        "select count(*) from pgq.event_template e, pgq.tick t where t.tick_id = %s"
        " and e.ev_id > t.tick_event_seq and e.ev_extra1 like '%%.m'",
        tick,
    )
    assert told == 2 * len(TABLES) <= count
    # what a leaf keeps is not emptied behind its back
    for table in ("same.m", "same.m_old", "other.m_a"):
        with pytest.raises(psycopg.Error, match="change not allowed"):
            shapes.leaf.database.execute(f"truncate {table}")


def test_partitions_by_themselves_go_into_one_table_and_rows_move_between_them(
    shapes_on: Callable[..., Shapes],
) -> None:
    tree = """
        create table p (id int primary key, v text) partition by range (id);
        create table p_a partition of p for values from (0) to (100);
        create table p_b partition of p for values from (100) to (200);
        create table p_c partition of p default;
    """
    shapes = shapes_on(18, 18, tree, tree + "create table archive (id int primary key, v text)")
    shapes.run("insert into p select i, 'v' || i from generate_series(0, 299) i")
    shapes.add("p_a")
    shapes.line.add(shapes.root, "p_b")
    shapes.line.add(
        shapes.leaf,
        "p_b",
        expect_sync=False,
        skip_truncate=True,
        dest=TableName.parse("public.archive"),
    )
    shapes.sync()
    shapes.compare("p_a", p_b="archive")
    shapes.run(
        "update p set id = id + 1000 where id % 10 = 3 and id < 150",
        "update p set id = id + 93 where id in (0, 10, 20, 30)",
        "update p set id = id - 1000 where id % 10 = 4",
        "update p set v = 'x' where id % 4 = 0",
    )
    shapes.replay()
    shapes.compare("p_a", p_b="archive")
    assert shapes.leaf.database.value("select count(*) from p_c") == 0
    # the others can still be added; the whole cannot, and the other way round
    missing = shapes.root.database.execute(
        "select obj_name from londiste.local_show_missing('line')"
    )
    assert [row[0] for row in missing] == ["public.p_c"]
    with pytest.raises(LondisteError, match=r"public.p_a is a partition of table public.p:"):
        shapes.line.add(shapes.root, "p")
    shapes.run("select londiste.local_remove_table('line', 'public.p_a')")
    shapes.run("select londiste.local_remove_table('line', 'public.p_b')")
    shapes.line.add(shapes.root, "p")
    with pytest.raises(LondisteError, match=r"public.p_c is a partition of table public.p:"):
        shapes.line.add(shapes.root, "p_c")


def test_a_partition_that_is_detached_tells_nothing_more_and_one_that_is_attached_does(
    shapes_on: Callable[..., Shapes],
) -> None:
    tree = """
        create table p (id int primary key, v text) partition by range (id);
        create table p_a partition of p for values from (0) to (100);
        create table p_b partition of p for values from (100) to (200);
    """
    shapes = shapes_on(18, 18, tree, tree)
    shapes.add("p")
    shapes.run("insert into p select i, 'v' || i from generate_series(0, 199) i")
    shapes.sync()
    for database in (shapes.root.database, shapes.leaf.database):
        database.execute("alter table p detach partition p_a")
    shapes.run(
        "update p_a set v = 'alone'",
        "truncate p_a",
        "insert into p values (100 + 50, 'x') on conflict (id) do update set v = excluded.v",
    )
    shapes.replay()
    shapes.compare("p", "p_b")
    assert shapes.leaf.database.value("select count(*) from p_a where v <> 'alone'") == 100
    for database in (shapes.root.database, shapes.leaf.database):
        database.execute(
            "create table p_n (v text, id int not null);"
            "alter table p attach partition p_n for values from (300) to (400)"
        )
    shapes.run(
        "insert into p_n select 'first row', i from generate_series(300, 399) i",
    )
    shapes.run(
        "delete from p_n where id > 380; update p set id = id + 235 where id between 150 and 160"
    )
    shapes.replay()
    shapes.compare("p", "p_b", "p_n")


def test_foreign_keys_of_partitioned_tables_come_back(shapes_on: Callable[..., Shapes]) -> None:
    schema = """
        create table p (id int primary key, v text) partition by hash (id);
        create table p_0 partition of p for values with (modulus 2, remainder 0);
        create table p_1 partition of p for values with (modulus 2, remainder 1);
        create table c (id int primary key, p int references p);
        create table d (id int primary key, c int references c) partition by hash (id);
        create table d_0 partition of d for values with (modulus 1, remainder 0);
    """
    shapes = shapes_on(18, 16, schema)
    shapes.run(
        "insert into p select i, 'v' from generate_series(1, 50) i;"
        " insert into c select i, i from generate_series(1, 50) i;"
        " insert into d select i, i from generate_series(1, 50) i"
    )
    keys = (
        "select conrelid::regclass::text, pg_get_constraintdef(oid), convalidated"
        " from pg_constraint where contype = 'f' and conparentid = 0"
        " and connamespace = 'public'::regnamespace order by 1"
    )
    before = shapes.leaf.database.execute(keys)
    shapes.add("p", "c", "d")
    shapes.sync()
    shapes.line.wait(
        lambda: shapes.leaf.database.execute(keys) == before, "the foreign keys", seconds=60
    )
    shapes.compare("p", "c", "d")
    assert shapes.leaf.database.value("select count(*) from londiste.pending_fkeys") == 0
