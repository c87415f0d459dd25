"""A resumable copy that starts again, because of DDL, its columns or its events."""

from __future__ import annotations

import pytest

from tests.fixtures.copies import ROWS, A, Nodes, fill
from tests.fixtures.nodes import ret
from tests.support.resumable_copies import choice, copied, resumable
from tests.support.stepped import Stepped
from tests.support.suite.slow import first
from tests.support.waiting import wait_for


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
    first(
        [
            "alter table public.a alter v type int using v::int * 2",
            "alter table public.a alter v type text using v || ' anew'",
            "alter table public.a drop v, add v text default 'other'",
            "alter table public.a add w text default 'there'",
            "alter table public.a add w timestamptz default clock_timestamp()",
        ],
    ),
)
def test_changed_columns_restart_the_copy(nodes: Nodes, statement: str) -> None:
    engine = altered(nodes, statement)
    assert len(engine.specs) == 2
    assert engine.specs[1].attempt > engine.specs[0].attempt


def test_added_empty_column_does_not_restart_the_copy(nodes: Nodes) -> None:
    engine = altered(
        nodes,
        "alter table public.a add w text",
        "update public.a set w = 'filled' where id % 3 = 0",
    )
    assert len(engine.specs) == 1


def test_rewritten_unchanged_table_does_not_restart_the_copy(nodes: Nodes) -> None:
    engine = altered(nodes, "vacuum full public.a")
    assert len(engine.specs) == 1


def test_recreated_table_restarts_the_copy(nodes: Nodes) -> None:
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


@pytest.mark.parametrize(
    "trigger", first(["ignore=v", "tgflags=L", "tgflags=J", "when=id > 10"], 2)
)
def test_table_with_partial_row_images_uses_snapshot_mode(nodes: Nodes, trigger: str) -> None:
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


def test_partial_row_image_restarts_the_copy_in_snapshot_mode(
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


def test_impossible_requested_copy_mode_is_an_error(nodes: Nodes) -> None:
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


def test_unknown_capture_of_the_provider_uses_snapshot_mode(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.root.execute("drop function londiste.copy_obstacle(text, text)")
    resumable(nodes)
    nodes.add(A)
    copied(nodes)
    assert choice(nodes)[0] == "snapshot"
    assert "older" in choice(nodes)[1]
