"""The copy that goes on where it stood, with the test between its chunks."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from londiste.daemon.signals import Signals
from londiste.db.names import TableName
from londiste.errors import TransientError
from tests.fixtures.copies import ROWS, A, Nodes, fill, same
from tests.fixtures.nodes import ret
from tests.support.stepped import Stepped
from tests.support.waiting import wait_for

Between = Callable[[int, int], None]


def resumable(nodes: Nodes, between: Between = lambda done, left: None) -> Stepped:
    """Every table is copied in the resumable way; ``between`` is called between its chunks."""

    def ticking(done: int, left: int) -> None:
        between(done, left)
        if left == 0:
            # There is no worker in these tests: what comes after the hand-over stays in the queue.
            nodes.root.execute("select pgq.force_tick('q')")
            nodes.root.execute("select pgq.ticker('q')")

    engine = Stepped(ticking)
    nodes.engine = engine
    nodes.resumable_from = 0
    return engine


def copied(nodes: Nodes) -> None:
    """Waits until the table is in step, and compares."""
    nodes.start()
    nodes.wait_end()
    assert nodes.failure is None
    in_step(nodes)


def in_step(nodes: Nodes) -> None:
    assert nodes.state(A) == "ok"
    assert same(nodes, A)
    assert nodes.leaf.execute("select custom_snapshot, dropped_ddl from londiste.table_info") == [
        (None, None)
    ]
    assert nodes.consumers() == []
    for table in ("copy_attempt", "copy_chunk", "copy_range"):
        assert nodes.leaf.value(f"select count(*) from londiste.{table}") == 0
    assert nodes.leaf.value("select count(*) from pg_constraint where conname = 'a_pkey'") == 1


def choice(nodes: Nodes) -> tuple[str, str]:
    """The way that was taken, and why."""
    ((mode, reason),) = nodes.leaf.execute("select mode, reason from londiste.copy_choice")
    return mode, reason


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


def test_no_session_of_ours_holds_a_snapshot_on_the_source_between_two_chunks(
    nodes: Nodes,
) -> None:
    fill(nodes, A)
    seen: list[object] = []

    def between(done: int, left: int) -> None:
        seen.append(
            nodes.root.value(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and application_name like 'londiste%' and backend_xmin is not null"
            )
        )

    resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    assert len(seen) > 4
    assert set(seen) == {0}


def test_a_copy_in_one_snapshot_holds_it_until_the_last_chunk(nodes: Nodes) -> None:
    fill(nodes, A)
    seen: list[object] = []

    def between(done: int, left: int) -> None:
        seen.append(
            nodes.root.value(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and application_name like 'londiste%' and backend_xmin is not null"
            )
        )

    nodes.engine = Stepped(between)
    nodes.add(A)
    copied(nodes)
    assert set(seen) == {1}
    assert choice(nodes)[0] == "snapshot"


def test_a_transaction_that_is_open_during_chunks_comes_whole(nodes: Nodes) -> None:
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


def test_a_transaction_that_outlives_the_chunks_is_applied_after_them(nodes: Nodes) -> None:
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


@pytest.mark.parametrize("at", [1, 3])
def test_a_truncate_between_the_chunks_leaves_what_came_after_it(nodes: Nodes, at: int) -> None:
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


def test_a_broken_copy_goes_on_at_the_next_chunk(nodes: Nodes) -> None:
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


def test_another_process_goes_on_and_the_queue_has_kept_what_happened(nodes: Nodes) -> None:
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


def test_a_copy_that_was_asked_to_let_go_goes_on_afterwards(nodes: Nodes) -> None:
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


def test_a_removed_table_does_not_keep_half_a_copy(nodes: Nodes) -> None:
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


def altered(nodes: Nodes, *statements: str) -> Stepped:
    """A copy with ALTER TABLE on both sides after its second chunk."""
    fill(nodes, A)
    nodes.root.execute("update public.a set v = (id % 50)::text")
    done_once: list[bool] = []

    def between(done: int, left: int) -> None:
        if done == 2 and not done_once:
            done_once.append(True)
            for statement in statements:
                if not statement.startswith("update"):
                    nodes.leaf.execute(statement)
                nodes.root.execute(statement)
        nodes.root.execute(f"update public.a set id = id + 9000 where id = {done + 1}")

    engine = resumable(nodes, between)
    nodes.add(A)
    nodes.start()
    nodes.wait_end()
    assert nodes.failure is None
    assert nodes.state(A) == "ok"
    every = "select to_jsonb(a)::text from public.a order by id"
    assert nodes.leaf.execute(every) == nodes.root.execute(every)
    return engine


@pytest.mark.parametrize(
    "statement",
    [
        "alter table public.a alter v type int using v::int * 2",
        "alter table public.a alter v type text using v || ' anew'",
        "alter table public.a drop v, add v text default 'other'",
        "alter table public.a add w text default 'there'",
        "alter table public.a add w timestamptz default clock_timestamp()",
    ],
)
def test_columns_that_become_others_begin_the_copy_again(nodes: Nodes, statement: str) -> None:
    engine = altered(nodes, statement)
    assert len(engine.specs) == 2
    assert engine.specs[1].attempt > engine.specs[0].attempt


def test_a_new_empty_column_does_not_begin_the_copy_again(nodes: Nodes) -> None:
    engine = altered(
        nodes,
        "alter table public.a add w text",
        "update public.a set w = 'filled' where id % 3 = 0",
    )
    assert len(engine.specs) == 1


def test_a_table_that_is_rewritten_as_it_is_goes_on(nodes: Nodes) -> None:
    engine = altered(nodes, "vacuum full public.a")
    assert len(engine.specs) == 1


def test_another_table_of_the_same_name_begins_the_copy_again(nodes: Nodes) -> None:
    fill(nodes, A)
    once: list[bool] = []

    def between(done: int, left: int) -> None:
        if done == 2 and not once:
            once.append(True)
            # Two statements of one transaction; the capture goes with the new table.
            nodes.root.execute(
                "create table public.other (like public.a including all);"
                " insert into public.other select id + 7, 'other' from public.a;"
                " alter table public.a rename to gone; alter table public.other rename to a;"
                " drop table public.gone cascade;"
                " select londiste.create_trigger('q', 'a', '{tgflags=C}', 'a', 'root')"
            )

    engine = resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    assert len(engine.specs) == 2


@pytest.mark.parametrize("trigger", ["tgflags=L", "tgflags=J", "ignore=v", "when=id > 10"])
def test_a_table_whose_events_are_not_whole_is_copied_in_one_snapshot(
    nodes: Nodes, trigger: str
) -> None:
    fill(nodes, A)
    engine = resumable(nodes)
    nodes.add(A)
    nodes.root.execute("select londiste.drop_table_triggers('q', 'public.a')")
    nodes.root.execute(
        "select londiste.create_trigger('q', 'public.a', array[%s], 'public.a', 'root')", trigger
    )
    nodes.start()
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    assert engine.specs[0].snapshot
    mode, reason = choice(nodes)
    assert mode == "snapshot"
    assert "captur" in reason


def test_an_event_without_a_whole_row_makes_the_copy_begin_again_in_one_snapshot(
    nodes: Nodes,
) -> None:
    fill(nodes, A)

    def between(done: int, left: int) -> None:
        if done == 2:
            nodes.root.execute("select londiste.drop_table_triggers('q', 'public.a')")
            nodes.root.execute(
                "select londiste.create_trigger('q', 'public.a', array['tgflags=L'],"
                " 'public.a', 'root')"
            )
            nodes.root.execute("update public.a set v = 'url' where id = 7")

    engine = resumable(nodes, between)
    nodes.add(A)
    copied(nodes)
    first, second = engine.specs
    assert (first.snapshot == "", second.snapshot == "") == (True, False)
    mode, reason = choice(nodes)
    assert mode == "snapshot"
    assert "row image is incomplete (key id)" in reason


def test_the_way_that_was_asked_for_and_is_impossible_is_an_error(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.leaf.execute("alter table public.a drop constraint a_pkey")
    resumable(nodes)
    ret(nodes.root, "londiste.global_add_table", "q", "public.a")
    ret(nodes.root, "londiste.local_add_table", "q", "public.a", ["tgflags=C"])
    ret(nodes.leaf, "londiste.global_add_table", "q", "public.a")
    ret(
        nodes.leaf,
        "londiste.local_add_table",
        "q",
        "public.a",
        ["insert_only"],
        "copy_mode=resumable",
    )
    nodes.set_state(A, "in-copy")
    nodes.start()
    assert "a resumable copy is not possible (the target table has no unique index on id)" in (
        wait_for(lambda: nodes.error(A), what="the reason to be stored")
    )
    nodes.leaf.execute("create unique index by_id on public.a (id)")
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    assert choice(nodes) == ("resumable", "requested")
    assert nodes.leaf.execute(ROWS.format("a")) == nodes.root.execute(ROWS.format("a"))


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


def test_a_provider_that_cannot_tell_how_it_captures_gives_a_snapshot(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.root.execute("drop function londiste.copy_obstacle(text, text)")
    resumable(nodes)
    nodes.add(A)
    copied(nodes)
    assert choice(nodes)[0] == "snapshot"
    assert "older" in choice(nodes)[1]
