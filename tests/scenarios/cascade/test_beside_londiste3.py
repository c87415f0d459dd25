"""Londiste 3's programs on these schemas, mixed cascades, and adoption of a cascade."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.original import Original
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

TABLES = """
    create table t (id int primary key, v text);
    create table u (id serial primary key, t_id int references t, n numeric);
"""
ROWS = """
    insert into t select g, 'x' || g from generate_series(1, 500) g;
    insert into u (t_id, n) select g, g * 1.5 from generate_series(1, 300) g
"""
CHANGES = """
    insert into t values (2001, E'a''b&c=%\\\\'), (2002, null), (2003, '');
    update t set v = 'é"' where id <= 10;
    delete from u where id = 5;
    insert into u (t_id, n) values (2001, 1e10)
"""


def test_their_programs_do_all_their_work_on_our_schemas(original: Original) -> None:
    root, leaf = (original.node(name, ours=True) for name in ("root", "leaf"))
    for database in (root, leaf):
        database.execute(TABLES)
    root.execute(ROWS)
    original.theirs("root", "create-root", "root", root.dsn)
    original.theirs("leaf", "create-leaf", "leaf", leaf.dsn, f"--provider={root.dsn}")
    original.theirs("root", "add-table", "t", "u")
    original.theirs("root", "add-seq", "public.u_id_seq")
    original.theirs("leaf", "add-table", "t", "u")
    original.theirs("leaf", "add-seq", "public.u_id_seq")
    original.tick()
    original.work("root")
    original.work("leaf")
    original.wait_copied("leaf", 2)
    root.execute(CHANGES)
    script = original.folder / "change.sql"
    script.write_text(
        "--*-- Need-Table: public.t\nalter table t add column x jsonb;\ncreate index on t (v);\n"
    )
    original.theirs("root", "execute", str(script))
    root.execute("""insert into t values (3000, 'new', '{"a": [1, 2]}')""")
    for table in ("t", "u"):
        original.wait_equal("root", "leaf", table)
    key = "select count(*) from pg_constraint where conname = 'u_t_id_fkey' and convalidated"
    wait_for(lambda: leaf.value(key) == 1, what="the foreign key")
    assert leaf.value("select last_value from u_id_seq") > root.value(
        "select last_value from u_id_seq"
    )
    with pytest.raises(psycopg.Error, match="change not allowed"):
        leaf.execute("insert into t values (9000)")

    damage(leaf, "update t set v = 'damaged' where id = 20; delete from t where id = 21")
    assert "do not match" in compare(original, "t")
    original.theirs("leaf", "repair", "t", "--apply")
    assert "do not match" not in compare(original, "t")

    original.theirs("leaf", "remove-table", "u")
    original.theirs("root", "remove-table", "t")
    wait_for(
        lambda: leaf.value("select count(*) from londiste.table_info where local") == 0,
        what="the leaf to hear of it",
    )
    root.execute("drop table u, t cascade")


def damage(database: Database, statements: str) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        conn.execute("set session_replication_role = replica")
        conn.execute(statements.encode())


def compare(original: Original, table: str) -> str:
    """Their compare answers with the number of tables that differ."""
    try:
        return original.theirs("leaf", "compare", table)
    except AssertionError as differing:
        return str(differing)


@pytest.mark.parametrize("way", ["logutriga", "jsontriga", "sqltriga", "not packed"])
def test_a_leaf_of_theirs_reads_from_our_root(original: Original, way: str) -> None:
    root, leaf = original.node("root", ours=True), original.node("leaf", ours=False)
    for database in (root, leaf):
        database.execute("create table t (id int primary key, v text)")
    root.execute("insert into t select g, 'x' || g from generate_series(1, 500) g")
    original.ours("root", "create-root", "root", root.dsn)
    if way == "not packed":
        original.ours("root", "queue", "config", "q", "packed_events=false")
        original.ours("root", "add-table", "t")
    else:
        original.ours("root", "add-table", "t", "--trigger", way)
    original.theirs("leaf", "create-leaf", "leaf", leaf.dsn, f"--provider={root.dsn}")
    original.theirs("leaf", "add-table", "t", "--expect-sync")
    damage(leaf, "insert into t select g, 'x' || g from generate_series(1, 500) g")
    original.tick()
    original.work("root", ours=True)
    original.work("leaf")
    root.execute(
        "insert into t values (1001, 'a&b'), (1002, null); update t set v = 'é\"' where id < 5;"
        " delete from t where id = 7; insert into t select g from generate_series(2001, 2090) g"
    )
    original.wait_equal("root", "leaf", "t")
    if way != "not packed":
        # Their worker passes over what our own capture says of TRUNCATE.
        root.execute("truncate t; insert into t values (1, 'again')")
        original.wait_equal("root", "leaf", "t")


def test_a_cascade_is_taken_over_while_it_works(original: Original) -> None:
    """First the schemas, with their workers running; then the workers, from the leaf up."""
    names = ("root", "branch", "leaf")
    nodes = {name: original.node(name, ours=False) for name in names}
    for database in nodes.values():
        database.execute(TABLES)
    nodes["root"].execute(ROWS)
    original.theirs("root", "create-root", "root", nodes["root"].dsn)
    for name, provider in (("branch", "root"), ("leaf", "branch")):
        given = f"--provider={nodes[provider].dsn}"
        original.theirs(name, f"create-{name}", name, nodes[name].dsn, given)
        damage(nodes[name], ROWS)
    original.theirs("root", "add-table", "t", "u")
    for name in ("branch", "leaf"):
        original.theirs(name, "add-table", "t", "u", "--expect-sync")
    original.tick()
    for name in names:
        original.work(name)

    # Before that our worker cannot work here, and says what is to be done.
    refused = original.ours("leaf", "install", fails=4)
    assert "belongs to the extension" in refused and "londiste install --adopt" in refused

    stop, failure = threading.Event(), []

    def write() -> None:
        number = 10_000
        with psycopg.connect(nodes["root"].dsn, autocommit=True) as conn:
            while not stop.is_set():
                number += 1
                try:
                    conn.execute("insert into t values (%s, 'w')", [number])
                    conn.execute("update t set v = v || 'x' where id <= 3")
                    conn.execute("delete from u where id = %s", [number - 10_000])
                except psycopg.Error as error:
                    failure.append(error)
                    return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for name in names:
            assert "no longer an extension" in original.ours(name, "install", "--adopt")
        for name in reversed(names):
            original.work(name, ours=True)
        original.ours("leaf", "wait-root")
    finally:
        stop.set()
        writer.join()
    assert failure == []
    for table in ("t", "u"):
        original.wait_equal("root", "leaf", table)
    script = original.folder / "change.sql"
    script.write_text("alter table t add column more int;\n")
    original.ours("root", "execute", str(script))
    nodes["root"].execute("insert into t (id, more) values (5000, 7)")
    original.wait_equal("root", "leaf", "t")
    assert "ERR" not in original.ours("leaf", "status")


MORE_TABLES = """
    create table big (id int primary key, v text);
    create table v (id int primary key, n int);
    create sequence numbers;
"""


def test_a_pair_is_taken_over_in_the_middle_of_what_theirs_had_begun(original: Original) -> None:
    """A copy that waits for its worker, one that is broken off, keys that are off, a script."""
    root, leaf = (original.node(name, ours=False) for name in ("root", "leaf"))
    for database in (root, leaf):
        database.execute(TABLES + MORE_TABLES)
    root.execute(ROWS)
    root.execute("insert into big select g, 'x' || g from generate_series(1, 5000) g")
    root.execute("select setval('numbers', 777)")
    with (original.folder / "leaf.ini").open("a") as settings:
        settings.write("parallel_copies = 2\n")
    original.theirs("root", "create-root", "root", root.dsn)
    original.theirs("leaf", "create-leaf", "leaf", leaf.dsn, f"--provider={root.dsn}")
    original.theirs("root", "add-table", "t", "u", "big", "v")
    original.theirs("root", "add-seq", "public.numbers")
    original.tick()
    original.work("root")
    original.work("leaf")
    original.theirs("leaf", "add-table", "v", "--expect-sync", "--handler=londiste")
    original.theirs("leaf", "add-seq", "public.numbers")
    script = original.folder / "theirs.sql"
    script.write_text("--*-- Local-Table: public.v\nalter table v add column more int default 7;\n")
    original.theirs("root", "execute", str(script))
    there = "select count(*) from londiste.applied_execute"
    wait_for(lambda: leaf.value(there) == 1, what=f"the script; {original.text('leaf')[-1500:]}")

    # Their copy of one table is broken off; its foreign key is off.
    _held_copy(original, root, leaf, "u", end=True)
    assert leaf.value("select count(*) from londiste.pending_fkeys") == 1
    # That of another one is held in its middle, then goes on while their worker is away.
    original.work("leaf")
    _held_copy(original, root, leaf, "big")
    waits = "select merge_state like 'wanna-sync:%' and custom_snapshot is not null"
    waits += " from londiste.table_info where table_name = 'public.big'"
    wait_for(lambda: leaf.value(waits), timeout=60, what="their copy to wait for their worker")
    _end_copies(original)

    root.execute("insert into big values (9001, 'later'); update big set v = 'y' where id < 5")
    root.execute(CHANGES + "; insert into v values (1, 2, 3)")
    for name in ("root", "leaf"):
        assert "no longer an extension" in original.ours(name, "install", "--adopt")
        original.work(name, ours=True)
    original.ours("leaf", "add-table", "t")
    original.wait_copied("leaf", 4)
    for table in ("t", "u", "big", "v"):
        original.wait_equal("root", "leaf", table)
    key = "select count(*) from pg_constraint where conname = 'u_t_id_fkey' and convalidated"
    wait_for(lambda: leaf.value(key) == 1, timeout=90, what="the foreign key")
    assert leaf.value("select count(*) from londiste.pending_fkeys") == 0
    assert leaf.value("select last_value from numbers") >= 777
    left = "select count(*) from pgq.get_consumer_info('q') where consumer_name like '%copy%'"
    wait_for(lambda: root.value(left) == 0, what="no consumer of a copy to be left")
    # What has run does not run again.
    original.ours("root", "execute", str(script))
    assert "ERR" not in original.ours("leaf", "status")
    assert leaf.value(there) == root.value(there) == 1


def _held_copy(
    original: Original, root: Database, leaf: Database, table: str, *, end: bool = False
) -> None:
    """Their copy of a table is begun, and their worker stopped; end: the copy, too."""
    state = "select merge_state from londiste.table_info where table_name = %s"
    with psycopg.connect(root.dsn) as conn:
        conn.execute(f"lock table {table} in access exclusive mode")
        original.theirs("leaf", "add-table", table)
        wait_for(
            lambda: leaf.value(state, f"public.{table}") == "in-copy",
            timeout=60,
            what=f"the copy of {table}; {original.text('leaf')[-1500:]}",
        )
        blocked = "select count(*) from pg_locks where not granted and relation = %s::regclass"
        wait_for(lambda: root.value(blocked, table), timeout=60, what="their copy to be held")
        original.stop("leaf")
        if end:
            _end_copies(original)
        conn.rollback()


def _end_copies(original: Original) -> None:
    """Their copies, which they start as daemons, end."""
    for file in original.folder.glob("leaf.pid.copy*"):
        pid = int(file.read_text())
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists(), what="their copy to end")
        file.unlink()
