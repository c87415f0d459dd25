"""Connections that write at the same time: what capture costs each transaction."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from bench.scale.axes import axis
from bench.scale.cascade import Cascade
from bench.scale.meter import Cost, Meter

#: Transactions of all connections together.
TRANSACTIONS = 20_000
SCRIPT = r"""
\set id random(1, 100000)
update rows set n = n + 1 where id = :id;
"""


@axis("writers", (1, 10, 50, 200), ("source", "target"))
def writers(meter: Meter, size: int) -> Iterator[Cost]:
    """Updates of a row each, by that many connections, without capture and with it."""
    cascade = Cascade(meter)
    cascade.execute(
        "root",
        "create table rows (id bigint primary key, n int, what text)",
        "insert into rows select i, 0, 'row ' || i from generate_series(1, 100000) i",
    )
    yield _write(cascade, size, "not captured")
    for _ in cascade.replicate("rows"):
        pass  # the same for each size
    with cascade.ticking():
        yield _write(cascade, size, "captured")
        with cascade.working("leaf") as workers:
            with meter.watched("worker: start, all applied", *workers) as found:
                cascade.wait("leaf", f"(select sum(n) from rows) = {2 * _each(size) * size}")
            yield from found


def _each(size: int) -> int:
    return TRANSACTIONS // size


def _write(cascade: Cascade, size: int, how: str) -> Cost:
    server, folder = cascade.servers["root"], cascade.meter.folder
    script = folder / "writers.sql"
    script.write_text(SCRIPT)
    # Its own processor time is not counted: it is the application.
    with cascade.meter.watched(f"{TRANSACTIONS:,} transactions, {how}") as found:
        subprocess.run(
            [
                *(str(server.program("pgbench")), "-n", "-M", "prepared", "-c", str(size)),
                *("-j", "2", "-t", str(_each(size)), "-f", str(script), server.dsn("root")),
            ],
            env=server.environment(),
            stdout=subprocess.DEVNULL,
            check=True,
        )
    return found[0]
