"""A copied row is in the partition of its time, once, and replay finds it there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.copy.setup import whole_tables
from londiste.db.names import TableName
from londiste.db.session_role import use_replica_role
from londiste.errors import AccessDenied, StateError
from londiste.handlers.partitions import CREATE_PARTITION, Partitioning, Period
from londiste.handlers.placing import CopiedRows, Placing
from londiste.replication.model import encode_attrs
from tests.fixtures.cluster import Database
from tests.fixtures.copies import A, B, Nodes
from tests.fixtures.line import Line
from tests.fixtures.owners import OWNER, make_owner
from tests.integration.forwarding.test_filtered_branch import in_step, run
from tests.support.waiting import wait_for

TABLES = ("again", "filled", "plain", "turned", "finer", "back")
SCHEMA = "".join(
    f"create table {name} (id int primary key, made timestamptz, v text, twice text generated"
    " always as (upper(v)) stored);"
    for name in TABLES
)
#: On the 30th and 31st of January and the 1st of February 2024, in UTC.
FILL = (
    "insert into {} (id, made, v) select g, '2024-01-29 23:00+00'::timestamptz"
    " + g * interval '1 d', 'new' from generate_series(1, 3) g"
)
MONTHLY = ("--handler", "monthly_field", "--handler-arg", "part_field=made")
DAILY = ("--handler", "daily_field", "--handler-arg", "part_field=made")
STEPS = (
    "select step, rows from londiste.copy_step where step in ('load', 'partitions')"
    " and seconds is not null order by started_at"
)
CHANGES = "update {0} set v = 'later' where id = 1; delete from {0} where id = 2"


def parts(database: Database, table: str, more: str = "") -> list[Any]:
    """Keys, and where the rows are."""
    return database.execute(f"select id{more}, tableoid::regclass::text from {table} order by 1, 2")


def rows(table: TableName, *by: int) -> CopiedRows:
    return CopiedRows(table, ("id",), datetime(2026, 2, 3, tzinfo=UTC), by or None)


def place(database: Database, copied: CopiedRows, column: str, retention: str = "") -> None:
    """As the end of a copy does it."""
    by_month = Partitioning(Period.MONTH, "", CREATE_PARTITION, "", "", "", retention, False)
    placing = Placing(copied, by_month.of_copy(), column)
    conn = database.connect(autocommit=True)
    placing.make_partitions(conn)
    with conn.transaction():
        use_replica_role(conn)
        placing.move(conn)


def test_another_copy_empties_the_partitions(nodes: Nodes) -> None:
    times = "insert into a values (1, '2024-01-30'), (2, '2024-01-31'), (3, '2024-02-02')"
    nodes.root.execute(times)
    nodes.add(A)
    nodes.leaf.execute(
        "update londiste.table_info set table_attrs = %s",
        encode_attrs({"handler": "monthly_field(part_field=v)"}),
    )
    for wanted in ([1, 2, 3], [1, 3]):
        nodes.set_state(A, "in-copy")
        nodes.start()
        nodes.wait_end()
        assert nodes.state(A) == "ok", nodes.error(A)
        there = {1: "a_2024_01", 2: "a_2024_01", 3: "a_2024_02"}
        assert parts(nodes.leaf, "a") == [(key, there[key]) for key in wanted]
        assert nodes.leaf.execute(STEPS) == [("load", len(wanted)), ("partitions", len(wanted))]
        nodes.root.execute("delete from a where id = 2")
    nodes.add(B)
    nodes.leaf.execute(
        "update londiste.table_info set dest_table = 'public.a_2024_01' where table_name = %s",
        str(B),
    )
    nodes.set_state(A, "in-copy")
    nodes.start(A)
    wait_for(
        lambda: "child table public.a_2024_01 is replicated, too" in nodes.error(A),
        what="the refusal",
    )
    assert parts(nodes.leaf, "a") == [(1, "a_2024_01"), (3, "a_2024_02")]


def test_a_root_that_was_a_branch_with_partitions_is_no_source(line: Line) -> None:
    schema = (
        'create table t (id int primary key, made timestamptz, "No" int generated always as'
        " identity, twice int generated always as (id * 2) stored);"
    )
    parts_of_branch = (
        "create table t_2024_01 () inherits (t);"
        ' insert into t_2024_01 (id, "No") values (1, 7); insert into t (id) values (2);'
        " create table refers (t int references t on delete cascade); insert into refers values (2)"
    )
    root = line.node("root", NodeType.ROOT, schema=schema + parts_of_branch)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=schema)
    line.add(root, "t")
    handler = encode_attrs({"handler": "monthly_field(part_field=made)"})
    root.database.execute("update londiste.table_info set table_attrs = %s", handler)
    conn, name = root.database.connect(), TableName("public", "t")
    assert not whole_tables(conn, "line")
    for options in ((), ("--find-copy-node",)):
        done = line.here(leaf, "add-table", "t", *options)
        assert done.code != 0, str(done)
    assert "rows in partitions" in line.here(leaf, "add-table", "t").err
    run(line, leaf, "add-table", "t", "--expect-sync")
    leaf.database.execute("update londiste.table_info set merge_state = 'ok'")
    for command in (("resync",), ("change-handler", "--where", "id > 0")):
        done = line.here(leaf, *command, "t")
        assert done.code != 0 and "table public.t of node root has its rows" in done.err, str(done)
    state = "select merge_state from londiste.table_info"
    assert leaf.database.value(state) == "ok"
    done = line.here(leaf, "compare", "t")
    assert done.code != 0 and "the root has its rows in partitions" in done.err, str(done)
    done = line.here(root, "change-handler", "t")
    assert done.code != 0 and "has its rows in partitions" in done.err, str(done)
    before = root.database.value("select max(ev_id) from pgq.event_template")
    statements = done.err.partition("session_replication_role: ")[2].partition("; then drop")[0]
    root.database.execute(statements)
    kept = 'select id, "No", twice from only t order by id'
    assert root.database.execute(kept) == [(1, 7, 2), (2, 1, 4)]
    assert root.database.execute("table refers") == [(2,)]
    assert root.database.value("select max(ev_id) from pgq.event_template") == before
    # Without child tables all rows are in the table, as for a handler of a root.
    root.database.execute("drop table t_2024_01")
    assert whole_tables(conn, "line") == {name: name}
    conn.close()
    run(line, leaf, "resync", "t")
    # A provider that does not respond is what the copy waits for.
    leaf.database.execute("update londiste.table_info set merge_state = 'ok'")
    leaf.database.execute("update pgq_node.node_location set node_location = 'host=/nonexistent'")
    run(line, leaf, "resync", "t")
    assert leaf.database.value(state) is None


def test_a_copy_from_such_a_root_keeps_what_is_there(nodes: Nodes) -> None:
    nodes.add(A)
    nodes.leaf.execute("set session_replication_role = replica; insert into a values (7, 'kept')")
    nodes.root.execute("create table a_2024_01 () inherits (a)")
    nodes.root.execute(
        "update londiste.table_info set table_attrs = %s",
        encode_attrs({"handler": "monthly_field(part_field=v)"}),
    )
    nodes.set_state(A, "in-copy")
    nodes.start()
    wait_for(lambda: "rows in partitions" in nodes.error(A), what="the refusal")
    assert nodes.leaf.value("select count(*) from a") == 1


def test_a_partitioned_table_gets_the_partitions_of_the_source_s_periods(nodes: Nodes) -> None:
    nodes.root.execute(
        "insert into a values (1, '2024-01-30'), (2, '2024-02-02'), (3, '2024-03-04')"
    )
    nodes.leaf.execute(
        "drop table a; create table a (id int, v text, primary key (id, v)) partition by range (v);"
        # January has a partition that the handler would give another name.
        " create table first partition of a for values from ('2024-01-01') to ('2024-02-01')"
    )
    nodes.add(A)
    nodes.leaf.execute(
        "update londiste.table_info set table_attrs = %s",
        encode_attrs({"handler": "monthly_field(part_field=v)"}),
    )
    nodes.start()
    wait_for(lambda: nodes.state(A) == "ok" or nodes.error(A), what="the copy")
    assert nodes.state(A) == "ok", nodes.error(A)
    nodes.wait_end()
    assert parts(nodes.leaf, "a") == [(1, "first"), (2, "a_2024_02"), (3, "a_2024_03")]


def test_a_partition_that_is_missing_is_named_before_the_rows_here_are_gone(nodes: Nodes) -> None:
    split = "drop table a; create table a (id int primary key, v text) partition by range (id)"
    spans = {"a1": (0, 10), "a2": (10, 20), "a3": (20, 30)}
    parts_of = {
        name: f"; create table {name} partition of a for values from ({low}) to ({high})"
        for name, (low, high) in spans.items()
    }
    nodes.root.execute(split + "".join(parts_of.values()))
    nodes.root.execute("insert into a values (1, 'x'), (11, 'y')")
    nodes.leaf.execute(split + parts_of["a1"])
    nodes.add(A)
    nodes.leaf.execute("set session_replication_role = replica; insert into a values (7, 'kept')")
    nodes.start(A)
    # No row is in the third one.
    wait_for(
        lambda: "no partition on this node takes the rows of public.a2 of" in nodes.error(A),
        what="the refusal",
    )
    assert nodes.leaf.execute("select id from a") == [(7,)]
    told = nodes.error(A).partition("in the database of this node: ")[2]
    statement, _, then = told.partition("; ")
    assert then == "the copy then restarts automatically"
    nodes.leaf.execute(statement)
    wait_for(lambda: nodes.state(A) == "ok", what="the copy")
    nodes.wait_end()
    assert nodes.leaf.execute("select id, tableoid::regclass::text from a order by id") == [
        (1, "a1"),
        (11, "a2"),
    ]


@pytest.mark.slow
def test_copied_rows_are_in_the_partitions_of_their_times(line: Line, tmp_path: Path) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, *TABLES, form="row")
    for name in ("filled", "plain", "turned"):
        root.database.execute(FILL.format(name))
    line.tick()
    for name in ("again", "filled", "finer", "back"):
        run(line, leaf, "add-table", name, *MONTHLY)
    run(line, leaf, "add-table", "plain", *MONTHLY, "--handler-arg", "row_mode=plain")
    run(line, leaf, "add-table", "turned")
    # The process that copies dies once where the first rows are placed, not committed.
    line.start(leaf, LONDISTE_CRASH="copy.placed", LONDISTE_CRASH_MARK=str(tmp_path / "died"))
    in_step(line, leaf)
    assert (tmp_path / "died").exists()
    for name in ("again", "finer", "back"):
        root.database.execute(FILL.format(name))
    line.wait_position(leaf, line.tick())
    run(line, leaf, "resync", "again")
    run(line, leaf, "change-handler", "turned", *MONTHLY)
    run(line, leaf, "change-handler", "finer", *DAILY)
    run(line, leaf, "change-handler", "back")
    in_step(line, leaf)
    for name in TABLES:
        root.database.execute(CHANGES.format(name))
    line.wait_position(leaf, line.tick())
    by_month = [(1, "later", "{}_2024_01"), (3, "new", "{}_2024_02")]
    expected = {
        **dict.fromkeys(TABLES, by_month),
        "finer": [(1, "later", "{}_2024_01_30"), (3, "new", "{}_2024_02_01")],
        "back": [(1, "later", "{}"), (3, "new", "{}")],
    }
    for name, found in expected.items():
        there = [(key, text, part.format(name)) for key, text, part in found]
        assert parts(leaf.database, name, ", v") == there
    keys = "select count(*) from pg_index where indisprimary and indrelid::regclass::text like %s"
    assert leaf.database.value(keys, "filled%") == 3


#: Several periods, the last one of years, and times that no partition has.
TIMES = (
    "2024-01-31 23:59:59.9+00",
    "2024-02-01 00:00+00",
    "2024-05-05 12:00+00",
    "2025-01-01 00:00+00",
    "0001-01-01 00:00+00",
    "9999-12-31 23:59+00",
)
NOWHERE = ("10000-01-01 00:00+00", "0001-12-31 23:59+00 BC", "infinity", None)


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp(1)", "text"])
def test_each_time_has_its_partition_and_what_has_none_stays(kind: str, pgq_db: Database) -> None:
    table = TableName("public", "Odd t")
    pgq_db.execute(
        f'create table "Odd t" (id int generated always as identity primary key, "At" {kind})'
    )
    # A check of a text compares it as a text, so the last period takes none.
    times = TIMES[:-1] if kind == "text" else TIMES
    for time in (*times, *NOWHERE):
        pgq_db.execute(
            f'insert into "Odd t" ("At") values (%s::timestamptz::{kind})'.replace("(1)", ""), time
        )
    ids = 'select id, "At"::text from "Odd t" order by id'
    before = pgq_db.execute(ids)
    place(pgq_db, rows(table), "At")
    assert pgq_db.execute(ids) == before
    found = pgq_db.execute(
        'select substr(relname, 6), count(*) from "Odd t" t join pg_class c on c.oid = t.tableoid'
        " group by 1 order by 1"
    )
    months = ("_0001_01", "_2024_01", "_2024_02", "_2024_05", "_2025_01", "_9999_12")
    assert found == [("", len(NOWHERE)), *((month, 1) for month in months[: len(times)])]
    assert not pgq_db.execute("select from pg_class where relname like 'londiste_placing%'")


@pytest.mark.parametrize("text", ["n/a", "2024-02-30"])
def test_a_text_that_is_no_time_is_an_error_with_its_column(text: str, pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int primary key, at text)")
    pgq_db.execute("insert into t values (1, '2024-02-03'), (2, %s)", text)
    with pytest.raises(StateError, match=r"column at of table public\.t is no time") as caught:
        place(pgq_db, rows(TableName("public", "t")), "at")
    assert text not in str(caught.value)


def test_a_partition_of_an_owner_who_may_not_read_the_table_is_named(pgq_db: Database) -> None:
    make_owner(pgq_db)
    pgq_db.execute(
        "create table t (id int primary key, at date); insert into t values (1, '2024-02-03');"
        f" create table t_2024_02 () inherits (t); alter table t_2024_02 owner to {OWNER}"
    )
    with pytest.raises(AccessDenied, match=f"its owner {OWNER} may not read table") as caught:
        place(pgq_db, rows(TableName("public", "t")), "at")
    pgq_db.execute("grant" + caught.value.hint.partition(": grant")[2])
    place(pgq_db, rows(TableName("public", "t")), "at")
    assert parts(pgq_db, "t") == [(1, "t_2024_02")]


def test_rows_of_others_stay_where_they_are(pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int primary key, at date); insert into t values (1, now())")
    with pgq_db.connect() as conn, conn.transaction():
        conn.execute("insert into public.t values (2, '2024-02-03')")
        (xid,) = conn.execute("select pg_current_xact_id()::xid::text").fetchone() or ()
    place(pgq_db, rows(TableName("public", "t"), int(xid)), "at")
    place(pgq_db, replace(rows(TableName("public", "t")), by=()), "at")
    assert parts(pgq_db, "t") == [(1, "t"), (2, "t_2024_02")]


def test_a_time_of_no_column_is_that_of_the_copy(pgq_db: Database) -> None:
    pgq_db.execute("create table t (id int); insert into t select generate_series(1, 3)")
    place(pgq_db, rows(TableName("public", "t")), "")
    assert parts(pgq_db, "t") == [(number, "t_2026_02") for number in (1, 2, 3)]
    assert pgq_db.value("select indisprimary from pg_index where indrelid = 't_2026_02'::regclass")


def test_rows_older_than_the_retention_period_are_left_out(pgq_db: Database) -> None:
    pgq_db.execute(
        "create table t (id int primary key, at timestamptz);"
        " insert into t values (1, now()), (2, now() - interval '3 months'), (3, null)"
    )
    place(pgq_db, rows(TableName("public", "t")), "at", retention="1 month")
    kept = [(number, name) for number, name in parts(pgq_db, "t") if number != 1]
    assert kept == [(3, "t")]
    assert pgq_db.value("select count(*) from pg_inherits where inhparent = 't'::regclass") == 1
