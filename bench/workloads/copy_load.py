"""The load of bench.copy: rows from one server to another, into a table without indexes.

    psql | psql         raw pipes, binary: one, and two side by side, each half of the blocks
    subscription        CREATE SUBSCRIPTION until the table is ready
    local, spark        our engines, the table in chunks, as the copy process uses them: blocks in
                        one snapshot, or ranges of the key (the resumable way)

Spark's first job starts a JVM; its time is given apart.  Processor time is that of the clients
(JVM and Python workers too) and of each server; by it ways can be compared on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.support import common, cpu
from bench.workloads.copy_tables import Case
from londiste import engine
from londiste.copy.chunking.blocks import split
from londiste.copy.chunking.key_ranges import split_by_key
from londiste.copy.sqlapi import attempts
from londiste.db import catalog, table_fingerprint
from londiste.db.connection import session
from londiste.db.names import TableName
from londiste.embedded.postgres import Cluster
from londiste.engine.base import Engine
from londiste.engine.spec import Chunk, CopySpec
from londiste.install.apply import install

PIPES = "two psql pipes, binary"
DATABASE = "load"
#: Whose processor time is told: programs that carry the rows, and each server.
_WHO = ("clients", "source", "target")


@dataclass(frozen=True)
class Way:
    """One way of loading: what it is called, and what does it."""

    name: str
    run: Callable[[], None]


class Load:
    """Loads the main table of a case by every way, in turns."""

    def __init__(
        self, source: Cluster, target: Cluster, case: Case, args: argparse.Namespace
    ) -> None:
        self.source = source
        self.target = target
        self.case = case
        self.args = args
        self.table = TableName("public", case.main)
        self.seconds: dict[str, list[float]] = {}
        self.used: dict[str, list[list[float]]] = {}

    def run(self, engines: dict[str, Engine]) -> list[common.Goal]:
        """The rounds; prints the table and says what was to be reached."""
        self._make()
        ways = [
            Way("psql pipe, binary", lambda: self._psql(halves=1)),
            Way(PIPES, lambda: self._psql(halves=2)),
            Way("native subscription", self._subscription),
        ]
        for name, carrier in engines.items():
            ways.append(self._blocks(name, carrier))
            ways.append(self._ranges(name, carrier))
        for number in range(self.args.rounds):
            start = number % len(ways)
            for way in [*ways[start:], *ways[:start]]:
                self._measure(way)
        for cluster in (self.source, self.target):
            cluster.drop_database(DATABASE)
        return self._report(list(engines))

    def _report(self, engines: list[str]) -> list[common.Goal]:
        size = self.info.total_bytes / 1e6
        title = f"Load of {self.table.name}, {self.args.rows:,} rows, {size:.0f} MB"
        ratio = {name: speed(self.seconds[PIPES], mine) for name, mine in self.seconds.items()}
        total = {name: [sum(one) for one in mine] for name, mine in self.used.items()}
        processor = {name: speed(total[PIPES], mine) for name, mine in total.items()}
        print(f"\n## {title}")
        common.table(
            ["way", "s", "MB/s", f"× {PIPES}", *(f"CPU s, {who}" for who in _WHO), "CPU ×"],
            [
                [
                    *(name, f"{common.median(mine):.2f}"),
                    *(f"{size / common.median(mine):,.0f}", f"{ratio[name]:.2f}"),
                    *(f"{common.median(used):.2f}" for used in zip(*self.used[name], strict=True)),
                    f"{processor[name]:.2f}",
                ]
                for name, mine in self.seconds.items()
            ],
        )
        common.write_json(
            self.args.json,
            f"copy load {self.case.name}",
            {"ratio": ratio, "processor": processor, "s": self.seconds, "cpu": self.used},
        )
        return [
            common.Goal(f"load of {self.case.name}, {name}: × two pipes", ratio[_blocks(name)], 1.0)
            for name in engines
        ]

    def _measure(self, way: Way) -> None:
        with common.connect(self.target, DATABASE) as conn:
            self.case.drop(conn)
            conn.execute(self.case.create.encode())
            # No way pays for the dirty pages of another.
            conn.execute("checkpoint")
        before = self._processor()
        started = time.perf_counter()
        way.run()
        self.seconds.setdefault(way.name, []).append(time.perf_counter() - started)
        used = [now - had for now, had in zip(self._processor(), before, strict=True)]
        self.used.setdefault(way.name, []).append(used)
        found = self._contents(self.target)
        if found != self.expected:
            raise AssertionError(f"{way.name}: {found} instead of {self.expected}")

    def _processor(self) -> list[float]:
        """Seconds that ``_WHO`` have used so far."""
        assert self.source.pid is not None and self.target.pid is not None
        source, target = cpu.of_tree(self.source.pid), cpu.of_tree(self.target.pid)
        # The servers are children of this process.
        return [cpu.of_tree(os.getpid()) - source - target, source, target]

    def _contents(self, cluster: Cluster) -> tuple[object, ...]:
        with common.connect(cluster, DATABASE) as conn:
            row = conn.execute(
                f"select count(*), sum(hashtextextended(t::text, 0)) from {self.table} t".encode()
            ).fetchone()
        assert row is not None
        return row

    def _make(self) -> None:
        for cluster in (self.source, self.target):
            cluster.create_database(DATABASE)
        with session(self.target.dsn(DATABASE), autocommit=True) as conn:
            install(conn)
        with common.connect(self.source, DATABASE) as plain:
            self.case.make(plain, self.args.rows)
            plain.execute(f"create publication bench for table {self.table}".encode())
            plain.execute("vacuum (freeze, analyze)")
            plain.execute("checkpoint")
        with session(self.source.dsn(DATABASE), autocommit=True) as conn:
            self.info = catalog.require(conn, self.table)
            self.columns = tuple(c.name for c in catalog.columns(conn, self.table))
        self.expected = self._contents(self.source)

    # -- the ways ----------------------------------------------------------

    def _psql(self, *, halves: int) -> None:
        middle = self.info.pages // 2
        conditions = ["true"]
        if halves == 2:
            conditions = [f"ctid < '({middle},0)'::tid", f"ctid >= '({middle},0)'::tid"]
        threads = [threading.Thread(target=self._pipe, args=(c,)) for c in conditions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _pipe(self, condition: str) -> None:
        names = ", ".join(self.columns)
        reader = subprocess.Popen(
            [
                *self._psql_command(self.source),
                f"copy (select {names} from {self.table} where {condition})"
                " to stdout (format binary)",
            ],
            env=self.source.environment(),
            stdout=subprocess.PIPE,
        )
        subprocess.run(
            [
                *self._psql_command(self.target),
                f"copy {self.table} ({names}) from stdin (format binary)",
            ],
            env=self.target.environment(),
            stdin=reader.stdout,
            check=True,
        )
        if reader.wait() != 0:
            raise RuntimeError("psql failed")

    def _psql_command(self, cluster: Cluster) -> list[str]:
        return [str(cluster.program("psql")), "-qX", "-d", cluster.dsn(DATABASE), "-c"]

    def _subscription(self) -> None:
        with common.connect(self.target, DATABASE) as conn:
            source = self.source.dsn(DATABASE).replace("'", "''")
            conn.execute(
                f"create subscription bench connection '{source}' publication bench".encode()
            )
            try:
                common.wait_until(
                    "select bool_and(srsubstate in ('r', 's')) from pg_subscription_rel", conn
                )
            finally:
                conn.execute("drop subscription bench")

    def _blocks(self, name: str, carrier: Engine) -> Way:
        """Each chunk a range of blocks, all in one snapshot."""

        def run() -> None:
            with session(self.source.dsn(DATABASE), autocommit=True) as holder:
                holder.execute("begin isolation level repeatable read")
                row = holder.execute("select pg_export_snapshot()").fetchone()
                assert row is not None
                with session(self.target.dsn(DATABASE), autocommit=True) as conn:
                    attempt = attempts.copy_start(conn, "bench", self.table)
                chunks = split(
                    self.table,
                    pages=self.info.pages,
                    total_bytes=self.info.total_bytes,
                    chunk_bytes=self._chunk_bytes,
                )
                spec = self._spec(
                    chunks,
                    snapshot=str(row[0]),
                    attempt=attempt,
                    binary=True,
                    filenode=self.info.filenode,
                )
                list(carrier.copy(spec, self.args.parallel))

        return Way(_blocks(name), run)

    def _spec(self, chunks: tuple[Chunk, ...], **more: Any) -> CopySpec:
        return CopySpec(
            queue="bench",
            source=self.source.dsn(DATABASE),
            target=self.target.dsn(DATABASE),
            source_table=self.table,
            target_table=self.table,
            columns=tuple((c, c) for c in self.columns),
            chunks=chunks,
            **more,
        )

    def _ranges(self, name: str, carrier: Engine) -> Way:
        """The resumable way: each chunk a range of the key, in a snapshot of its own."""

        def run() -> None:
            with (
                session(self.source.dsn(DATABASE), autocommit=True) as source,
                session(self.target.dsn(DATABASE), autocommit=True) as target,
            ):
                attempt = attempts.copy_start(target, "bench", self.table)
                key = catalog.key(source, self.table)
                chunks = split_by_key(
                    source,
                    self.info,
                    [c for c in catalog.columns(source, self.table) if c.name in key],
                    chunk_bytes=self._chunk_bytes,
                )
                spec = self._spec(
                    chunks,
                    snapshot="",
                    attempt=attempt,
                    binary=True,
                    source_mark=table_fingerprint.mark(source, self.table),
                    target_mark=table_fingerprint.mark(target, self.table),
                )
                list(carrier.copy(spec, self.args.parallel))

        return Way(f"{name}, ranges of the key", run)

    @property
    def _chunk_bytes(self) -> int:
        count: int = self.args.chunks
        return self.info.total_bytes // count + 1


def _blocks(engine_name: str) -> str:
    return f"{engine_name}, blocks"


def speed(base: list[float], mine: list[float]) -> float:
    """How many times as fast as ``base``: the median over the rounds."""
    return common.median([a / b for a, b in zip(base, mine, strict=True)])


def engines(spark: bool) -> dict[str, Engine]:
    """What carries our loads, started: a session of Spark takes its time once."""
    found: dict[str, Engine] = {"local": engine.create("local")}
    if spark:
        found["spark"] = engine.create("spark", {})
    for name, carrier in found.items():
        started = time.perf_counter()
        list(carrier.run(abs, [1, 2], 2))
        print(f"\nStart of engine {name}: {time.perf_counter() - started:.1f} s, once.")
    return found
