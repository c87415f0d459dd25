"""Nodes of a cascade on one machine: a chain of branches, and branches below one root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.scale.axes import axis
from bench.scale.cascade import Cascade
from bench.scale.meter import Cost, Meter

#: Rows that are written one by one.
ROWS = 20
STEPS = (2, 4, 8, 16, 30)


@axis("chain", STEPS, ("source", "target"))
def chain(meter: Meter, size: int) -> Iterator[Cost]:
    """Each node reads from the one before."""
    names = [f"n{number}" for number in range(size)]
    yield from _nodes(meter, dict(zip(names, [None, *names], strict=False)))


@axis("star", STEPS, ("source", "target"))
def star(meter: Meter, size: int) -> Iterator[Cost]:
    """All nodes read from the root."""
    names = [f"n{number}" for number in range(size)]
    yield from _nodes(meter, {name: None if name == "n0" else "n0" for name in names})


def _nodes(meter: Meter, providers: Mapping[str, str | None]) -> Iterator[Cost]:
    """A table that is empty on all nodes, rows that pass through, and a new root."""
    cascade = Cascade(meter, providers, "branch")
    root, second, last = cascade.root, list(providers)[1], list(providers)[-1]
    cascade.execute(root, "create table rows (id bigint primary key, what text)")
    yield from cascade.replicate("rows")
    with cascade.ticking() as ticker, cascade.working(*providers) as workers:
        with meter.watched("the first row, until all nodes have it", ticker, *workers) as found:
            cascade.execute(root, "insert into rows values (0, 'first')")
            for node in providers:
                cascade.wait(node, "exists (select from rows where id = 0)")
        yield from found
        with meter.watched(
            f"{ROWS} rows, each until the last node has it", ticker, *workers
        ) as found:
            for number in range(1, ROWS + 1):
                cascade.execute(root, f"insert into rows values ({number}, 'one')")
                cascade.wait(last, f"exists (select from rows where id = {number})")
        yield from found
        yield meter.command("status", "-c", cascade.files[root], "status")
        yield meter.command("switchover", "-c", cascade.files[second], "switchover", "--to", second)
