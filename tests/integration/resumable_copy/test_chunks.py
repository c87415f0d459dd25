"""Resumable copies: changes, transactions and interruptions between the chunks."""

from __future__ import annotations

import threading

import psycopg
import pytest

from londiste.daemon.signals import Signals
from londiste.db.names import TableName
from londiste.errors import TransientError
from tests.fixtures.copies import A, Nodes, fill
from tests.fixtures.nodes import ret
from tests.support.resumable_copies import choice, copied, in_step, resumable
from tests.support.stepped import Stepped
from tests.support.suite.slow import first


@pytest.mark.slow
def test_rows_that_move_between_the_chunks_arrive_once(nodes: Nodes) -> None:
    fill(nodes, A)

    def between(done: int, left: int) -> None:
        number = 10_000 + done
        nodes.root.execute(
            # From the front to the back, from the back to the front, away and back again.
            f"update public.a set id = id + 100000, v = 'back {done}' where id = {done * 7 + 1};"
            f" update public.a set id = -id, v = 'front {done}' where id = {3000 - done * 7};"
            f" delete from public.a where id = {1500 + done};"
            f" insert into public.a values ({1500 + done}, 'again {done}');"
            f" insert into public.a values ({number}, 'new'), (-{number}, 'new');"
            f" update public.a set v = v || '!' where id = {number} or id % 500 = {done}"
        )

    engine = resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    assert len(engine.specs) == 1
    assert len(engine.specs[0].chunks) > 4
    assert engine.specs[0].snapshot == ""
    assert choice(nodes) == (
        "resumable",
        "at least resumable_copy_min_bytes (0 B)",
    )


def test_values_of_another_unique_index_may_collide_until_the_copy_is_consistent(
    nodes: Nodes,
) -> None:
    fill(nodes, A)
    nodes.root.execute("update public.a set v = id::text")
    for db in (nodes.root, nodes.leaf):
        db.execute("create unique index on public.a (v)")

    def between(done: int, left: int) -> None:
        if left:
            # The value of a row that is copied, or will be, goes to one at the other end.
            nodes.root.execute(
                f"update public.a set v = 'x{done}' where id = {done + 1};"
                f" update public.a set v = '{done + 1}' where id = {3000 - done};"
                f" update public.a set v = '{3000 - done}' where id = {done + 1}"
            )

    resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    assert nodes.leaf.value("select count(*) from pg_indexes where tablename = 'a'") == 2


def test_no_session_holds_a_source_snapshot_between_chunks(
    nodes: Nodes,
) -> None:
    fill(nodes, A)
    seen: list[object] = []

    def between(done: int, left: int) -> None:
        seen.append(
            nodes.root.value(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and application_name like 'londiste%' and backend_xmin is not null"
                " and application_name <> 'londiste copy load'"
            )
        )

    resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    assert len(seen) > 4
    assert set(seen) == {0}


def test_snapshot_copy_holds_its_snapshot_until_the_last_chunk(nodes: Nodes) -> None:
    fill(nodes, A)
    seen: list[object] = []

    def between(done: int, left: int) -> None:
        seen.append(
            nodes.root.value(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and application_name like 'londiste%' and backend_xmin is not null"
                " and application_name <> 'londiste copy load'"
            )
        )

    nodes.engine = Stepped(between)
    nodes.add(A)
    copied(nodes)
    assert set(seen) == {1}
    assert choice(nodes)[0] == "snapshot"


def test_transaction_open_during_chunks_is_applied_completely(nodes: Nodes) -> None:
    fill(nodes, A)
    open_one = nodes.root.connect()
    open_one.autocommit = False

    def between(done: int, left: int) -> None:
        if done == 1:
            open_one.execute("update public.a set v = 'open' where id % 100 = 0")
            open_one.execute("update public.a set id = id + 50000 where id % 1000 = 0")
            open_one.execute("delete from public.a where id % 300 = 1")
        nodes.root.execute(f"update public.a set v = 'other' where id = {done + 2}")
        if left == 1:
            open_one.commit()

    resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    open_one.close()


def test_transaction_longer_than_the_chunks_is_applied_after_them(nodes: Nodes) -> None:
    fill(nodes, A)
    last, committed = threading.Event(), threading.Event()

    def between(done: int, left: int) -> None:
        if left == 0:
            last.set()
            assert committed.wait(30)

    resumable(nodes, between)
    nodes.add(A)
    with nodes.root.connect() as open_one:
        open_one.autocommit = False
        open_one.execute("update public.a set id = id + 50000, v = 'late' where id % 10 = 0")
        nodes.start()
        assert last.wait(30)
        open_one.commit()
        committed.set()
    nodes.wait_end()
    in_step(nodes)


@pytest.mark.parametrize("at", first([3, 1]))
def test_truncate_between_chunks_keeps_later_rows(nodes: Nodes, at: int) -> None:
    fill(nodes, A)

    def between(done: int, left: int) -> None:
        if done == at:
            nodes.root.execute("update public.a set v = 'before'")
            nodes.root.execute("truncate public.a")
            nodes.root.execute(
                "insert into public.a select i, 'after' from generate_series(-50, 3050, 10) i"
            )
        nodes.root.execute(f"delete from public.a where id = {done * 100}")

    resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    assert nodes.leaf.value("select count(*) from public.a") == nodes.root.value(
        "select count(*) from public.a"
    )


class Broken(TransientError):
    """What the test raises in the middle of a copy."""


def test_failed_copy_resumes_at_the_next_chunk(nodes: Nodes) -> None:
    fill(nodes, A)
    breaks = [3, 2]

    def between(done: int, left: int) -> None:
        nodes.root.execute(f"update public.a set v = v || '{done}' where id % 50 = {done}")
        nodes.root.execute(f"update public.a set id = -id where id = {left + 1}")
        if breaks and done == breaks[0]:
            breaks.pop(0)
            raise Broken("broken by the test")

    engine = resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    first, second, third = engine.specs
    assert first.attempt == second.attempt == third.attempt
    assert len(second.chunks) == len(first.chunks) - 3
    assert len(third.chunks) == len(second.chunks) - 2


def test_second_process_resumes_and_the_queue_has_kept_the_events(nodes: Nodes) -> None:
    fill(nodes, A)

    def stop(done: int, left: int) -> None:
        if done == 2:
            nodes.signals.stop()
            raise Broken("killed by the test")

    engine = resumable(nodes, stop)
    nodes.add(A)
    nodes.start()
    assert nodes.thread is not None
    nodes.thread.join()
    nodes.thread = None
    (before,) = nodes.leaf.execute("select attempt, count(*) from londiste.copy_chunk group by 1")
    assert before[1] == 2
    # Days pass: ticks, rotations, changes everywhere.
    nodes.root.execute("update pgq.queue set queue_rotation_period = '0'")
    for number in range(6):
        nodes.root.execute(f"update public.a set id = id + 20000 where id % 40 = {number}")
        nodes.root.execute(f"delete from public.a where id % 41 = {number}")
        nodes.root.execute("select pgq.ticker('q')")
        nodes.root.execute("select pgq.maint_rotate_tables_step1('q')")
        nodes.root.execute("select pgq.maint_rotate_tables_step2()")
    nodes.signals = Signals(stop_timeout=30)
    engine.between = lambda done, left: None
    copied(nodes)
    assert engine.specs[1].attempt == engine.specs[0].attempt
    assert len(engine.specs[1].chunks) == len(engine.specs[0].chunks) - 2


def test_a_table_that_is_to_be_copied_again_is_not_resumed(nodes: Nodes) -> None:
    fill(nodes, A)
    # Otherwise the server may do it in between, and the second plan has other chunks.
    nodes.root.execute("analyze public.a")
    breaks = [2]

    def between(done: int, left: int) -> None:
        if breaks and done == breaks[0]:
            breaks.pop()
            # What ``resync`` and the worker store.
            with nodes.leaf.connect(replica=True) as conn, conn.transaction():
                conn.execute("delete from public.a where id > 2900")
            nodes.set_state(A, "in-copy")
            raise Broken("broken by the test")

    engine = resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    assert len(engine.specs) == 2
    assert engine.specs[1].attempt > engine.specs[0].attempt
    assert len(engine.specs[1].chunks) == len(engine.specs[0].chunks)


@pytest.mark.slow
def test_cancelled_copy_resumes_afterwards(nodes: Nodes) -> None:
    fill(nodes, A)
    asked = []

    def between(done: int, left: int) -> None:
        if done == 2 and not asked:
            asked.append(nodes.leaf.value("select londiste.copy_stop('q', 'public.a')"))
            with pytest.raises(psycopg.errors.AdminShutdown):
                with nodes.leaf.connect(name="londiste copy task of the test") as conn:
                    conn.execute("select pg_terminate_backend(pg_backend_pid())")
            raise Broken("let go")

    engine = resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    assert asked == [True]
    assert len(engine.specs[1].chunks) == len(engine.specs[0].chunks) - 2


def test_removed_table_is_emptied(nodes: Nodes) -> None:
    fill(nodes, A)

    def between(done: int, left: int) -> None:
        if done == 2:
            nodes.signals.stop()
            raise Broken("killed by the test")

    resumable(nodes, between)
    nodes.add(A)
    nodes.start()
    assert nodes.thread is not None
    nodes.thread.join()
    nodes.thread = None
    assert ret(nodes.leaf, "londiste.local_remove_table", "q", "public.a")[0] == 200
    assert nodes.leaf.value("select count(*) from public.a") == 0
    assert nodes.leaf.value("select count(*) from pg_constraint where conname = 'a_pkey'") == 1
    nodes.signals = Signals(stop_timeout=30)
    nodes.start()
    nodes.wait_end()
    assert nodes.consumers() == []
    assert nodes.leaf.value("select count(*) from londiste.copy_attempt") == 0


def test_keys_of_several_columns_and_of_any_text_are_cut_at_the_right_places(
    nodes: Nodes,
) -> None:
    for db in (nodes.root, nodes.leaf):
        db.execute(
            'drop table public.a; create table public.a (v text, "K 1" numeric(9,2),'
            ' k2 varchar(40) collate "C", id int8, primary key (k2, "K 1"))'
        )
    nodes.root.execute(
        "insert into public.a select repeat('x', 200), i / 3.0,"
        " (array[E'\\\\', '''%s', '', 'é', '{}', 'ü ', 'A', 'a'])[i %% 8 + 1], i"
        " from generate_series(1, 4000) i".replace("%%", "%")
    )
    nodes.root.execute("analyze public.a")

    def between(done: int, left: int) -> None:
        nodes.root.execute(f"update public.a set k2 = 'moved {done}' where id % 400 = {done}")

    engine = resumable(nodes, between)
    nodes.add(TableName("public", "a"))
    copied(nodes)
    conditions = [chunk.condition for chunk in engine.specs[0].chunks]
    assert len(conditions) > 6
    assert all('("k2", "K 1")' in condition for condition in conditions)


def test_an_empty_table_and_one_that_fits_into_a_chunk_have_one_range(nodes: Nodes) -> None:
    engine = resumable(nodes)
    nodes.add(A)
    copied(nodes)
    assert [chunk.condition for chunk in engine.specs[0].chunks] == [""]
