"""Tables in one queue: a hundred rows each, a root and a leaf."""

from __future__ import annotations

from collections.abc import Iterator

from bench.scale.axes import axis
from bench.scale.meter import Cost, Meter, settings, wait
from bench.support import common

QUEUE = "bench"
ROWS = 100
TOUCHED = 10


@axis("tables", (10, 100, 1000), ("source", "target"))
def tables(meter: Meter, size: int) -> Iterator[Cost]:
    """From the first ``add-table`` to batches that touch some tables or all."""
    source, target = meter.servers
    for cluster, database in ((source, "src"), (target, "dst")):
        cluster.create_database(database)
    with common.connect(source, "src") as conn:
        # A transaction for some tables each: a thousand in one would need more locks.
        for number in range(size):
            conn.execute(
                f"create table t{number} (id bigint primary key, n int, what text);"
                f" insert into t{number} select i, i, 'row ' || i"
                f" from generate_series(1, {ROWS}) i".encode()
            )
    dsns = {"root": source.dsn("src"), "leaf": target.dsn("dst")}
    files = {
        name: settings(
            meter.folder, name, "londiste", {"db": dsn, "queue_name": QUEUE, "job_name": name}
        )
        for name, dsn in dsns.items()
    }
    ticker = settings(meter.folder, "ticker", "ticker", {"db": dsns["root"]})
    for name in files:
        meter.command("install", "-c", files[name], "install")
    meter.command("create-root", "-c", files["root"], "create-root", "root", dsns["root"])
    leaf = ("create-leaf", "leaf", dsns["leaf"], "--provider", dsns["root"])
    meter.command("create-leaf", "-c", files["leaf"], *leaf)

    yield meter.command("root: add-table --all", "-c", files["root"], "add-table", "--all")
    create = ("add-table", "--all", "--create")
    yield meter.command("leaf: add-table --all --create", "-c", files["leaf"], *create)
    count = "select count(*) filter (where merge_state = 'ok') from londiste.table_info"
    with meter.daemon("-c", ticker, "ticker"):
        with meter.daemon("-c", files["leaf"], "worker") as worker:
            with meter.watched("until in sync", worker) as found:
                wait(f"select ({count}) = {size}", target, "dst")
            yield from found
            for command in ("status", "compare", "doctor"):
                yield meter.command(command, "-c", files["leaf"], command)
        batches = _Batches(meter, size)
        batches.write(1)
        with meter.daemon("-c", files["leaf"], "worker") as worker:
            with meter.watched("worker: start, first batch", worker) as found:
                batches.wait()
            yield from found
            for word, touched in ((f"{TOUCHED} tables", min(TOUCHED, size)), ("all tables", size)):
                with meter.watched(f"batch: {word}", worker) as found:
                    batches.write(touched)
                    batches.wait()
                yield from found


class _Batches:
    """Transactions that insert a row into several tables, and the wait for them on the leaf."""

    def __init__(self, meter: Meter, size: int) -> None:
        self._source, self._target = meter.servers
        self._last = f"t{size - 1}"
        self._size = size
        self._row = ROWS

    def write(self, touched: int) -> None:
        """One transaction, and a tick as soon as it is due."""
        self._row += 1
        with common.connect(self._source, "src") as conn, conn.transaction():
            for number in range(self._size - touched, self._size):
                conn.execute(f"insert into t{number} values ({self._row}, 0, 'more')".encode())

    def wait(self) -> None:
        """Waits for the row in the last table; the batch is applied in one transaction."""
        wait(
            f"select exists (select from {self._last} where id = {self._row})", self._target, "dst"
        )
