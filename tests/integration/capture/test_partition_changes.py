"""Row changes of a captured partitioned table that cause no event are errors in status."""

from __future__ import annotations

from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.waiting import COUNTED

SCHEMA = """
    create table m (id int, at int, primary key (id, at)) partition by range (at);
    create table m1 partition of m for values from (0) to (10);
"""
CHANGES = "select partition, wrong from londiste.partition_changes('line')"


@pytest.fixture
@kept_nodes
def root(line: Line) -> LineNode:
    node = line.node("root", NodeType.ROOT, schema=SCHEMA)
    line.add(node, "public.m")
    node.database.execute("insert into m values (1, 1)")
    maintain(node)
    return node


def maintain(root: LineNode) -> None:
    root.database.execute("select londiste.periodic_maintenance()")


def test_the_last_change_of_a_partition_is_told(root: LineNode) -> None:
    seen, told_at = set(), CHANGES.replace("partition,", "first_seen,")
    for statement, wrong in (
        ("detach partition m1", "was detached with rows"),
        ("attach partition m1 for values from (0) to (10)", "was detached and attached again"),
        ("detach partition m1", "was detached with rows"),
    ):
        root.database.execute(f"alter table m {statement}")
        maintain(root)
        ((when, told),) = root.database.execute(told_at)
        assert told.startswith(wrong)
        seen.add(when)
        maintain(root)
        assert root.database.execute(CHANGES)[0][1] == told
    assert len(seen) == 3


def test_what_is_told_by_events_is_no_error(line: Line, root: LineNode) -> None:
    # By itself each statement, as a user does it.
    for statement in (
        "create table m2 partition of m for values from (10) to (20)",
        "insert into m values (2, 12)",
        "create table empty (like m including all)",
        "alter table m attach partition empty for values from (20) to (30)",
        "insert into m values (3, 22)",
        "create table gone partition of m for values from (30) to (40)",
    ):
        root.database.execute(statement)
    maintain(root)
    root.database.execute("alter table m detach partition gone")
    maintain(root)
    # The events tell of these, whenever maintenance looks.
    root.database.execute("delete from m where at = 12")
    root.database.execute("drop table m2")
    root.database.execute("truncate empty")
    root.database.execute("alter table m detach partition empty")
    maintain(root)
    root.database.execute("delete from m1")
    maintain(root)
    root.database.execute("alter table m detach partition m1")
    root.database.execute("drop table m1")
    maintain(root)
    # In batches, while the server's estimates still count the rows of before.
    root.database.execute("create table m7 partition of m for values from (70) to (80)")
    root.database.execute("insert into m select g, 70 from generate_series(1, 1000) g")
    root.database.execute("analyze m7")
    maintain(root)
    root.database.execute("delete from m where at = 70 and id <= 900")
    maintain(root)
    root.database.execute("delete from m where at = 70")
    root.database.execute("drop table m7")
    maintain(root)
    # pg_upgrade keeps oids, and nothing else of where a partition is.
    parts(root, 4)
    root.database.execute("update londiste.capture_partition set place = 'elsewhere'")
    maintain(root)
    assert root.database.execute(CHANGES) == []
    assert "ERR" not in line.here(root, "status").out


def test_rows_that_a_condition_does_not_capture_may_leave_with_their_partition(
    root: LineNode,
) -> None:
    captured = "select londiste.create_capture(%s, 'public.m', array['when=id>990'])"
    root.database.value(captured, QUEUE)
    parts(root, 2, 3)
    root.database.execute("insert into m select g, 20 from generate_series(3, 1000) g")
    root.database.execute("analyze m2")
    maintain(root)
    root.database.execute("delete from m where at = 20")
    root.database.execute("drop table m2")
    root.database.execute("drop table m3")
    root.database.execute("alter table m detach partition m1")
    maintain(root)
    assert root.database.execute(CHANGES) == []


def test_a_partition_that_is_attached_or_detached_with_rows_is_an_error_until_it_is_settled(
    line: Line, root: LineNode
) -> None:
    for statement in (
        "create table full_one (like m including all)",
        "insert into full_one values (5, 15)",
        "alter table m attach partition full_one for values from (10) to (20)",
    ):
        root.database.execute(statement)
    root.database.execute("alter table m detach partition m1")
    for _ in range(2):
        maintain(root)
    attached = ("public.full_one", "was attached with rows, which subscribers did not get")
    detached = ("public.m1", "was detached with rows, which stay on subscribers")
    assert sorted(root.database.execute(CHANGES)) == [attached, detached]
    shown = line.here(root, "status").out
    assert (
        "ERR: partition: table public.m: partition public.full_one was attached with rows" in shown
    )
    assert (
        "partition public.m1 was detached with rows" in shown
        and "londiste resync public.m" in shown
    )
    checked = line.here(root, "check")
    assert checked.code == 2 and "partition public.m1 was detached" in checked.out
    settled = root.database.value("select londiste.settle_partitions(%s, 'public.m')", QUEUE)
    assert settled == 2
    maintain(root)
    assert root.database.execute(CHANGES) == []
    assert "ERR" not in line.here(root, "status").out


def test_a_partition_that_is_emptied_before_maintenance_is_an_error(
    line: Line, root: LineNode
) -> None:
    for statement in (
        "create table m2 partition of m for values from (10) to (20)",
        "insert into m values (2, 12)",
        "truncate m2",
    ):
        root.database.execute(statement)
    maintain(root)
    [(partition, wrong)] = root.database.execute(CHANGES)
    assert (
        partition == "public.m2"
        and "emptied or rewritten before its TRUNCATE was captured" in wrong
    )
    # From now on it is told.
    assert root.database.value("select londiste.settle_partitions(%s, 'public.m')", QUEUE) == 1
    root.database.execute("insert into m values (3, 13)")
    root.database.execute("truncate m2")
    maintain(root)
    assert root.database.execute(CHANGES) == []


def test_the_statistics_do_not_excuse_a_new_partition_that_was_emptied(root: LineNode) -> None:
    # The counters contain deletes that were rolled back, and can be reset.
    with root.database.connect(autocommit=True) as conn:
        for statement in (
            "set search_path = public",
            "create table m2 partition of m for values from (20) to (30)",
            "create table m3 partition of m for values from (30) to (40)",
            "insert into m select g, at from generate_series(1, 4) g, (values (20), (30)) t (at)",
            "begin; delete from m where at = 20; rollback",
            "truncate m2, m3",
            COUNTED,
            "select pg_stat_reset_single_table_counters('m3'::regclass)",
            "insert into m select g, at from generate_series(5, 7) g, (values (20), (30)) t (at)",
            COUNTED,
            "analyze m2, m3",
        ):
            conn.execute(statement.encode())
    maintain(root)
    emptied = sorted(partition for partition, _ in root.database.execute(CHANGES))
    assert emptied == ["public.m2", "public.m3"]


def parts(root: LineNode, *numbers: int) -> None:
    """Partitions of ten values each, with a row in each, that maintenance knows."""
    for number in numbers:
        start = number * 10
        root.database.execute(
            f"create table m{number} partition of m for values from ({start}) to ({start + 10});"
            f" insert into m values ({number}, {start})"
        )
    maintain(root)


def test_rows_that_leave_with_their_partition_are_an_error_until_they_are_settled(
    line: Line, root: LineNode
) -> None:
    parts(root, 2, 3, 4, 5)
    for statement in (
        "drop table m1",
        "alter table m detach partition m2",
        "drop table m2",
        "alter table m detach partition m3",
        "truncate m3",
        "alter table m detach partition m4",
        "delete from m4",
        "alter table m attach partition m4 for values from (40) to (50)",
        # A few deletes elsewhere do not explain it.
        "create table m6 (like m including all)",
        "alter table m attach partition m6 for values from (60) to (70)",
        "insert into m values (6, 60)",
        "truncate m6",
    ):
        root.database.execute(statement)
    dropped = "was dropped with rows, which stay on subscribers"
    expected = [
        ("public.m1", dropped),
        ("public.m2", dropped),
        ("public.m3", "was detached with rows and emptied, subscribers may have rows too many"),
        (
            "public.m4",
            "was detached and attached again, its rows may have changed meanwhile",
        ),
        (
            "public.m6",
            "was emptied or rewritten before its TRUNCATE was captured,"
            " subscribers may have rows too many",
        ),
    ]
    for _ in range(2):
        maintain(root)
        assert sorted(root.database.execute(CHANGES)) == expected
    assert root.database.value("select londiste.settle_partitions(%s, 'public.m')", QUEUE) == 5
    maintain(root)
    assert root.database.execute(CHANGES) == []


def test_a_few_deletes_explain_no_large_partition_without_statistics(root: LineNode) -> None:
    parts(root, 2)
    with root.database.connect() as conn:
        conn.execute("alter table public.m2 set (autovacuum_enabled = off)")
        conn.execute("insert into public.m select g, 20 from generate_series(3, 1000) g")
        conn.execute(COUNTED)
        conn.execute("select pg_stat_reset_single_table_counters('public.m2'::regclass)")
    maintain(root)
    root.database.execute("delete from m1")
    root.database.execute("drop table m2")
    maintain(root)
    assert [partition for partition, _ in root.database.execute(CHANGES)] == ["public.m2"]


def test_a_truncate_does_not_explain_where_rows_are_that_came_after_it(root: LineNode) -> None:
    parts(root, 2)
    root.database.execute("truncate m")
    root.database.execute("insert into m values (1, 1)")
    maintain(root)
    root.database.execute("drop table m1")
    maintain(root)
    assert [partition for partition, _ in root.database.execute(CHANGES)] == ["public.m1"]
    # Nothing came after this one.
    root.database.value("select londiste.settle_partitions(%s, 'public.m')", QUEUE)
    root.database.execute("insert into m values (2, 20)")
    maintain(root)
    root.database.execute("truncate m")
    root.database.execute("drop table m2")
    maintain(root)
    assert root.database.execute(CHANGES) == []


def test_changes_between_the_capture_and_the_first_maintenance_are_errors(line: Line) -> None:
    node = line.node(
        "root",
        NodeType.ROOT,
        schema=SCHEMA + "create table n (at int primary key) partition by range (at);"
        "create table full_one (like m including all); create table n1 (like n including all);",
    )
    node.database.execute("insert into m values (1, 1)")
    line.add(node, "public.m", "public.n")
    for statement in (
        "insert into full_one values (5, 15)",
        "alter table m attach partition full_one for values from (10) to (20)",
        "alter table m detach partition m1",
        "insert into n1 values (5)",
        "alter table n attach partition n1 for values from (0) to (10)",
    ):
        node.database.execute(statement)
    maintain(node)
    attached = "was attached with rows, which subscribers did not get"
    assert sorted(node.database.execute(CHANGES)) == [
        ("public.full_one", attached),
        ("public.m1", "was detached with rows, which stay on subscribers"),
        ("public.n1", attached),
    ]
    # A node that becomes the root had triggers that refuse writes.
    captured = "select londiste.create_capture(%s, 'public.n', %s)"
    node.database.execute(captured, QUEUE, ["deny"])
    maintain(node)
    node.database.execute("create table n2 (like n including all); insert into n2 values (15)")
    node.database.execute(captured, QUEUE, [])
    node.database.execute("alter table n attach partition n2 for values from (10) to (20)")
    maintain(node)
    assert ("public.n2", attached) in node.database.execute(CHANGES)


def test_what_a_script_does_on_all_nodes_is_no_error(
    line: Line, root: LineNode, tmp_path: Path
) -> None:
    parts(root, 2, 3)
    root.database.execute("drop table m3")
    script = tmp_path / "retention.sql"
    script.write_text("drop table m1; alter table m detach partition m2;")
    done = line.here(root, "execute", str(script))
    assert done.code == 0, done
    root.database.execute("drop table m2")
    maintain(root)
    # That of before the script is one.
    assert [partition for partition, _ in root.database.execute(CHANGES)] == ["public.m3"]


def test_what_others_do_before_a_script_ends_is_an_error(root: LineNode) -> None:
    parts(root, 2, 3)
    root.database.execute(
        "create table tree (like m including all) partition by range (at);"
        "create table leaf partition of tree for values from (40) to (50);"
        "insert into tree values (4, 40);"
        "create table m5 (like m including all); insert into m5 values (5, 50)"
    )
    start, finish = (f"select londiste.execute_{step}" for step in ("start", "finish"))
    with root.database.connect() as conn, conn.transaction():
        # Another session looks at that time, so that the script does not.
        root.database.execute("drop table m2")
        with root.database.connect(autocommit=False) as looking:
            looking.execute(
                "select pg_advisory_xact_lock('londiste.capture_partition'::regclass::oid::int4, 0)"
            )
            conn.execute(f"{start}(%s, 'mine', 'select 1', true)".encode(), [QUEUE])
        root.database.execute(
            "set lock_timeout = '5s';alter table m attach partition m5 for values from (50) to (60)"
        )
        conn.execute("drop table public.m3")
        conn.execute(
            "alter table public.m attach partition public.tree for values from (40) to (50)"
        )
        conn.execute(f"{finish}(%s, 'mine')".encode(), [QUEUE])
    others = sorted(partition for partition, _ in root.database.execute(CHANGES))
    assert others == ["public.m2", "public.m5"]
    root.database.value("select londiste.settle_partitions(%s, 'public.m')", QUEUE)
    with root.database.connect() as conn, conn.transaction():
        conn.execute(f"{start}(%s, 'again', 'select 1', true)".encode(), [QUEUE])
        conn.execute("alter table public.m detach partition public.tree")
        conn.execute(f"{finish}(%s, 'again')".encode(), [QUEUE])
    assert root.database.execute(CHANGES) == []


def test_a_tree_of_partitions_that_is_attached_with_rows_is_an_error(root: LineNode) -> None:
    for statement in (
        "create table tree (like m including all) partition by range (at)",
        "create table leaf partition of tree for values from (10) to (15)",
        "insert into tree values (7, 12)",
        "alter table m attach partition tree for values from (10) to (20)",
    ):
        root.database.execute(statement)
    maintain(root)
    assert root.database.execute(CHANGES) == [
        ("public.leaf", "was attached with rows, which subscribers did not get")
    ]
    root.database.value("select londiste.settle_partitions(%s, 'public.m')", QUEUE)
    root.database.execute("alter table m detach partition tree")
    root.database.execute("alter table m attach partition tree for values from (10) to (20)")
    maintain(root)
    assert root.database.execute(CHANGES) == [
        ("public.leaf", "was detached and attached again, its rows may have changed meanwhile")
    ]
