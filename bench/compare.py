"""Compare and repair of a table on two servers, beside the limit of the servers.

limit   each server works out count(*) and sum(hashtextextended(row::text)) in one session, both
        at once; and the same with a row cut between two sessions of each server
equal   ``londiste compare`` of equal tables, the whole command
differ  the same with five rows that differ, all of which it has to name
busy    the same while pgbench -c 2 updates the table and the worker replays
again   ``londiste repair --apply`` of the five rows, with both comparisons

python -m bench.compare [--rows 2000000] [--rounds 3] [--engine local] [--json FILE]
                        [--record FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.support import common
from bench.support.peers import bindir
from bench.workloads.pgbench_writers import Writers
from londiste.embedded.postgres import Cluster

QUEUE = "bench"
TABLE = """
create table pgbench_accounts (aid int primary key, bid int, abalance int, filler char(84));
insert into pgbench_accounts select i, i / 100000 + 1, 0, '' from generate_series(1, {rows}) i;
"""
LIMIT = (
    "select count(*), sum(hashtextextended(t::text, 0)) from pgbench_accounts t"
    " where aid >= {low} and aid < {high}"
)
DAMAGE = """
set session_replication_role = replica;
update pgbench_accounts set filler = 'x' where aid = {rows} / 3;
update pgbench_accounts set bid = null where aid = {rows};
delete from pgbench_accounts where aid in (1, {rows} / 2);
insert into pgbench_accounts values ({rows} + 5, 1, 1, '');
"""


class Bench:
    """Two servers with the same rows, and a cascade from one to the other."""

    def __init__(self, source: Cluster, target: Cluster, folder: Path, rows: int, engine: str):
        self.sides = {"root": source, "leaf": target}
        self.folder = folder
        self.rows = rows
        for name, cluster in self.sides.items():
            (folder / f"{name}.toml").write_text(
                f'[londiste]\ndb = "{cluster.dsn("postgres")}"\nqueue_name = "{QUEUE}"\n'
                f'job_name = "{name}"\nengine = "{engine}"\n'
            )
            with common.connect(cluster) as conn:
                conn.execute(TABLE.format(rows=rows).encode())
                conn.execute("vacuum analyze pgbench_accounts")
            self.run(name, "install")
        (folder / "ticker.toml").write_text(f'[ticker]\ndb = "{source.dsn("postgres")}"\n')
        root, leaf = source.dsn("postgres"), target.dsn("postgres")
        self.run("root", "create-root", "root", root)
        self.run("leaf", "create-leaf", "leaf", leaf, "--provider", root)
        self.run("root", "add-table", "pgbench_accounts")
        self.running = [
            subprocess.Popen(self.command("ticker", "ticker")),
            subprocess.Popen(self.command("leaf", "worker")),
        ]
        self.run("leaf", "add-table", "pgbench_accounts", "--expect-sync")
        self.run("leaf", "wait-root")

    def close(self) -> None:
        """Ends ticker and worker."""
        for process in self.running:
            process.terminate()
            process.wait()

    def command(self, node: str, *args: str) -> list[str]:
        """A command of the program."""
        return [sys.executable, "-m", "londiste", "-q", "-c", f"{self.folder}/{node}.toml", *args]

    def run(self, node: str, *args: str, code: int = 0) -> str:
        """Its output; another exit code ends the benchmark."""
        done = subprocess.run(
            self.command(node, *args), check=False, capture_output=True, text=True
        )
        if done.returncode != code:
            raise AssertionError(f"{args} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def limit(self, sessions: int) -> float:
        """Seconds in which both servers have hashed all rows, in so many sessions each."""
        bounds = [self.rows * n // sessions + 1 for n in range(sessions + 1)]

        def read(cluster: Cluster, low: int, high: int) -> None:
            with common.connect(cluster) as conn:
                conn.execute(LIMIT.format(low=low, high=high).encode()).fetchall()

        threads = [
            threading.Thread(target=read, args=(cluster, low, high))
            for cluster in self.sides.values()
            for low, high in itertools.pairwise(bounds)
        ]
        return timed(lambda: [t.start() for t in threads] and [t.join() for t in threads])

    def compare(self, *, differ: int, code: int = 0) -> float:
        """Seconds of the command, which has to name so many rows."""
        out: list[str] = []
        took = timed(lambda: out.append(self.run("leaf", "compare", "--json", code=code)))
        (table,) = json.loads(out[0])["tables"]
        found = len(table["rows"])
        if found != differ:
            raise AssertionError(f"{found} rows were named, not {differ}")
        return took

    def damage(self) -> None:
        """Five rows of the leaf."""
        with common.connect(self.sides["leaf"]) as conn:
            conn.execute(DAMAGE.format(rows=self.rows).encode())

    def busy(self) -> tuple[float, float]:
        """(seconds of a comparison while two clients write, their transactions a second)."""
        programs = bindir(None)
        if programs is None:
            raise AssertionError("pgbench is not installed")
        with Writers(
            programs / "pgbench", self.sides["root"], "postgres", self.rows, self.folder
        ) as writers:
            writers.warm(3)
            began = time.time()
            took = self.compare(differ=0)
            ended = time.time()
            writers.finish()
        return took, writers.rate(began, ended)


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    parser.add_argument("--json", type=Path)
    common.add_record_option(parser)
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        source, target = stack.enter_context(common.servers("source", "target"))
        bench = Bench(source, target, folder, args.rows, args.engine)
        stack.callback(bench.close)
        one, two, equal, busy, writes = [], [], [], [], []
        for _ in range(args.rounds):
            one.append(bench.limit(1))
            two.append(bench.limit(2))
            equal.append(bench.compare(differ=0))
        for _ in range(args.rounds):
            took, rate = bench.busy()
            busy.append(took)
            writes.append(rate)
            bench.run("leaf", "wait-root")
        bench.damage()
        differ = bench.compare(differ=5, code=3)
        mended = timed(lambda: bench.run("leaf", "repair", "--apply"))
        bench.compare(differ=0)
        rows = [
            common.Row("limit, a session a side", common.median(one), args.rows),
            common.Row("limit, two sessions a side", common.median(two), args.rows),
            common.Row("compare, equal", common.median(equal), args.rows),
            common.Row("compare, five rows differ", differ, args.rows),
            common.Row("compare, pgbench writes", common.median(busy), args.rows),
            common.Row("repair --apply, five rows", mended, args.rows),
        ]
        common.report(
            f"Compare, {args.rows:,} rows a side, {args.engine}",
            "rows a side",
            rows,
            "limit, a session a side",
            [f"pgbench -c 2 made {common.median(writes):,.0f} transactions a second meanwhile."],
            f"{args.rows:,}-rows",
        )
        common.record(args.record)
        common.write_json(
            args.json, "compare", {row.name: row.amount / row.seconds for row in rows}
        )


if __name__ == "__main__":
    main()
