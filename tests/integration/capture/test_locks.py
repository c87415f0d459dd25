"""Locks on users' tables match the reference, and lock waits are limited."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.replication.ddl.locks import STRENGTH
from tests.fixtures.line import Command, Line, LineNode
from tests.support.lock_watch import Watch, watched
from tests.support.suite.slow import first

PAGE = Path(__file__).parents[3] / "docs/reference/locks.md"
SCHEMA = """
create table a (id int primary key, v text);
create index on a (v);
create table b (id int primary key, v text);
create table d (id int primary key, a int references a, v text);
create table e (id int primary key, v text);
create table s (id int primary key, v text);
"""
TABLES = ("public.a", "public.b", "public.d", "public.e", "public.s")


def listed(part: str) -> dict[str, set[str]]:
    """Who takes which locks, by the words in the first column of the page."""
    section = PAGE.read_text().split(f"## {part}\n")[1].split("\n## ")[0]
    found: dict[str, set[str]] = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| `"):
            continue
        locks = set(cells[2].split(", ")) - {"none", "ACCESS SHARE"}
        if locks & {"what the script takes", "and what the script takes"}:
            locks = set(STRENGTH)
        assert locks <= set(STRENGTH), line
        for who in re.findall(r"`([a-z][^`]*)`", cells[0]):
            found.setdefault(who, set()).update(locks)
    return found


@contextmanager
def ticking(line: Line) -> Iterator[None]:
    """Ticks on the root for the length of a with block."""
    stop = threading.Event()
    root = line.nodes["root"].database

    def run() -> None:
        with root.connect() as conn:
            while not stop.wait(0.05):
                conn.execute("select pgq.force_tick('line')")
                conn.execute("select pgq.ticker('line')")
                conn.commit()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_every_lock_on_a_users_table_is_in_the_reference(
    line: Line, command: Command, tmp_path: Path
) -> None:
    pages = {"root": listed("On the source"), "near": listed("On the subscriber")}
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    near = line.node("near", NodeType.BRANCH, root, schema=SCHEMA)
    for table in ("a", "b", "d", "e"):
        columns = "i, i" if table != "d" else "i, i, i"
        root.database.execute(f"insert into {table} select {columns} from generate_series(1, 99) i")
    with (
        watched(root.database, *TABLES) as up,
        watched(near.database, *TABLES) as down,
    ):
        watches = {"root": up, "near": down}

        def seen(who: str, *locks: str) -> None:
            """All that was taken is in the page; ``locks`` were taken, 'node LOCK'."""
            for node, watch in watches.items():
                modes = watch.modes()
                assert modes <= pages[node].get(who, set()), (who, node, modes)
                wanted = {lock.split(" ", 1)[1] for lock in locks if lock.startswith(node + " ")}
                assert wanted <= modes, (who, node, modes)

        def ok(node: LineNode, *args: str, code: int = 0) -> None:
            answer = command(node, *args)
            assert answer.code == code, (args, answer)

        def in_step() -> bool:
            states = "select count(*) from londiste.table_info where local and merge_state = 'ok'"
            return bool(near.database.value(states) == 4)

        for table, *how in (
            ("a", "--trigger", "jsontriga"),
            ("b", "--form", "statement"),
            ("d", "--trigger", "logutriga"),
            ("e", "--form", "row"),
            ("s", "--trigger", "sqltriga"),
        ):
            ok(root, "add-table", table, *how)
            seen("add-table", "root SHARE ROW EXCLUSIVE")
        ok(near, "add-table", "a", "d", "--copy-mode", "snapshot")
        ok(near, "add-table", "b", "e", "--copy-mode", "resumable")
        seen("add-table", "near SHARE ROW EXCLUSIVE")
        line.start(near)
        with ticking(line):
            line.wait(in_step, "the copies", 90)
            waits = "select count(*) from pg_constraint where conname = 'd_a_fkey' and convalidated"
            line.wait(lambda: near.database.value(waits) == 1, "the foreign key")
        seen("copy", "near ACCESS EXCLUSIVE", "near ROW EXCLUSIVE")
        root.database.execute("update a set v = 'x' where id < 9; delete from d where id = 5")
        line.wait_position(near, line.tick())
        seen("worker", "near ROW EXCLUSIVE")
        root.database.execute("truncate b; insert into b values (1)")
        line.wait_position(near, line.tick())
        seen("worker", "near ACCESS EXCLUSIVE")
        ok(root, "change-form", "e", "statement")
        seen("change-form", "root ACCESS EXCLUSIVE")
        root.database.execute("alter table e disable trigger user")
        ok(root, "triggers", "--restore")
        seen("triggers --restore", "root ACCESS EXCLUSIVE")
        near.database.execute("set session_replication_role = replica; delete from a where id = 7")
        with ticking(line):
            ok(near, "compare", "a", code=3)
            seen("compare")
            ok(near, "repair", "a", code=3)
            seen("repair")
            ok(near, "repair", "a", "--apply")
            seen("repair --apply", "near ROW EXCLUSIVE")
        script = tmp_path / "more.sql"
        script.write_text("alter table public.b add column w int;\nupdate public.b set v = 'q';\n")
        ok(root, "execute", str(script))
        line.wait_position(near, line.tick())
        assert up.modes() <= pages["root"]["execute"]
        assert "ACCESS EXCLUSIVE" in down.modes()
        for words in (["add-seq", "--all"], ["check"], ["missing"], ["tables"], ["status"]):
            ok(root, *words)
            seen(words[0])
        assert near.worker is not None
        near.worker.stop()
        ok(near, "change-handler", "e", "--where", "id > 3")
        seen("change-handler")
        ok(near, "resync", "a")
        seen("resync")
        ok(near, "remove-table", "b", "e")
        seen("remove-table", "near ACCESS EXCLUSIVE")
        ok(root, "remove-table", "d")
        seen("remove-table", "root ACCESS EXCLUSIVE")


@pytest.mark.parametrize("held", first(["row exclusive", "access exclusive"]))
def test_a_command_that_gets_no_lock_lets_others_through_and_changes_nothing(
    line: Line, command: Command, tmp_path: Path, held: str
) -> None:
    root = line.node(
        "root", NodeType.ROOT, schema=SCHEMA, lock_timeout=0.25, execute_lock_timeout=0.2
    )
    script = tmp_path / "s.sql"
    script.write_text(
        "create table public.half (id int);\nalter table public.a add column w int;\n"
    )
    assert command(root, "add-table", "a").code == 0
    root.database.execute("alter table a add column n int")
    state = (
        "select array[(select string_agg(pg_get_triggerdef(t.oid), ';' order by oid)"
        " from pg_trigger t),"
        " (select string_agg(t::text, ';' order by t::text) from londiste.table_info t),"
        " (select string_agg(a.attname, ';' order by a.attnum) from pg_attribute a"
        " where attrelid = 'a'::regclass), to_regclass('public.half')::text]"
    )
    before = root.database.value(state)
    # Looked for in the server: a client on a busy machine looks away for longer than they wait.
    until_it_waits = (
        "set statement_timeout = '30s'; do $$ begin while not exists (select from pg_locks"
        " where not granted and relation in ('a'::regclass, 'b'::regclass))"
        " loop perform pg_sleep(0.002); end loop; end $$"
    )
    for words in (
        ["add-table", "b"],
        ["change-form", "a", "statement"],
        ["triggers", "--restore"],
        ["execute", str(script), "--timeout", "0.3"],
        ["remove-table", "a"],
    ):
        passed = threading.Event()

        def application(passed: threading.Event = passed) -> None:
            with psycopg.connect(root.database.dsn) as conn:
                conn.execute(until_it_waits)
                conn.execute("insert into a values (1, 'x'); insert into b values (1, 'x')")
                conn.rollback()
            passed.set()

        with psycopg.connect(root.database.dsn) as holder:
            holder.execute(f"lock table a, b in {held} mode")
            behind = threading.Thread(target=application)
            if held == "row exclusive":
                behind.start()
            answer = command(root, *words)
            if held == "row exclusive":
                # The holder still holds.
                behind.join(30)
                assert passed.is_set(), words
        assert answer.code == 6, (words, answer)
        assert answer.err.count("error: ") == 1
        assert "lock" in answer.err
        assert "hint: " in answer.err
        assert "Traceback" not in answer.err
        assert root.database.value(state) == before, words


def test_the_watch_sees_what_passes_it(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    every = list(STRENGTH[2:-1])
    with watched(root.database, "public.a") as watch:
        for lock in every:
            with root.database.connect() as conn:
                conn.execute("set application_name = 'londiste x'")
                conn.execute(f"begin; lock table public.a in {lock} mode; commit")
            assert watch.modes() == {lock}
        assert isinstance(watch, Watch)
