"""Every type in every position, and every table layout: copied, replicated, compared.

Between servers of different releases, by real processes, written by sessions whose settings are
those of nobody's dreams.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import psycopg
import pytest

from tests.fixtures.shapes import Shapes
from tests.integration.capture.test_session_settings import random_settings
from tests.support.type_matrix import NAMES, SHAPES, Matrix

COPIES = ("snapshot", "resumable")
#: What the subscriber's database has in mind; nothing of it may reach a value.
HERE = ("array_nulls = off", "DateStyle = 'SQL, DMY'", "extra_float_digits = -3",
        "TimeZone = 'Asia/Kolkata'", "bytea_output = escape")  # fmt: skip


def hostile(shapes: Shapes, seed: int) -> psycopg.Connection[tuple[object, ...]]:
    """A session of the application with settings of its own."""
    session = psycopg.connect(shapes.root.database.dsn, autocommit=True)
    random_settings(random.Random(seed), session)
    # the statements of the test are written for these
    session.execute("set search_path = public; set standard_conforming_strings = on")
    return session


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "here"),
    [
        (15, 18),
        pytest.param(18, 16, marks=pytest.mark.slow),
        pytest.param(18, 18, marks=pytest.mark.slow),
    ],
)
def test_every_type_in_every_place_arrives_as_it_was(
    shapes_on: Callable[..., Shapes], source: int, here: int
) -> None:
    shapes = shapes_on(source, here, parallel_apply_min_events=300)
    for setting in HERE:
        name = shapes.leaf.database.name
        shapes.leaf.database.execute(f"alter database {name} set {setting}")
    matrix = Matrix(shapes.root.database, shapes.leaf.database)
    matrix.make(COPIES)
    everything = [*matrix.wide, *matrix.keys.values()]
    with hostile(shapes, 1) as session:
        matrix.fill(session)
    shapes.line.add(shapes.root, *everything)
    for copy in COPIES:
        names = [table for table in matrix.wide if table.endswith(copy)]
        shapes.line.add(shapes.leaf, *names, expect_sync=False, copy_mode=copy)
    shapes.line.add(shapes.leaf, *matrix.keys.values(), expect_sync=False)
    with hostile(shapes, 2) as session:
        matrix.change(session, 1)
    shapes.sync(seconds=120)
    with hostile(shapes, 3) as session:
        matrix.change(session, 2)
    shapes.replay()
    shapes.compare(*everything)
    for seed in range(4, 6):
        with hostile(shapes, seed) as session:
            matrix.change(session, seed)
        shapes.line.tick()
    shapes.replay()
    shapes.compare(*everything)
    assert len(matrix.types) > 70
    assert len(matrix.keys) > 45
    done = shapes.line.here(shapes.leaf, "compare")
    assert done.code == 0, str(done)


@pytest.mark.parametrize(
    ("source", "here"), [(18, 16), pytest.param(15, 18, marks=pytest.mark.slow)]
)
def test_every_shape_is_copied_and_followed(
    shapes_on: Callable[..., Shapes], source: int, here: int
) -> None:
    shapes = shapes_on(source, here)
    tables = {}
    for number, (name, shape) in enumerate(SHAPES.items()):
        if max(shape.version, 14) <= min(source, here):
            tables[name] = f"public.s{number}"
            heir = f"public.h{number}"
            shapes.run(shape.made.format(t=tables[name], h=heir))
            shapes.leaf.database.execute((shape.here or shape.made).format(t=tables[name], h=heir))
            shapes.run(*(one.format(t=tables[name], h=heir) for one in shape.fill))
    odd = {}
    for number, name in enumerate(NAMES):
        quoted = '"' + name.replace('"', '""') + '"'
        odd[f"public.{name}"] = f"public.{quoted}"
        statement = (
            f"create table public.{quoted} (id int primary key, v text,"
            f" {quoted} int default {number})"
        )
        shapes.run(statement, f"insert into public.{quoted} values (1, 'a'), (2, 'b')")
        shapes.leaf.database.execute(statement)
    keyless = {name: SHAPES[name].insert_only for name in tables}
    usual = [table for name, table in tables.items() if not keyless[name]]
    shapes.add(*usual, *odd)
    shapes.add(*(t for n, t in tables.items() if keyless[n]), root={"insert_only": True})

    def write() -> None:
        for name, table in tables.items():
            heir = table.replace(".s", ".h")
            shapes.run(*(one.format(t=table, h=heir) for one in SHAPES[name].writes))
        for quoted in odd.values():
            column = quoted.partition(".")[2]
            shapes.run(
                f"update {quoted} set {column} = {column} + 1, v = 'x' where id = 1",
                f"delete from {quoted} where id = 2",
                f"insert into {quoted} values (3, 'c', 9) on conflict (id) do nothing",
            )

    write()
    shapes.sync()
    shapes.compare(*tables.values(), *odd.values())
    write_again = [n for n in tables if n in {"key only", "other order", "generated stored"}]
    for name in write_again:
        shapes.run(
            f"delete from {tables[name]} where id between 31 and 35",
            *(one.format(t=tables[name]) for one in SHAPES[name].writes),
        )
    shapes.replay()
    shapes.compare(*tables.values(), *odd.values())
    own = shapes.leaf.database.execute(f"select distinct own, more from {tables['other order']}")
    assert own == [(7, None)]
