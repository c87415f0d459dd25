"""Tables in one queue: a hundred rows each, a root and a leaf."""

from __future__ import annotations

from collections.abc import Iterator

from bench.scale.axes import axis
from bench.scale.cascade import Cascade
from bench.scale.meter import Cost, Meter

ROWS = 100
TOUCHED = 10


@axis("tables", (10, 100, 1000), ("source", "target"))
def tables(meter: Meter, size: int) -> Iterator[Cost]:
    """From the first ``add-table`` to batches that touch some tables or all."""
    cascade = Cascade(meter)
    files = cascade.files
    # A transaction for some tables each: a thousand in one would need more locks.
    cascade.execute(
        "root",
        *(
            f"create table t{number} (id bigint primary key, n int, what text);"
            f" insert into t{number} select i, i, 'row ' || i from generate_series(1, {ROWS}) i"
            for number in range(size)
        ),
    )

    yield meter.command("root: add-table --all", "-c", files["root"], "add-table", "--all")
    create = ("add-table", "--all", "--create")
    yield meter.command("leaf: add-table --all --create", "-c", files["leaf"], *create)
    count = "select count(*) filter (where merge_state = 'ok') from londiste.table_info"
    with cascade.ticking():
        with cascade.working("leaf") as workers:
            with meter.watched("until in sync", *workers) as found:
                cascade.wait("leaf", f"({count}) = {size}")
            yield from found
            for command in ("status", "compare", "doctor"):
                yield meter.command(command, "-c", files["leaf"], command)
        batches = _Batches(cascade, size)
        batches.write(1)
        with cascade.working("leaf") as workers:
            with meter.watched("worker: start, first batch", *workers) as found:
                batches.wait()
            yield from found
            for word, touched in ((f"{TOUCHED} tables", min(TOUCHED, size)), ("all tables", size)):
                with meter.watched(f"batch: {word}", *workers) as found:
                    batches.write(touched)
                    batches.wait()
                yield from found


class _Batches:
    """Transactions that insert a row into several tables, and the wait for them on the leaf."""

    def __init__(self, cascade: Cascade, size: int) -> None:
        self._cascade = cascade
        self._size = size
        self._row = ROWS

    def write(self, touched: int) -> None:
        """One transaction, and a tick as soon as it is due."""
        self._row += 1
        changed = range(self._size - touched, self._size)
        inserts = (f"insert into t{number} values ({self._row}, 0, 'more')" for number in changed)
        self._cascade.execute("root", ";".join(inserts))

    def wait(self) -> None:
        """Waits for the row in the last table; the batch is applied in one transaction."""
        self._cascade.wait("leaf", f"exists (select from t{self._size - 1} where id = {self._row})")
