"""Cost of capture for writers: Londiste, PgQ's C triggers, Slony and native replication.

tps       single-row UPDATE and INSERT of 4 clients, each way between two measurements without
          capture; the ratio is that of a way to the mean of its two neighbours
single    CPU that the server process needs for a single-row statement, without capture
          subtracted: prepared statements in a pipeline, a hundred to a transaction
bulk      CPU and WAL for a row of one INSERT, UPDATE, DELETE of many rows, likewise
first     the first change of a session: UPDATEs of one row by ``pgbench -C``, a connection for
          each, and by sessions that a pool resets with DISCARD ALL; not among the default parts
changed   UPDATEs before and after an ALTER TABLE; not among the default parts
replayed  mixed statements through every way with a queue: its events, replayed row by row, have to
          give what the table holds; it runs always

Peers that are not installed are skipped with a note.

    python -m bench.capture [--parts tps,single,bulk,first,changed] [--rounds 3] [--seconds 2]
                            [--rows 500000] [--bindir DIR] [--json FILE]
                            [--record FILE]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psycopg

from bench.methods.capture import ROWS, VALUES, QueueWay, Way, after_alter, all_ways, mixed
from bench.support import common, cpu
from bench.support.peers import Peers, add_option, bindir
from londiste.embedded.postgres import Cluster

PARTS = ("tps", "single", "bulk")
#: With the C trigger, the capture methods whose first change is compared.
FIRST = ("plain", "londiste, row form", "londiste, statement form", "C logutriga")
CLIENTS = 4
#: Nothing but the work itself in the measurements: no checkpoint in the middle of one.
SETTINGS = {"checkpoint_timeout": "1h", "max_wal_size": "16GB", "shared_buffers": "1GB"}
BASE = "plain"
KINDS = ("update", "insert")
SINGLE_ROWS = ("single rows", "left of plain, UPDATE", "INSERT", "µs added, UPDATE", "INSERT")
ROW, STATEMENT = "londiste, row form", "londiste, statement form"
LOGUTRIGA = "C logutriga"


def main() -> None:
    """Runs the parts and prints a table for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--ways", help="only those whose name contains one of these, comma between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement of a rate")
    parser.add_argument("--statements", type=int, default=20_000, help="single-row statements")
    parser.add_argument("--rows", type=int, default=500_000, help="of a bulk statement")
    parser.add_argument("--json", type=Path, help="file that takes the result")
    common.add_record_option(parser)
    add_option(parser)
    args = parser.parse_args()
    with common.servers("source", "target", bindir=bindir(args.bindir), settings=SETTINGS) as (
        source,
        target,
    ):
        Bench(source, target, args).run()


class Bench:
    """The server, the ways and the measurements; figures are kept by part, statement and way."""

    def __init__(self, source: Cluster, target: Cluster, args: argparse.Namespace) -> None:
        self.server = source
        self.args = args
        self.peers = Peers(source)
        self.pgbench = self.peers.pgbench()
        self.ways = all_ways(source, target, self.peers)
        if args.ways:
            wanted = args.ways.split(",")
            self.ways = [w for w in self.ways if any(x in w.name for x in [BASE, *wanted])]
        self.plain = self.ways[0]
        self.result: dict[str, dict[str, float]] = {}
        self.notes: list[str] = []

    def run(self) -> None:
        """The parts, then the check, then what was to be reached."""
        for part in self.args.parts.split(","):
            started = time.perf_counter()
            getattr(self, part)()
            self.notes.append(f"{part}: {time.perf_counter() - started:.0f} s")
        self.replayed()
        goals = self.goals()
        common.goals(goals)
        with common.connect(self.server) as conn:
            print(f"\n{common.machine(conn)}; took {', '.join(self.notes)}")
        for note in self.peers.notes:
            print(f"\nskipped: {note}")
        self._keep()
        common.record(self.args.record)
        common.write_json(
            self.args.json,
            "capture",
            {
                "figures": self.result,
                "goals": {g.name: [g.value, g.limit, g.reached] for g in goals},
                "postgresql": self.server.version,
                "skipped": self.peers.notes,
            },
        )

    # -- transactions a second -------------------------------------------------------------------

    def tps(self) -> None:
        """Rates of single-row statements, and their ratios to those without capture."""
        for kind in KINDS:
            ratios: dict[str, list[float]] = defaultdict(list)
            rates: dict[str, list[float]] = defaultdict(list)
            for number in range(self.args.rounds):
                before = self._rate(self.plain, kind)
                for way in self._turn(number):
                    rate = self._rate(way, kind)
                    after = self._rate(self.plain, kind)
                    ratios[way.name].append(rate / ((before + after) / 2))
                    rates[way.name].append(rate)
                    rates[BASE].append(after)
                    before = after
            self.result[f"tps {kind}"] = {k: common.median(v) for k, v in rates.items()}
            left = self.result[f"tps {kind}, left of plain"] = {
                k: common.median(v) for k, v in ratios.items()
            }
            left[BASE] = 1.0
        self._table(
            f"Single-row statements of {CLIENTS} clients, transactions a second",
            ["tps update", "tps update, left of plain", "tps insert", "tps insert, left of plain"],
        )

    def _rate(self, way: Way, kind: str) -> float:
        table = way.table("u" if kind == "update" else "i")
        if kind == "update":
            script = (
                f"\\set id random(1, {ROWS})\n"
                f"update {table} set a = a + 1, b = 'row' where id = :id;\n"
            )
        else:
            script = (
                f"insert into {table} values (nextval('{way.prefix}_seq'), 1, 'new', 1.5,"
                " '2024-01-01', true);\n"
            )
        with way.connect() as conn:
            conn.execute("checkpoint")
        with way.running(table):
            done = self._pgbench(way, script)
        self._count(way, done[0])
        way.tidy(table)
        return done[1]

    def _pgbench(self, way: Way, script: str, *options: str) -> tuple[int, float]:
        """Transactions done, and their rate."""
        if self.pgbench is None:
            raise SystemExit("error: there is no pgbench\nhint: name an installation with --bindir")
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "script.sql"
            file.write_text(script, encoding="utf-8")
            command = [str(self.pgbench), "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2"]
            done = subprocess.run(
                [
                    *(*command, *options, "-T", str(max(1, round(self.args.seconds)))),
                    *("-f", str(file), way.server.dsn(way.database)),
                ],
                env={**os.environ, **way.server.environment()},
                capture_output=True,
                text=True,
                check=True,
            )
        found = dict(line.split(" = ", 1) for line in done.stdout.splitlines() if " = " in line)
        count = done.stdout.split("actually processed: ")[1].split()[0].split("/")[0]
        return int(count), float(found["tps"].split()[0])

    # -- the first change of a session -----------------------------------------------------------

    def first(self) -> None:
        """Rates where each transaction is the first of its session, and their ratios to C's."""
        update = (
            "\\set id random(1, {rows})\nupdate {table} set a = a + 1, b = 'row' where id = :id;\n"
        )
        ways = [way for way in self.ways if way.name in FIRST]
        for column, more, options in (
            ("connection for each", "", ["-C", "-M", "simple"]),
            ("discard all after each", "discard all;\n", ["-M", "simple"]),
        ):
            rates: dict[str, list[float]] = defaultdict(list)
            for number in range(self.args.rounds):
                for way in [*ways[number % len(ways) :], *ways[: number % len(ways)]]:
                    table = way.table("u")
                    script = update.format(rows=ROWS, table=table) + more
                    count, rate = self._pgbench(way, script, *options)
                    self._count(way, count)
                    way.tidy(table)
                    rates[way.name].append(rate)
            self.result[f"tps, {column}"] = {k: common.median(v) for k, v in rates.items()}
        self._table(
            f"The first change of a session, {CLIENTS} clients, transactions a second",
            ["tps, connection for each", "tps, discard all after each"],
            against="× C",
            name="first-change",
        )

    def changed(self) -> None:
        """CPU of an UPDATE of one row before and after an ALTER TABLE, µs."""
        names = ("before", "the first after", "those after")
        for way in self.ways:
            if way.name in FIRST:
                runs = [after_alter(way, 500) for _ in range(self.args.rounds)]
                way.tidy(way.table("u"))
                for name, values in zip(names, zip(*runs, strict=True), strict=True):
                    self.result.setdefault(f"µs {name}", {})[way.name] = common.median(values) * 1e6
        self._table(
            "CPU of a single-row UPDATE before and after an ALTER TABLE, µs",
            [f"µs {name}" for name in names],
            name="after-alter-table",
        )

    # -- CPU of a single-row statement -----------------------------------------------------------

    def single(self) -> None:
        """CPU that capture adds to a single-row statement, µs."""
        used: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for number in range(self.args.rounds + 2):
            for way in self._turn(number, with_plain=True):
                if not (way.trigger or way is self.plain):
                    continue
                for kind in KINDS:
                    used[kind][way.name].append(self._cpu_of_single(way, kind))
        for kind, figures in used.items():
            base = common.median(figures[BASE])
            self.result[f"µs {kind}"] = {
                name: common.median(values) - (0 if name == BASE else base)
                for name, values in figures.items()
            }
        self._table(
            "CPU of the server process added to a single-row statement, µs (plain: its own)",
            ["µs update", "µs insert"],
            against="× C",
        )

    def _cpu_of_single(self, way: Way, kind: str) -> float:
        count = max(100, self.args.statements // way.slow // 100 * 100)
        table = way.table("u" if kind == "update" else "i")
        pick = random.Random(count)
        with way.connect() as conn:
            started = 0.0
            # The first hundred make plans and compile the function: they are not counted.
            for number in range(0, count + 100, 100):
                if number == 100:
                    started = cpu.of_session(conn)
                with conn.pipeline(), conn.transaction():
                    for _ in range(100):
                        if kind == "update":
                            conn.execute(
                                f"update {table} set a = a + 1, b = 'row' where id = %s",
                                [pick.randint(1, ROWS)],
                                prepare=True,
                            )
                        else:
                            conn.execute(
                                f"insert into {table} values (nextval('{way.prefix}_seq'), 1,"
                                " 'new', 1.5, '2024-01-01', true)",
                                prepare=True,
                            )
            used = float(cpu.of_session(conn) - started)
        self._count(way, count + 100)
        way.tidy(table)
        return used / count * 1e6

    # -- statements of many rows -----------------------------------------------------------------

    def bulk(self) -> None:
        """CPU and WAL that capture adds to a row of a bulk statement, µs and bytes."""
        used: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for number in range(self.args.rounds):
            for way in self._turn(number, with_plain=True):
                if way.trigger or way is self.plain:
                    for kind, micros, octets in self._bulk(way):
                        used[f"µs/row {kind}"][way.name].append(micros)
                        used[f"WAL/row {kind}"][way.name].append(octets)
        for column, figures in used.items():
            base = common.median(figures[BASE])
            self.result[column] = {
                name: common.median(values) - (0 if name == BASE else base)
                for name, values in figures.items()
            }
        kinds = ("insert", "update", "delete")
        title = f"of one statement of {self.args.rows:,} rows, for a row (plain: its own)"
        self._table(f"CPU added, µs, {title}", [f"µs/row {k}" for k in kinds], against="× C")
        self._table(f"WAL added, bytes, {title}", [f"WAL/row {k}" for k in kinds], against="× C")

    def _bulk(self, way: Way) -> Iterator[tuple[str, float, float]]:
        rows = self.args.rows // way.slow
        table = way.table("b")
        statements = {
            "insert": f"insert into {table} select {VALUES} from generate_series(1, {rows}) i",
            "update": f"update {table} set a = a + 1, b = 'changed ' || id",
            "delete": f"delete from {table}",
        }
        with way.connect() as conn:
            conn.execute("checkpoint")
        for kind, statement in statements.items():
            with way.connect() as conn:
                started, wal = cpu.of_session(conn), lsn(conn)
                conn.execute(statement)
                yield (
                    kind,
                    (cpu.of_session(conn) - started) / rows * 1e6,
                    (lsn(conn) - wal) / rows,
                )
            self._count(way, rows)
            way.clear()
        way.tidy(table)

    # -- correctness -----------------------------------------------------------------------------

    def replayed(self) -> None:
        """Mixed statements through every way; raises when the events do not give the table."""
        checked = []
        for way in self.ways:
            if isinstance(way, QueueWay):
                way.tidy(way.table("m"))
                with way.connect() as conn:
                    mixed(conn, way.table("m"))
                if not way.replayed():
                    raise AssertionError(f"{way.name}: events do not give what the table holds")
                checked.append(way.name)
        print(
            f"\nReplayed and equal: {', '.join(checked)}. After every measurement the number of row"
            " changes in the events was that of the rows changed."
        )

    def _count(self, way: Way, expected: int) -> None:
        found = way.changes()
        if found is not None and found != expected:
            raise AssertionError(f"{way.name}: {expected} changes, {found} in the events")

    # -- what comes out --------------------------------------------------------------------------

    def goals(self) -> list[common.Goal]:
        """What the figures have to reach."""
        found = []
        for kind in KINDS:
            left = self.result.get(f"tps {kind}, left of plain")
            if left is not None:
                ours = max(left.get(ROW, 0.0), left.get(STATEMENT, 0.0))
                found.append(common.Goal(f"TPS of {kind}, left of plain", ours, 0.86))
                best = max((v for k, v in left.items() if k.startswith("C ")), default=None)
                found.append(
                    common.Goal(f"TPS of {kind} × best C trigger", best and ours / best, 1.0)
                )
        for column in ("tps, connection for each", "tps, discard all after each"):
            rates = self.result.get(column, {})
            base = rates.get(LOGUTRIGA)
            for form in (ROW, STATEMENT):
                if form in rates:
                    found.append(
                        common.Goal(
                            f"{column}, {form} × {LOGUTRIGA}", base and rates[form] / base, 0.9
                        )
                    )
        for column, best_form, limit in (
            *((f"µs {kind}", ROW, 0.65) for kind in KINDS),
            *((f"µs/row {kind}", STATEMENT, 0.20) for kind in ("insert", "update", "delete")),
            *((f"WAL/row {kind}", STATEMENT, 0.15) for kind in ("insert", "update", "delete")),
        ):
            figures = self.result.get(column)
            if figures is not None and best_form in figures:
                theirs = figures.get(LOGUTRIGA)
                value = theirs and figures[best_form] / theirs
                found.append(
                    common.Goal(f"{column}, {best_form} × {LOGUTRIGA}", value, limit, False)
                )
        return found

    def _table(
        self, title: str, columns: list[str], against: str | None = None, name: str | None = None
    ) -> None:
        print(f"\n## {title}")
        headers = ["way"]
        for column in columns:
            headers += [column] if against is None else [column, against]
        rows = []
        for way in self.ways:
            if way.name not in self.result[columns[0]]:
                continue
            cells = [way.name]
            for column in columns:
                value = self.result[column][way.name]
                cells.append(f"{value:.2f}" if value < 10 else f"{value:,.0f}")
                if against is not None:
                    theirs = self.result[column].get(LOGUTRIGA)
                    known = theirs and way.name != BASE
                    cells.append(f"{value / theirs:.2f}" if known and theirs else "")
            rows.append(cells)
        common.table(headers, rows, name)

    def _keep(self) -> None:
        """Keeps the figures of single rows for the page, if all of them were measured."""
        columns = [f"tps {k}, left of plain" for k in KINDS] + [f"µs {k}" for k in KINDS]
        if not all(column in self.result for column in columns):
            return
        rows = [
            [
                name,
                *(_short(self.result[c][name]) if name in self.result[c] else "" for c in columns),
            ]
            for name in self.result[columns[0]]
            if name != BASE
        ]
        common.keep("single-rows", SINGLE_ROWS, rows)

    def _turn(self, number: int, *, with_plain: bool = False) -> list[Way]:
        """The ways in this round's order: another one begins, so that none is always first."""
        ways = self.ways if with_plain else self.ways[1:]
        start = number * 3 % len(ways)
        return [*ways[start:], *ways[:start]]


def _short(value: float) -> str:
    """Two digits, or as many as stand before the point."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def lsn(conn: psycopg.Connection) -> int:
    """How far the server has written, in bytes."""
    row = conn.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    main()
