"""ALTER TABLE, TRUNCATE and DROP TABLE between the chunks of a copy, in both copy modes."""

from __future__ import annotations

import threading

import pytest

from tests.fixtures.copies import A, B, Nodes, fill
from tests.support.stepped import Stepped
from tests.support.waiting import wait_for

WAYS = ("snapshot", "resumable")


def between_chunks(nodes: Nodes, way: str, *statements: str, both: bool = False) -> Stepped:
    """A copy with these statements on the source (or on both sides) after its second chunk."""
    once: list[bool] = []

    def between(done: int, left: int) -> None:
        if done == 2 and not once:
            once.append(True)
            for statement in statements:
                if both:
                    nodes.leaf.execute(statement)
                nodes.root.execute(statement)
        if left == 0:
            nodes.root.execute("select pgq.force_tick('q')")
            nodes.root.execute("select pgq.ticker('q')")

    engine = Stepped(between)
    nodes.engine = engine
    nodes.resumable_from = 0 if way == "resumable" else 1 << 40
    return engine


def two_columns(nodes: Nodes) -> None:
    for db in (nodes.root, nodes.leaf):
        db.execute("alter table public.a add w text")
    nodes.root.execute(
        "insert into public.a select i, 'v' || repeat('x', 100), 'w' || i"
        " from generate_series(1, 3000) i"
    )


def equal(nodes: Nodes) -> bool:
    rows = "select to_jsonb(a)::text from public.a order by id"
    here, there = nodes.leaf.execute(rows), nodes.root.execute(rows)
    print("only here", sorted(set(here) - set(there))[:9])
    print("only there", sorted(set(there) - set(here))[:9])
    return here == there


SWAP = (
    "alter table public.a rename v to x; alter table public.a rename w to v;"
    " alter table public.a rename x to w"
)
#: None of these makes the server write the table anew, and each puts another column behind a name.
CHANGES = (
    SWAP,
    "alter table public.a drop w; alter table public.a add w text",
    "alter table public.a drop w; alter table public.a rename v to w;"
    " alter table public.a add v text",
    # And these do.
    "alter table public.a alter v type text using v || ' anew'",
    "truncate public.a",
    "truncate public.a; insert into public.a select i, 'after' from generate_series(1, 99) i",
)


@pytest.mark.parametrize(
    ("way", "change"),
    [
        pytest.param(way, n, marks=[] if way == "snapshot" and n == 0 else pytest.mark.slow)
        for way in WAYS
        for n in range(len(CHANGES))
    ],
)
def test_a_source_that_gets_other_columns_between_chunks_never_mixes_them(
    nodes: Nodes, way: str, change: int
) -> None:
    two_columns(nodes)
    between_chunks(nodes, way, CHANGES[change])
    nodes.add(A)
    nodes.start()
    nodes.wait_end()
    assert nodes.failure is None
    assert nodes.state(A) == "ok"
    assert equal(nodes)


@pytest.mark.parametrize("way", ["snapshot", pytest.param("resumable", marks=pytest.mark.slow)])
def test_columns_that_are_renamed_here_between_chunks_begin_the_copy_again(
    nodes: Nodes, way: str
) -> None:
    two_columns(nodes)
    engine = between_chunks(nodes, way)
    once: list[bool] = []

    def between(done: int, left: int) -> None:
        if done == 2 and not once:
            once.append(True)
            nodes.leaf.execute(SWAP)
        if left == 0:
            nodes.root.execute("select pgq.force_tick('q'); select pgq.ticker('q')")

    engine.between = between
    nodes.add(A)
    nodes.start()
    nodes.wait_end()
    assert len(engine.specs) == 2
    assert equal(nodes)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_table_that_is_dropped_between_chunks_waits_until_it_is_there_again(
    nodes: Nodes, way: str
) -> None:
    two_columns(nodes)
    fill(nodes, B, 10)
    between_chunks(nodes, way, "drop table public.a")
    nodes.add(A, B)
    nodes.start()
    reason = wait_for(lambda: nodes.error(A), what="the reason to be stored")
    assert "a" in reason and "does not exist" in reason, reason
    wait_for(lambda: nodes.state(B) == "ok", what="the other table")
    assert nodes.state(A) == "in-copy"
    nodes.root.execute(
        "create table public.a (id int8 primary key, w text, v text);"
        " select londiste.create_trigger('q', 'public.a', '{tgflags=C}', 'public.a', 'root');"
        " insert into public.a select i, 'other w', 'other v' from generate_series(1, 500) i"
    )
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    rows = "select id, v, w from public.a order by id"
    assert nodes.leaf.execute(rows) == nodes.root.execute(rows)


@pytest.mark.parametrize("way", ["resumable", pytest.param("snapshot", marks=pytest.mark.slow)])
def test_a_table_that_is_altered_again_and_again_says_so_and_is_right_in_the_end(
    nodes: Nodes, way: str
) -> None:
    two_columns(nodes)
    said: list[str] = []

    def between(done: int, left: int) -> None:
        if done == 2 and len(engine.specs) < 4:
            said.append(nodes.error(A))
            # Alike on both sides, as people do it.
            for db in (nodes.leaf, nodes.root):
                if way == "resumable":
                    db.execute(f"alter table public.a add c{len(said)} text default 'same'")
                else:
                    db.execute(SWAP)
            nodes.root.execute(f"update public.a set v = 'changed' where id % 9 = {len(said)}")
        if left == 0:
            nodes.root.execute("select pgq.force_tick('q'); select pgq.ticker('q')")

    engine = Stepped(between)
    nodes.engine = engine
    nodes.resumable_from = 0 if way == "resumable" else 1 << 40
    nodes.add(A)
    nodes.start()
    nodes.wait_end()
    assert nodes.failure is None
    assert nodes.state(A) == "ok"
    assert len(engine.specs) == 4
    assert said[0] == ""
    assert "started over" not in said[1]
    assert "this copy has started over 2 times because of such changes" in said[2]
    assert "do not change the table until it is copied" in said[2]
    assert equal(nodes)


@pytest.mark.parametrize("way", ["snapshot", pytest.param("resumable", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "change",
    [
        "create table public.whole (like public.a) partition by range (id);"
        " alter table public.whole attach partition public.a"
        " for values from (minvalue) to (maxvalue);"
        " update public.whole set v = 'through the parent' where id % 7 = 0",
        pytest.param("vacuum full public.a", marks=pytest.mark.slow),
        pytest.param("cluster public.a using a_pkey", marks=pytest.mark.slow),
    ],
)
def test_a_table_that_is_attached_or_written_anew_between_chunks_is_right(
    nodes: Nodes, way: str, change: str
) -> None:
    two_columns(nodes)
    once: list[bool] = []
    loaded = threading.Event()

    def between(done: int, left: int) -> None:
        if done == 2 and not once:
            once.append(True)
            nodes.root.execute("update public.a set v = 'before' where id % 5 = 0")
            nodes.root.execute(change)
            nodes.root.execute("update public.a set w = 'after' where id % 11 = 0")
        if left == 0:
            nodes.root.execute("select pgq.force_tick('q'); select pgq.ticker('q')")
            loaded.set()

    nodes.engine = Stepped(between)
    nodes.resumable_from = 0 if way == "resumable" else 1 << 40
    nodes.add(A)
    nodes.root.execute("select londiste.change_form('q', 'public.a', 'row')")
    nodes.start()
    # The wait for the end makes ticks: at one in between the table would be handed over.
    assert loaded.wait(60)
    nodes.wait_end()
    assert nodes.failure is None
    assert nodes.state(A) == "ok"
    assert equal(nodes)


@pytest.mark.parametrize("way", [pytest.param("snapshot", marks=pytest.mark.slow), "resumable"])
def test_a_column_renamed_on_the_source_alone_stops_the_copy_until_it_has_that_name_here(
    nodes: Nodes, way: str
) -> None:
    two_columns(nodes)
    between_chunks(
        nodes,
        way,
        "alter table public.a rename w to renamed",
        "update public.a set renamed = 'new name' where id % 9 = 0",
    )
    nodes.add(A)
    nodes.start()
    wait_for(
        lambda: "column renamed of the source does not exist on the target" in nodes.error(A),
        what="the reason to be stored",
    )
    assert nodes.state(A) == "in-copy"
    nodes.leaf.execute("alter table public.a rename w to renamed")
    nodes.wait_end()
    assert nodes.state(A) == "ok"
    assert equal(nodes)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_column_dropped_on_the_source_alone_is_empty_here(nodes: Nodes, way: str) -> None:
    two_columns(nodes)
    between_chunks(
        nodes,
        way,
        "alter table public.a drop w",
        "update public.a set v = 'without w' where id % 9 = 0",
    )
    nodes.add(A)
    nodes.start()
    nodes.wait_end()
    assert nodes.failure is None
    assert nodes.state(A) == "ok"
    rows = "select id, v from public.a order by id"
    assert nodes.leaf.execute(rows) == nodes.root.execute(rows)
    assert nodes.leaf.value("select count(w) from public.a") == 0
