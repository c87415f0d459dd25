"""The queue against a job table with SKIP LOCKED and a plain table, in one run, in turns.

insert      single-event transactions of 4 clients; 100,000 events in one transaction, event by
            event, as a set and by COPY
drain       a backlog, to a consumer that counts, or that looks at every event
latency     commit to consumer at a steady rate, woken by notifications and polling
loss        the rate of inserts while somebody waits for notifications
held        the same queues while a snapshot is held for minutes

python -m bench.queue [--parts insert,drain,latency,loss,held] [--rounds 3]
                      [--events 1000000] [--minutes 0.5] [--record FILE]
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence

import psycopg

from bench.methods.queue import JOB, JobTable, OurQueue, Ways, pgbench
from bench.support import common
from londiste.embedded.postgres import Cluster

PARTS = ("insert", "drain", "latency", "loss", "held")
#: As long as a captured row of a narrow table.
DATA = "id=17&name=some+name+of+a+row&amount=12.34"
CLIENTS = 4
BULK = 100_000


def main() -> None:
    """Runs the parts and prints a table for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement of a rate")
    parser.add_argument("--events", type=int, default=1_000_000, help="backlog to be drained")
    parser.add_argument("--rate", type=float, default=500, help="events a second, for latency")
    parser.add_argument("--minutes", type=float, default=0.5, help="under a held snapshot")
    common.add_record_option(parser)
    args = parser.parse_args()
    with common.servers("queue") as (server,):
        bench = Bench(server, args)
        for part in args.parts.split(","):
            getattr(bench, part)()
    common.record(args.record)


class Bench:
    """The server and the measurements."""

    def __init__(self, server: Cluster, args: argparse.Namespace) -> None:
        self.server = server
        self.args = args
        self.ways = Ways(server)

    # -- insert ----------------------------------------------------------------------------------

    def insert(self) -> None:
        """Transactions of one event, and one large transaction: event by event, arrays, COPY."""
        singles = {
            "plain insert": "insert into plain (ev_time, ev_type, ev_data)"
            f" values (now(), 't', '{DATA}')",
            "insert_event": f"select pgq.insert_event('q', 't', '{DATA}', null, null, null, null)",
            "job table": f"insert into job (type, data) values ('t', '{DATA}')",
        }
        self._report(
            f"Transactions of one event, {CLIENTS} clients",
            self._turns(
                {
                    name: lambda statement=statement: self._rate(statement)  # type: ignore[misc]
                    for name, statement in singles.items()
                }
            ),
            "plain insert",
        )
        self._report(
            f"One transaction of {BULK:,} events, event by event",
            self._turns(
                {
                    "plain insert": lambda: self._each(
                        "insert into plain (ev_time, ev_type, ev_data) values (now(), %s, %s)"
                    ),
                    "plain insert that returns the id": lambda: self._each(
                        "insert into plain (ev_time, ev_type, ev_data) values (now(), %s, %s)"
                        " returning ev_id"
                    ),
                    "insert_event": lambda: self._each(
                        "select pgq.insert_event('q', %s, %s, null, null, null, null)"
                    ),
                    "job table": lambda: self._each("insert into job (type, data) values (%s, %s)"),
                }
            ),
            "plain insert",
        )
        self._report(
            f"One transaction of {BULK:,} events, in a loop of the server, without a client",
            self._turns(
                {
                    "plain insert": lambda: self._inside(singles["plain insert"]),
                    "insert_event": lambda: self._inside(
                        singles["insert_event"].replace("select", "perform", 1)
                    ),
                    "job table": lambda: self._inside(singles["job table"]),
                }
            ),
            "plain insert",
        )
        self._report(
            f"One transaction of {BULK:,} events, as arrays",
            self._turns(
                {
                    "plain insert of arrays": lambda: self._arrays(
                        "insert into plain (ev_time, ev_type, ev_data)"
                        " select now(), t, d from unnest(%s::text[], %s::text[]) as u (t, d)"
                    ),
                    "insert_events": lambda: self._arrays(
                        "select pgq.insert_events('q', %s::text[], %s::text[])"
                    ),
                    "job table": lambda: self._arrays(
                        "insert into job (type, data)"
                        " select t, d from unnest(%s::text[], %s::text[]) as u (t, d)"
                    ),
                }
            ),
            "plain insert of arrays",
        )
        columns = "(ev_time, ev_type, ev_data)"
        self._report(
            f"One transaction of {BULK:,} events, COPY",
            self._turns(
                {
                    "plain copy": lambda: self._copy("plain", columns),
                    "copy into the queue": lambda: self._copy("", columns),
                    "job table": lambda: self._copy("job", "(run_at, type, data)"),
                }
            ),
            "plain copy",
        )

    def _rate(self, statement: str) -> float:
        """Seconds for one transaction, all clients together."""
        return 1 / pgbench(self.server, statement, clients=CLIENTS, seconds=self.args.seconds)

    def _each(self, statement: str) -> float:
        data = [("t", DATA)] * BULK
        with common.connect(self.server) as conn, conn.cursor() as cursor:
            started = time.perf_counter()
            with conn.transaction():
                cursor.executemany(statement.encode(), data)
            return (time.perf_counter() - started) / BULK

    def _inside(self, statement: str) -> float:
        with common.connect(self.server) as conn:
            loop = f"do $$ begin for i in 1..{BULK} loop {statement}; end loop; end $$"
            began = time.perf_counter()
            conn.execute(loop.encode())
            return (time.perf_counter() - began) / BULK

    def _arrays(self, statement: str) -> float:
        with common.connect(self.server) as conn:
            started = time.perf_counter()
            conn.execute(statement.encode(), [["t"] * BULK, [DATA] * BULK])
            return (time.perf_counter() - started) / BULK

    def _copy(self, table: str, columns: str) -> float:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        block = f"{now}\tt\t{DATA}\n".encode() * 1000
        with common.connect(self.server) as conn, conn.cursor() as cursor:
            started = time.perf_counter()
            with conn.transaction():
                if not table:
                    row = conn.execute("select pgq.current_event_table('q')").fetchone()
                    assert row is not None
                    table = row[0]
                with cursor.copy(f"copy {table} {columns} from stdin".encode()) as copy:
                    for _ in range(BULK // 1000):
                        copy.write(block)
            return (time.perf_counter() - started) / BULK

    # -- drain -----------------------------------------------------------------------------------

    def drain(self) -> None:
        """One consumer takes a backlog that is there."""
        count = self.args.events
        ours, job = self.ways.queue, self.ways.job
        self._report(
            f"Drain of a backlog of {count:,} events",
            self._turns(
                {
                    f"job table, {JOB} a statement": lambda: job.drain(count) / count,
                    "queue, counting": lambda: ours.drain(count, "count") / count,
                    "queue, type and data of every event": lambda: (
                        ours.drain(count, "fields") / count
                    ),
                    "queue, every event whole": lambda: ours.drain(count, "events") / count,
                    "queue, by cursor": lambda: ours.drain(count, "cursor") / count,
                }
            ),
            f"job table, {JOB} a statement",
            "drain",
        )

    # -- latency ---------------------------------------------------------------------------------

    def latency(self) -> None:
        """Milliseconds from the end of a commit to the event in the consumer's hands."""
        ours, job = self.ways.queue, self.ways.job
        rate, seconds = self.args.rate, max(self.args.seconds, 5)
        print(f"\n## Commit to consumer at {rate:g} events/s, ms\n\n{common.machine()}\n")
        print("| way | p50 | p95 | p99 |\n|---|--:|--:|--:|")
        ways: dict[str, Callable[[], list[float]]] = {
            "queue, notified, ticker_max_lag 10 ms": lambda: ours.latency(
                rate, seconds, lag="10ms", poll=None
            ),
            "queue, polling every 20 ms, ticker_max_lag 10 ms": lambda: ours.latency(
                rate, seconds, lag="10ms", poll=0.02
            ),
            "queue, notified, ticker_max_lag 100 ms": lambda: ours.latency(
                rate, seconds, lag="100ms", poll=None
            ),
            "queue as it comes (3 s), notified": lambda: ours.latency(
                rate, seconds * 2, lag="3s", poll=None
            ),
            "job table, notified by every insert": lambda: job.latency(rate, seconds, poll=None),
            "job table, polling every 20 ms": lambda: job.latency(rate, seconds, poll=0.02),
        }
        cells = []
        for name, way in ways.items():
            values = sorted(itertools.chain(*(way() for _ in range(self.args.rounds))))
            print(f"| {name} | {' | '.join(percentiles(values))} |", flush=True)
            cells.append([name, *percentiles(values)])
        common.keep("latency", ["way", "p50", "p95", "p99"], cells)

    def loss(self) -> None:
        """What low latency costs the writers."""
        ours, job = self.ways.queue, self.ways.job
        event = f"select pgq.insert_event('q', 't', '{DATA}', null, null, null, null)"
        row = f"insert into job (type, data) values ('t', '{DATA}')"

        def notified() -> float:
            with ours.ticking("10ms"), ours.consuming():
                return self._rate(event)

        def ticked() -> float:
            with ours.ticking("3s"), ours.consuming():
                return self._rate(event)

        self._report(
            f"Inserts of {CLIENTS} clients while a consumer follows",
            self._turns(
                {
                    "queue, ticker_max_lag 3 s": ticked,
                    "queue, ticker_max_lag 10 ms, notified": notified,
                    "job table, polled": lambda: job.followed(lambda: self._rate(row), poll=0.02),
                    "job table, notified by every insert": lambda: job.followed(
                        lambda: self._rate(f"{row}; notify job"), poll=None
                    ),
                }
            ),
            "queue, ticker_max_lag 3 s",
            "loss",
        )

    # -- held snapshot ---------------------------------------------------------------------------

    def held(self) -> None:
        """Enqueue and dequeue while a transaction holds a snapshot."""
        seconds = self.args.minutes * 60
        print(f"\n## Under a snapshot held for {self.args.minutes:g} minutes\n")
        print(f"{common.machine()}\n")
        print("| way | events/s | ms p50, begin | end | µs to take an event, begin | end |")
        print("|---|--:|--:|--:|--:|--:|")
        for way in (self.ways.queue, self.ways.job):
            print(f"| {way.name} | {' | '.join(self._held(way, seconds))} |", flush=True)

    def _held(self, way: OurQueue | JobTable, seconds: float) -> Sequence[str]:
        with psycopg.connect(self.server.dsn()) as holder:
            holder.execute("set transaction isolation level repeatable read")
            holder.execute("select pg_catalog.txid_current()")
            follow = way.follow_under_load(seconds)
            holder.rollback()
        part = max(1, len(follow.latency) // 10)
        costs = follow.costs
        tenth = max(1, len(costs) // 10)
        return [
            f"{len(follow.latency) / follow.seconds:,.0f}",
            percentiles(sorted(follow.latency[:part]))[0],
            percentiles(sorted(follow.latency[-part:]))[0],
            f"{per_event(costs[:tenth]):.1f}",
            f"{per_event(costs[-tenth:]):.1f}",
        ]

    # -- helpers ---------------------------------------------------------------------------------

    def _turns(self, ways: dict[str, Callable[[], float]]) -> dict[str, float]:
        """Seconds per event of each way: the fastest of the rounds, which take turns.

        Whatever else a machine does makes a round slower, never faster.
        """
        found: dict[str, list[float]] = {}
        for _ in range(self.args.rounds):
            for name, way in ways.items():
                self.ways.clean()
                found.setdefault(name, []).append(way())
        return {name: min(values) for name, values in found.items()}

    def _report(
        self, title: str, seconds: dict[str, float], base: str, name: str | None = None
    ) -> None:
        common.report(
            title,
            "events",
            [common.Row(name, each * 1_000_000, 1_000_000) for name, each in seconds.items()],
            base,
            [f"Seconds for a million events; the fastest of {self.args.rounds} rounds, in turns."],
            name,
        )


def percentiles(values: Sequence[float]) -> list[str]:
    """p50, p95 and p99 of sorted seconds, in milliseconds."""
    return [f"{values[int(len(values) * p)] * 1000:.1f}" for p in (0.5, 0.95, 0.99)]


def per_event(costs: Sequence[tuple[int, float]]) -> float:
    """Microseconds for one event out of (events, seconds)."""
    return sum(s for _, s in costs) / max(1, sum(n for n, _ in costs)) * 1e6


if __name__ == "__main__":
    main()
