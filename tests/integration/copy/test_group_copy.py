"""Group copy of small tables: one consumer, one snapshot, failures of single tables."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from londiste.copy import group_copy
from londiste.copy.process import CopyProcess
from londiste.daemon.signals import Signals
from londiste.db.names import TableName
from londiste.pgq import batches
from tests.fixtures.copies import Nodes
from tests.fixtures.nodes import ret
from tests.support.suite.slow import first
from tests.support.waiting import wait_for

#: What changes a replicated table on the leaf.
SILENT = "set session_replication_role = replica;"
COLUMNS = "(id int primary key, v text, w int)"


@pytest.fixture
def group(nodes: Nodes) -> Nodes:
    """The chunks are large enough for several tables."""
    process = nodes.process

    def larger(*wanted: TableName) -> CopyProcess:
        work = process(*wanted)
        object.__setattr__(work.job, "chunk_bytes", 64 << 20)
        return work

    nodes.process = larger  # type: ignore[method-assign]
    return nodes


def make(nodes: Nodes, count: int, rows: int = 20) -> list[TableName]:
    """Tables on both sides, with rows on the root."""
    names = [TableName("public", f"t{i}") for i in range(count)]
    create = ";".join(f"create table {name} {COLUMNS}" for name in names)
    nodes.leaf.execute(create)
    nodes.root.execute(
        create
        + ";"
        + ";".join(
            f"insert into {name} select i, 'v' || i, i from generate_series(1, {rows}) i"
            for name in names
        )
    )
    return names


def add(nodes: Nodes, names: list[TableName]) -> None:
    """The tables are registered, and shall be copied."""
    texts = [str(name) for name in names]
    every = "select londiste.{}('q', name) from unnest(%s::text[]) name"
    nodes.root.execute(
        every.format("local_add_table").replace("name)", "name, '{tgflags=C}')"), texts
    )
    nodes.leaf.execute(every.format("global_add_table"), texts)
    nodes.leaf.execute(every.format("local_add_table"), texts)
    nodes.leaf.execute(
        "update londiste.table_info set merge_state = 'in-copy' where table_name = any(%s)", texts
    )


def ready(nodes: Nodes) -> int:
    """How many tables are ok; a round of ticker and worker comes first."""
    nodes.state(TableName("public", "t0"))
    return int(
        nodes.leaf.value("select count(*) from londiste.table_info where merge_state = 'ok'")
    )


def equal(nodes: Nodes, *names: TableName) -> None:
    for name in names:
        rows = f"select id, v, w from {name} order by id"
        assert nodes.leaf.execute(rows) == nodes.root.execute(rows), name


def steps(nodes: Nodes) -> list[tuple[str, int]]:
    """How many tables had each step."""
    return nodes.leaf.execute(
        "select step, count(*)::int from londiste.copy_step group by 1 order by 1"
    )


def nothing_is_left(nodes: Nodes) -> None:
    """No consumer on either side, no attempt, no membership."""
    assert nodes.consumers() == []
    for table in ("copy_attempt", "copy_chunk", "copy_member"):
        assert nodes.leaf.value(f"select count(*) from londiste.{table}") == 0, table


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_hundreds_of_small_tables_are_copied_together(
    group: Nodes, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    names = make(group, count, rows=5)
    add(group, names)
    group.start()
    group.wait_end()
    assert ready(group) == count
    together = [r for r in caplog.messages if "small tables as a group" in r]
    assert 1 <= len(together) <= count // 100, together
    equal(group, *names[::37])
    assert steps(group) == [("catch-up", count), ("hand-over", count), ("load", count)]
    nothing_is_left(group)


def test_one_that_cannot_be_copied_is_copied_alone_and_says_why(group: Nodes) -> None:
    names = make(group, 8)
    bad = {
        names[1]: ("alter table public.t1 add more int not null", "more"),
        names[2]: (SILENT + "insert into public.t2 values (3, 'mine', 0)", ""),
        names[3]: ("alter table public.t3 add check (id < 5)", "violates check constraint"),
        names[4]: ("alter table public.t4 alter v type int using 0", "invalid input syntax"),
        names[5]: ("create unique index on public.t5 ((w / 2))", "duplicate"),
        names[6]: ("", "does not exist on the target"),
    }
    add(group, names)
    for statement, _ in bad.values():
        if statement:
            group.leaf.execute(statement)
    group.leaf.execute("alter table public.t6 rename to elsewhere")
    failing = [name for name, (_, says) in bad.items() if says]
    group.start()
    wait_for(lambda: ready(group) == len(names) - len(failing), what="the others")
    for name in failing:
        reason = wait_for(lambda name=name: group.error(name), what=f"a reason for {name}")  # type: ignore[misc]
        assert bad[name][1] in reason or "duplicated" in reason, reason
    equal(group, names[0], names[2], names[7])
    group.leaf.execute(
        SILENT + "update public.t5 set w = 2 * id;"
        "alter table public.elsewhere rename to t6; alter table public.t1 drop more;"
        "alter table public.t3 drop constraint t3_id_check;"
        "alter table public.t4 alter v type text"
    )
    wait_for(lambda: ready(group) == len(names), what="all")
    group.wait_end()
    equal(group, *(name for name in names if name != names[5]))
    nothing_is_left(group)


def test_a_group_catches_up_with_keys_that_move(group: Nodes) -> None:
    """Rows are written from before the copy until after the hand-over."""
    names = make(group, 12, rows=50)
    stop = threading.Event()
    failure: list[BaseException] = []

    def write() -> None:
        number = 1000
        try:
            with group.root.connect() as conn:
                while not stop.is_set():
                    number += 1
                    for name in names[:: 1 + number % 3]:
                        conn.execute(
                            f"insert into {name} values ({number}, 'n', 0);"
                            f"update {name} set id = id + 100000 where id = {number - 5};"
                            f"update {name} set v = v || 'x' where id % 7 = {number % 7};"
                            f"delete from {name} where id = {100000 + number - 9}"
                        )
        except BaseException as error:
            failure.append(error)

    writer = threading.Thread(target=write)
    add(group, names)
    writer.start()
    try:
        group.start()
        wait_for(lambda: ready(group) == len(names), what="all tables")
    finally:
        stop.set()
        writer.join()
    assert not failure
    group.wait_end()
    nothing_is_left(group)


def test_a_member_that_is_removed_or_copied_again_leaves_and_the_others_go_on(
    group: Nodes,
) -> None:
    names = make(group, 6)
    add(group, names)
    group.start()
    waiting = "select count(*) from londiste.table_info where merge_state like 'wanna-sync:%%'"
    wait_for(
        lambda: (
            group.root.execute("select pgq.ticker('q')"),
            group.leaf.value(waiting) == len(names),
        )[1],
        what="wanna-sync",
    )
    assert ret(group.leaf, "londiste.local_remove_table", "q", str(names[1]))[0] < 400
    group.leaf.execute(SILENT + "insert into public.t2 values (999, 'mine', 0)")
    group.set_state(names[2], "in-copy")
    wait_for(lambda: ready(group) == len(names) - 1, what="the others")
    group.wait_end()
    equal(group, names[0], *names[2:])
    nothing_is_left(group)


@pytest.mark.parametrize("what", first(["do-sync", "catching-up", "wanna-sync"]))
def test_another_process_goes_on_with_a_group(group: Nodes, what: str) -> None:
    names = make(group, 5)
    add(group, names)
    group.start()
    count = f"select count(*) from londiste.table_info where merge_state like '{what}%%'"
    if what == "do-sync":
        wait_for(
            lambda: (
                group.root.execute("select pgq.ticker('q')"),
                group.leaf.value(count.replace("do-", "wanna-")) == len(names),
            )[1],
            what="wanna-sync",
        )
    elif what == "wanna-sync":
        wait_for(
            lambda: (
                group.root.execute("select pgq.ticker('q')"),
                group.leaf.value(count) == len(names),
            )[1],
            what=what,
        )
    else:
        wait_for(lambda: group.leaf.value(count) == len(names), what=what)
    group.stop()
    group.root.execute("update public.t1 set id = id + 1000 where id < 4")
    group.signals = Signals(stop_timeout=30)
    group.start()
    wait_for(lambda: ready(group) == len(names), what="all")
    group.wait_end()
    equal(group, *(n for n in names if n.name != "t1"))
    nothing_is_left(group)


@pytest.fixture(params=[False, True], ids=["", "slowly"])
def halving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a consumer for half of a group is registered, the process looks at all tables."""
    if not request.param:
        return
    rounds = threading.Semaphore(0)
    look, register_at = CopyProcess._left, batches.register_consumer_at

    def counted(self: CopyProcess, *args: Any) -> Any:
        try:
            return look(self, *args)
        finally:
            rounds.release()

    def slow(*args: Any) -> None:
        register_at(*args)
        while rounds.acquire(blocking=False):
            pass
        for _ in range(3):
            rounds.acquire()

    monkeypatch.setattr(CopyProcess, "_left", counted)
    monkeypatch.setattr(group_copy, "batches", SimpleNamespace(register_consumer_at=slow))


@pytest.mark.usefixtures("halving")
def test_an_event_that_does_not_fit_one_table_halves_the_group(
    group: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    names = make(group, 5)
    add(group, names)
    loaded = "select count(*) from londiste.copy_member"
    with group.root.connect() as holder:
        # A transaction that the copy's snapshot does not see keeps the tick from covering it.
        holder.execute("begin; update public.t3 set v = 'other' where id = 1")
        group.start()
        wait_for(lambda: group.leaf.value(loaded) == len(names), what="the rows")
        group.leaf.execute(SILENT + "delete from public.t3 where id = 1")
        holder.execute("commit")
    wait_for(lambda: ready(group) == len(names) - 1, what="the others")
    error = "select cur_error from pgq_node.local_state where consumer_name like '%%group:%%'"
    reason = wait_for(lambda: group.leaf.value(error), what="a reason")
    assert "public.t3" in str(reason)
    group.leaf.execute(SILENT + "insert into public.t3 values (1, 'v1', 1)")
    wait_for(lambda: ready(group) == len(names), what="all")
    group.wait_end()
    equal(group, *names)
    nothing_is_left(group)
    assert not [line for line in caplog.messages if "starts over" in line]
