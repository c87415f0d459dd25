"""Events that wait for a worker, and rows of one transaction."""

from __future__ import annotations

from collections.abc import Iterator

from bench.scale.axes import axis
from bench.scale.cascade import QUEUE, Cascade
from bench.scale.meter import Cost, Meter

#: Rows of a transaction of the backlog.
TOGETHER = 1000


@axis("backlog", (10_000, 100_000, 1_000_000), ("source", "target"))
def backlog(meter: Meter, size: int) -> Iterator[Cost]:
    """Inserts in transactions of a thousand, while the worker is down."""
    yield from _replayed(meter, size, min(TOGETHER, size))


@axis("transaction", (1_000, 10_000, 100_000, 1_000_000), ("source", "target"))
def transaction(meter: Meter, size: int) -> Iterator[Cost]:
    """Inserts of one transaction."""
    yield from _replayed(meter, size, size)


def _replayed(meter: Meter, size: int, together: int) -> Iterator[Cost]:
    """Writes the rows, replays them, and rotates the event tables."""
    cascade = Cascade(meter)
    cascade.execute("root", "create table rows (id bigint primary key, n int, what text)")
    for _ in cascade.replicate("rows"):
        pass  # an empty table: the same cost for each size
    inserts = (
        f"insert into rows select i, i % 1000, 'row ' || i"
        f" from generate_series({first}, {first + together - 1}) i"
        for first in range(1, size + 1, together)
    )
    with cascade.ticking():
        with meter.watched("written, ticked") as found:
            cascade.execute("root", *inserts)
            cascade.wait("root", f"ev_new = 0 from pgq.get_queue_info('{QUEUE}')")
        yield from found
        with cascade.working("leaf") as workers:
            with meter.watched("worker: start, all applied", *workers) as found:
                cascade.wait("leaf", f"exists (select from rows where id = {size})")
            yield from found
            with meter.watched("worker: a row after them", *workers) as found:
                cascade.execute("root", f"insert into rows values ({size + 1}, 0, 'last')")
                cascade.wait("leaf", f"exists (select from rows where id = {size + 1})")
            yield from found
    cascade.execute("root", "update pgq.queue set queue_rotation_period = '0'")
    yield meter.command(
        "maintenance", "queue", "maint", "--db", cascade.servers["root"].dsn("root")
    )
