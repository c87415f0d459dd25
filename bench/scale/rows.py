"""Shapes of a row: the number of its columns, and its characters."""

from __future__ import annotations

from collections.abc import Iterator

from bench.scale.axes import axis
from bench.scale.cascade import Cascade
from bench.scale.meter import Cost, Meter

#: Rows of the table with many columns, and of its updates.
ROWS = 1000


@axis("columns", (5, 50, 500, 1600), ("source", "target"))
def columns(meter: Meter, size: int) -> Iterator[Cost]:
    """A key and integers; each transaction updates all rows, one column of them or all."""
    cascade = Cascade(meter)
    names = [f"c{number}" for number in range(1, size)]
    cascade.execute(
        "root",
        f"create table wide (id bigint primary key, {', '.join(f'{name} int' for name in names)})",
        f"insert into wide select {', '.join(['i'] * size)} from generate_series(1, {ROWS}) i",
    )
    changes = {
        f"{ROWS:,} updates of a column": names[:1],
        f"{ROWS:,} updates of all columns": names,
    }
    for what, changed in changes.items():
        with meter.watched(f"{what}, not captured") as found:
            cascade.execute("root", _update(changed))
        yield from found
    yield from cascade.replicate("wide")
    with cascade.ticking():
        for what, changed in changes.items():
            with meter.watched(f"{what}, captured") as found:
                cascade.execute("root", _update(changed))
            yield from found
            total = f"select sum({changed[-1]}) from wide"
            expected = cascade.value("root", total)
            with cascade.working("leaf") as workers:
                with meter.watched(f"{what}: worker, applied", *workers) as found:
                    cascade.wait("leaf", f"({total}) = {expected}")
                yield from found
        with cascade.working("leaf"):
            yield meter.command("compare", "-c", cascade.files["leaf"], "compare")


def _update(names: list[str]) -> str:
    return f"update wide set {', '.join(f'{name} = {name} + 1' for name in names)}"


@axis("characters", (1_000, 1_000_000, 10_000_000, 100_000_000), ("source", "target"))
def characters(meter: Meter, size: int) -> Iterator[Cost]:
    """A row with a text of that length, which does not compress much."""
    cascade = Cascade(meter)
    text = f"select string_agg(md5(i::text), '') from generate_series(1, {size // 32 + 1}) i"
    cascade.execute(
        "root",
        "create table long (id bigint primary key, what text)",
        f"insert into long select 1, ({text})",
    )
    yield from cascade.replicate("long")
    with cascade.ticking():
        with meter.watched("insert, captured") as found:
            cascade.execute("root", "insert into long select 2, what from long where id = 1")
        yield from found
        with cascade.working("leaf") as workers:
            with meter.watched("insert: worker, applied", *workers) as found:
                cascade.wait("leaf", "exists (select from long where id = 2)")
            yield from found
            yield meter.command("compare", "-c", cascade.files["leaf"], "compare")
