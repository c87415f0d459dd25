"""Initial copy of one table: our engines against raw psql pipes and a native subscription.

pgbench_accounts goes from one server to another, in one run, in turns:

    psql | psql         one raw pipe, text and binary
    2 × psql | psql     two raw binary pipes side by side, each half of the blocks
    subscription        CREATE SUBSCRIPTION until the table is ready
    local, spark        our engines, the table in chunks, as the copy process uses them:
                        blocks in one snapshot, or ranges of the key (the resumable way)

The first table is the load alone, into a table without index.  The second is the load and
the primary key built after it.  Spark's first job starts a JVM; its time is given apart.

    python -m bench.copy [--scale 20] [--rounds 2] [--chunks 8] [--parallel 2] [--no-spark]
"""

from __future__ import annotations

import argparse
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import common
from londiste import engine
from londiste.copy import attempts
from londiste.copy.ranges import split_by_key
from londiste.copy.restore import more_sort_memory
from londiste.copy.split import split
from londiste.db import catalog, marks
from londiste.db.connection import session
from londiste.db.names import TableName
from londiste.embedded.postgres import Cluster
from londiste.engine.base import Engine
from londiste.engine.spec import CopySpec
from londiste.install.apply import install

TABLE = TableName("public", "pgbench_accounts")
COLUMNS = ("aid", "bid", "abalance", "filler")
DDL = """
create table public.pgbench_accounts (aid int not null, bid int, abalance int, filler char(84))
"""
FILL = """
insert into public.pgbench_accounts
select i, (i - 1) / 100000 + 1, 0, '' from generate_series(1, {rows}) i
"""
KEY = "alter table public.pgbench_accounts add primary key (aid)"


@dataclass(frozen=True)
class Way:
    """One way of copying: what it is called, and what does it (without the key)."""

    name: str
    run: Callable[[], None]


def main() -> None:
    """Runs the benchmark and prints two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=int, default=20, help="100,000 rows each")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--no-spark", dest="spark", action="store_false")
    args = parser.parse_args()
    with common.servers("source", "target") as (source, target):
        Bench(source, target, args).run()


class Bench:
    """The servers, the ways, and the measuring."""

    def __init__(self, source: Cluster, target: Cluster, args: argparse.Namespace) -> None:
        self.source = source
        self.target = target
        self.args = args
        self.rows = args.scale * 100_000
        self.load: dict[str, list[float]] = {}
        self.whole: dict[str, list[float]] = {}

    def run(self) -> None:
        self._make()
        ways = [
            Way("psql pipe, text", lambda: self._psql(binary=False, halves=1)),
            Way("psql pipe, binary", lambda: self._psql(binary=True, halves=1)),
            Way("two psql pipes, binary", lambda: self._psql(binary=True, halves=2)),
            Way("native subscription", self._subscription),
        ]
        engines = {"local": engine.create("local")}
        notes = []
        if self.args.spark:
            engines["spark"] = engine.create("spark", {})
        try:
            for name, carrier in engines.items():
                started = time.perf_counter()
                list(carrier.run(abs, [1, 2], 2))
                notes.append(
                    f"Start of engine {name}: {time.perf_counter() - started:.1f} s, once."
                )
                for binary in (False, True):
                    ways.append(self._ours(name, carrier, binary))
                ways.append(self._ranges(name, carrier))
            for _ in range(self.args.rounds):
                for way in ways:
                    self._measure(way)
        finally:
            for carrier in engines.values():
                carrier.close()
        self._report(notes)

    def _measure(self, way: Way) -> None:
        with common.connect(self.target) as conn:
            conn.execute("drop table if exists public.pgbench_accounts")
            conn.execute(DDL)
            # No way pays for the dirty pages of another.
            conn.execute("checkpoint")
        started = time.perf_counter()
        way.run()
        loaded = time.perf_counter()
        with common.connect(self.target) as conn:
            conn.execute("begin")
            more_sort_memory(conn)
            conn.execute(KEY)
            conn.execute("commit")
        ended = time.perf_counter()
        self.load.setdefault(way.name, []).append(loaded - started)
        self.whole.setdefault(way.name, []).append(ended - started)
        self._verify(way)

    def _verify(self, way: Way) -> None:
        with common.connect(self.target) as conn:
            found = conn.execute(
                "select count(*), sum(aid) from public.pgbench_accounts"
            ).fetchone()
        expected = (self.rows, self.rows * (self.rows + 1) // 2)
        if found != expected:
            raise AssertionError(f"{way.name}: {found} instead of {expected}")

    def _report(self, notes: Sequence[str]) -> None:
        title = f"pgbench_accounts, {self.rows:,} rows, {self.megabytes:.0f} MB"
        for what, times in (
            (f"Load of {title}", self.load),
            (f"Load and primary key of {title}", self.whole),
        ):
            common.report(
                what,
                "MB",
                [common.Row(n, common.median(t), self.megabytes) for n, t in times.items()],
                "two psql pipes, binary",
                notes,
            )

    def _make(self) -> None:
        with session(self.target.dsn(), autocommit=True) as conn:
            install(conn)
        with common.connect(self.source) as conn:
            conn.execute(DDL)
            conn.execute(FILL.format(rows=self.rows).encode())
            conn.execute(KEY)
            conn.execute("create publication bench for table public.pgbench_accounts")
            conn.execute("vacuum (freeze, analyze) public.pgbench_accounts")
            conn.execute("checkpoint")
        with session(self.source.dsn(), autocommit=True) as conn:
            self.info = catalog.require(conn, TABLE)
        self.megabytes = self.info.bytes / 1e6

    # -- the ways ----------------------------------------------------------

    def _psql(self, *, binary: bool, halves: int) -> None:
        middle = self.info.pages // 2
        conditions = ["true"]
        if halves == 2:
            conditions = [f"ctid < '({middle},0)'::tid", f"ctid >= '({middle},0)'::tid"]
        threads = [threading.Thread(target=self._pipe, args=(c, binary)) for c in conditions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _pipe(self, condition: str, binary: bool) -> None:
        form = "(format binary)" if binary else ""
        names = ", ".join(COLUMNS)
        reader = subprocess.Popen(
            [
                *self._psql_command(self.source),
                f"copy (select {names} from public.pgbench_accounts where {condition})"
                f" to stdout {form}",
            ],
            env=self.source.environment(),
            stdout=subprocess.PIPE,
        )
        subprocess.run(
            [
                *self._psql_command(self.target),
                f"copy public.pgbench_accounts ({names}) from stdin {form}",
            ],
            env=self.target.environment(),
            stdin=reader.stdout,
            check=True,
        )
        if reader.wait() != 0:
            raise RuntimeError("psql failed")

    def _psql_command(self, cluster: Cluster) -> list[str]:
        return [str(cluster.program("psql")), "-qX", "-d", cluster.dsn(), "-c"]

    def _subscription(self) -> None:
        with common.connect(self.target) as conn:
            source = self.source.dsn().replace("'", "''")
            conn.execute(f"create subscription bench connection '{source}' publication bench")
            try:
                common.wait_until(
                    "select bool_and(srsubstate in ('r', 's')) from pg_subscription_rel", conn
                )
            finally:
                conn.execute("drop subscription bench")

    def _ours(self, name: str, carrier: Engine, binary: bool) -> Way:
        def run() -> None:
            with session(self.source.dsn(), autocommit=True) as holder:
                holder.execute("begin isolation level repeatable read")
                row = holder.execute("select pg_export_snapshot()").fetchone()
                assert row is not None
                with session(self.target.dsn(), autocommit=True) as conn:
                    attempt = attempts.copy_start(conn, "bench", TABLE)
                spec = CopySpec(
                    queue="bench",
                    source=self.source.dsn(),
                    target=self.target.dsn(),
                    source_table=TABLE,
                    target_table=TABLE,
                    columns=tuple((c, c) for c in COLUMNS),
                    chunks=split(
                        TABLE,
                        pages=self.info.pages,
                        total_bytes=self.info.total_bytes,
                        chunk_bytes=self.info.total_bytes // self.args.chunks + 1,
                    ),
                    snapshot=str(row[0]),
                    attempt=attempt,
                    binary=binary,
                    filenode=self.info.filenode,
                )
                list(carrier.copy(spec, self.args.parallel))

        return Way(f"engine {name}, {'binary' if binary else 'text'}", run)

    def _ranges(self, name: str, carrier: Engine) -> Way:
        """The resumable way: each chunk a range of the key, in a snapshot of its own."""

        def run() -> None:
            with (
                session(self.source.dsn(), autocommit=True) as source,
                session(self.target.dsn(), autocommit=True) as target,
            ):
                attempt = attempts.copy_start(target, "bench", TABLE)
                spec = CopySpec(
                    queue="bench",
                    source=self.source.dsn(),
                    target=self.target.dsn(),
                    source_table=TABLE,
                    target_table=TABLE,
                    columns=tuple((c, c) for c in COLUMNS),
                    chunks=split_by_key(
                        source,
                        self.info,
                        [c for c in catalog.columns(source, TABLE) if c.name == "aid"],
                        chunk_bytes=self.info.total_bytes // self.args.chunks + 1,
                    ),
                    snapshot="",
                    attempt=attempt,
                    binary=True,
                    source_mark=marks.mark(source, TABLE),
                    target_mark=marks.mark(target, TABLE),
                )
                list(carrier.copy(spec, self.args.parallel))

        return Way(f"engine {name}, binary, ranges of the key", run)


if __name__ == "__main__":
    main()
