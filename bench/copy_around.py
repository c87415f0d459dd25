"""Work around the load of a copied table: index builds, FREEZE, relaxed commits.

One server, one table (bigint key, text, numeric, timestamptz), ways in turns:

    indexes      the key and three indexes: one after another in one session with the server's
                 parallel workers, the same without them, and several sessions at a time, each
                 with its share of workers and memory (as ``copy/indexes.py`` does it)
    freeze       COPY into a table truncated in the same transaction, with and without FREEZE, and
                 what follows: one index, ANALYZE, the first VACUUM
    commits      small chunks, each a transaction, with synchronous_commit on and off

Ratios are of medians; CPU is that of the whole server.

    python -m bench.copy_around [--rows 1000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import io
import threading
import time
from collections.abc import Callable

import psycopg

from bench.support import common, cpu
from londiste.embedded.postgres import Cluster

DDL = """
create table public.t (id int8 not null, v text, n numeric, at timestamptz)
"""
FILL = """
insert into {table} select i, md5(i::text), (i::int8 * 7919 % 1000003) / 100.0,
    timestamptz '2026-01-01' + i % 100000 * interval '1 s' from generate_series(1, {rows}) i
"""
INDEXES = (
    "create unique index t_pkey on public.t (id)",
    "create index t_v on public.t (v)",
    "create index t_n on public.t (n)",
    "create index t_at on public.t (at)",
)


class Bench:
    """The server, and what was measured: seconds and CPU seconds by way."""

    def __init__(self, server: Cluster, rows: int) -> None:
        self.server = server
        self.rows = rows
        self.found: dict[str, list[tuple[float, float]]] = {}

    def measure(self, name: str, work: Callable[[], None]) -> None:
        """Runs one way once."""
        with common.connect(self.server) as conn:
            conn.execute("checkpoint")
        before, started = self._cpu(), time.perf_counter()
        work()
        seconds = time.perf_counter() - started
        self.found.setdefault(name, []).append((seconds, self._cpu() - before))

    def _cpu(self) -> float:
        pid = self.server.pid
        assert pid is not None
        return cpu.of_tree(pid)

    def report(self, title: str, names: list[str]) -> None:
        """Prints a table; ratios to the first way."""
        rows = []
        wall = {n: common.median([s for s, _ in self.found[n]]) for n in names}
        used = {n: common.median([c for _, c in self.found[n]]) for n in names}
        for name in names:
            rows.append(
                [
                    name,
                    f"{wall[name]:.2f}",
                    f"{wall[names[0]] / wall[name]:.2f}",
                    f"{used[name]:.2f}",
                    f"{used[names[0]] / max(used[name], 0.01):.2f}",
                ]
            )
        print(f"\n{title}\n")
        common.table(["way", "s", "times as fast", "CPU s", "of the CPU"], rows)

    # -- indexes -------------------------------------------------------------

    def one_session(self, workers: int) -> None:
        """One after another."""
        with common.connect(self.server) as conn, conn.transaction():
            conn.execute("set local maintenance_work_mem = '256MB'")
            conn.execute(f"set local max_parallel_maintenance_workers = {workers}")
            for statement in INDEXES:
                conn.execute(statement)

    def sessions(self, jobs: int, workers: int) -> None:
        """Several at a time, with a budget of 512 MB."""
        waiting = list(reversed(INDEXES))

        def build() -> None:
            with common.connect(self.server) as conn:
                conn.execute(f"set maintenance_work_mem = '{512 // jobs}MB'")
                conn.execute(f"set max_parallel_maintenance_workers = {workers}")
                while waiting:
                    conn.execute(waiting.pop())

        threads = [threading.Thread(target=build) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def without_indexes(self) -> None:
        """The table as it is before."""
        with common.connect(self.server) as conn:
            conn.execute("drop index if exists t_pkey, t_v, t_n, t_at")

    # -- freeze --------------------------------------------------------------

    def load(self, data: bytes, freeze: bool) -> None:
        """The rows of one task."""
        with common.connect(self.server) as conn, conn.transaction():
            conn.execute("truncate public.t")
            with conn.cursor().copy(
                f"copy public.t from stdin (format binary, freeze {freeze})"
            ) as copy:
                reader = io.BytesIO(data)
                while block := reader.read(1 << 18):
                    copy.write(block)

    def after(self) -> None:
        """What a copy does with the rows next, and the server later."""
        self.execute(INDEXES[0])
        self.execute("analyze public.t")

    def execute(self, statement: str) -> None:
        """One statement in a session of its own."""
        with common.connect(self.server) as conn:
            conn.execute(statement)

    # -- commits -------------------------------------------------------------

    def commits(self, setting: str, count: int = 300) -> None:
        """Many small chunks."""
        with common.connect(self.server) as conn:
            conn.execute("truncate public.t")
            conn.execute(f"set synchronous_commit = {setting}")
            for number in range(count):
                conn.execute(
                    "insert into public.t select i, 'x', 1, now()"
                    f" from generate_series({number * 1000}, {number * 1000 + 999}) i"
                )


def main() -> None:
    """Runs all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with common.servers("target") as (server,):
        bench = Bench(server, args.rows)
        with common.connect(server) as conn:
            print(common.machine(conn))
            conn.execute(DDL)
            conn.execute(FILL.format(table="public.t", rows=args.rows))
            data = _binary(conn)
        for _ in range(args.rounds):
            for name, build in (
                ("one session, parallel workers", lambda: bench.one_session(2)),
                ("one session, no workers", lambda: bench.one_session(0)),
                ("two sessions, no workers", lambda: bench.sessions(2, 0)),
                ("two sessions, a worker each", lambda: bench.sessions(2, 1)),
            ):
                bench.without_indexes()
                bench.measure(name, build)
        bench.without_indexes()
        for _ in range(args.rounds):
            for word, freeze in (("plain", False), ("frozen", True)):
                bench.without_indexes()
                bench.measure(f"load, {word}", lambda freeze=freeze: bench.load(data, freeze))
                bench.measure(f"key and analyze, {word}", bench.after)
                bench.measure(f"first vacuum, {word}", lambda: bench.execute("vacuum public.t"))
        bench.without_indexes()
        for _ in range(args.rounds):
            for setting in ("on", "off"):
                bench.measure(f"commits, {setting}", lambda setting=setting: bench.commits(setting))
        bench.report("Indexes", [name for name in bench.found if "session" in name])
        for step in ("load", "key and analyze", "first vacuum"):
            bench.report(step, [f"{step}, plain", f"{step}, frozen"])
        bench.report("300 small transactions", ["commits, on", "commits, off"])


def _binary(conn: psycopg.Connection) -> bytes:
    with conn.cursor().copy("copy public.t to stdout (format binary)") as copy:
        return b"".join(bytes(block) for block in copy)


if __name__ == "__main__":
    main()
