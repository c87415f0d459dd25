"""Types and columns that change while rows travel, or that one node has: in order, or loudly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fixtures.shapes import Shapes

BASE = """
create type mood as enum ('sad', 'ok');
create domain small as int check (value < 10);
create table e (id int primary key, m mood);
create table c (id int primary key, v text);
create table i (id int primary key, v interval);
create table d (id int primary key, v small, w small[]);
"""
STRICT = BASE.replace("value < 10", "value < 5")


def stops(shapes: Shapes, *words: str) -> None:
    """The worker halts in front of an event and says all of this."""
    shapes.line.tick()
    shapes.line.wait(lambda: shapes.line.error(shapes.leaf), "the worker to halt")
    reason = shapes.line.error(shapes.leaf) or ""
    for word in words:
        assert word in reason, reason


@pytest.fixture
def shapes(shapes_on: Callable[..., Shapes]) -> Shapes:
    made = shapes_on(18, 16, BASE, STRICT)
    made.add("e", "c", "i", "d")
    made.run("insert into e values (1, 'sad')", "insert into c values (1, 'a'), (2, 'b')")
    made.sync()
    return made


def test_what_only_one_side_knows_stops_the_worker_until_it_is_there(shapes: Shapes) -> None:
    leaf = shapes.leaf.database
    # a label by hand, here too late
    shapes.run("alter type mood add value 'curious' before 'ok'", "update e set m = 'curious'")
    stops(shapes, "public.e", "mood")
    leaf.execute("alter type mood add value 'curious' before 'ok'")
    shapes.replay()
    shapes.compare("e")
    # a column added on the source first
    shapes.run("alter table c add w int default 3", "update c set w = 4 where id = 1")
    stops(shapes, "public.c", "w")
    leaf.execute("alter table c add w int default 3")
    shapes.replay()
    shapes.compare("c")
    # dropped on the source first, then here; added here first
    shapes.run("alter table c drop w", "update c set v = 'x'")
    shapes.replay()
    leaf.execute("alter table c drop w")
    leaf.execute("alter table c add z text default 'z'")
    shapes.run("update c set v = 'y' where id = 2", "alter table c add z text default 'z'")
    shapes.run("insert into c values (3, 'c', 'other')")
    shapes.replay()
    shapes.compare("c")
    # a domain that is stricter here; nothing of the row is written
    shapes.run("insert into d values (1, 3, '{1,2}')", "insert into d values (2, 3, '{1,7}')")
    stops(shapes, "public.d", "small")
    leaf.execute("alter domain small drop constraint small_check")
    shapes.replay()
    shapes.compare("d")
    # a value that the older release has not
    shapes.run("insert into i values (1, '1 day'), (2, 'infinity')")
    stops(shapes, "public.i", "interval")
    assert leaf.value("select count(*) from i") == 0


def test_labels_and_columns_by_execute_come_before_their_rows(shapes: Shapes) -> None:
    script = shapes.line.directory / "change.sql"
    script.write_text(
        "alter type mood add value 'glad';\nalter table c add w mood default 'sad';\n"
    )
    done = shapes.line.here(shapes.root, "execute", str(script))
    assert done.code == 0, str(done)
    shapes.run(
        "insert into e values (2, 'glad')",
        "update c set w = 'glad' where id = 1",
        "insert into d values (1, 2, '{-4}')",
    )
    shapes.replay()
    shapes.compare("e", "c", "d")
    assert shapes.leaf.database.value("select w::text from c where id = 2") == "sad"
