"""Servers, native subscriptions, repeated measurements and tables of ratios for benchmarks."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from londiste.embedded.postgres import Cluster, clusters

#: Durable, as in production: benchmarks must not gain from switching safety off.
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "wal_level": "logical",
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "autovacuum": "off",
}


@dataclass(frozen=True)
class Row:
    """One way of doing the work, measured."""

    name: str
    seconds: float
    amount: float
    ratio: float | None = None


@contextlib.contextmanager
def servers(
    *names: str,
    version: int = 18,
    bindir: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[tuple[Cluster, ...]]:
    """Throw-away servers of one version with ``SETTINGS``, on Unix sockets: no password.

    bindir -- the programs of one installation, for example the system's, which has the peers'
        extensions; None is the first installation found with ``version``.
    settings -- over ``SETTINGS``.
    """
    wanted: int | None = version
    if bindir is not None:
        os.environ["LONDISTE_PGBIN"] = str(bindir)
        wanted = None
    versions = {} if wanted is None else dict.fromkeys(names, wanted)
    with clusters(
        None, *names, versions=versions, settings={**SETTINGS, **(settings or {})}
    ) as started:
        yield tuple(started)


def connect(cluster: Cluster, database: str = "postgres") -> psycopg.Connection:
    """An autocommit session."""
    return psycopg.connect(cluster.dsn(database), autocommit=True)


def wait_until(check: str, conn: psycopg.Connection, *, seconds: float = 600.0) -> float:
    """Polls an SQL expression every 5 ms until it is true; the time it took."""
    started = time.perf_counter()
    while True:
        row = conn.execute(check).fetchone()  # type: ignore[call-overload]
        if row and row[0]:
            return time.perf_counter() - started
        if time.perf_counter() - started > seconds:
            raise TimeoutError(f"not true after {seconds:g} s: {check}")
        time.sleep(0.005)


def report(
    title: str,
    unit: str,
    rows: Sequence[Row],
    base: str,
    notes: Sequence[str] = (),
    name: str | None = None,
) -> None:
    """Prints a Markdown table and one JSON line; ratios are against the way named ``base``.

    name -- of the table for ``record``.
    """
    reference = next(row for row in rows if row.name == base)
    print(f"\n## {title}\n")
    print(f"{machine()}\n")
    print(f"| way | s | {unit}/s | × {base} |")
    print("|---|--:|--:|--:|")
    for row in rows:
        ratio = reference.seconds / row.seconds
        print(f"| {row.name} | {row.seconds:.2f} | {row.amount / row.seconds:,.0f} | {ratio:.2f} |")
    if name is not None:
        cells = [
            [row.name, f"{row.amount / row.seconds:,.0f}", f"{reference.seconds / row.seconds:.2f}"]
            for row in rows
        ]
        keep(name, ["way", f"{unit}/s", f"× {base}"], cells)
    for note in notes:
        print(f"\n{note}")
    print(
        "\n"
        + json.dumps(
            {
                "title": title,
                "unit": unit,
                "rows": [
                    {
                        "name": r.name,
                        "seconds": round(r.seconds, 3),
                        "per_second": round(r.amount / r.seconds),
                        "ratio": round(reference.seconds / r.seconds, 3),
                    }
                    for r in rows
                ],
            }
        )
    )


def machine(conn: psycopg.Connection | None = None) -> str:
    """One line about the machine, for the reader of a figure; conn adds the server's version."""
    load = f"load {os.getloadavg()[0]:.1f}"
    server = "" if conn is None else f"PostgreSQL {conn.info.parameter_status('server_version')}, "
    return (
        f"{os.cpu_count()} cores, {server}Python {platform.python_version()},"
        f" {platform.system()}, {load} at the end"
    )


def markdown(
    headers: Sequence[str], rows: Sequence[Sequence[str]], labels: int = 1
) -> Iterator[str]:
    """Lines of a Markdown table; the first columns are labels, the others are figures."""
    for cells in (headers, None, *rows):
        if cells is None:
            yield f"|{'---|' * labels}{'--:|' * (len(headers) - labels)}"
        else:
            yield re.sub(" +", " ", f"| {' | '.join(cells)} |")


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], name: str | None = None) -> None:
    """Prints a Markdown table, and keeps it for ``record`` if it has a name."""
    print()
    for line in markdown(headers, rows):
        print(line, flush=True)
    if name is not None:
        keep(name, headers, rows)


#: Tables of this run by their names in a file of bench/recorded/.
_KEPT: dict[str, dict[str, Any]] = {}


def keep(name: str, headers: Sequence[str], rows: Sequence[Sequence[str]], labels: int = 1) -> None:
    """Keeps a table for ``record``."""
    _KEPT[name] = {"columns": list(headers), "rows": [list(row) for row in rows]}
    if labels != 1:
        _KEPT[name]["labels"] = labels


def add_record_option(parser: argparse.ArgumentParser) -> None:
    """The option that names the file of figures."""
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="replace the tables of this run in a file of bench/recorded/;\n"
        "python -m bench.report then writes docs/benchmarks.md",
    )


def record(file: Path | None) -> None:
    """Replaces the tables of this run in a file; its other tables stay."""
    if file is None:
        return
    about = {
        "command": shlex.join(["python", *_without_files(sys.orig_argv[1:])]),
        "date": datetime.date.today().isoformat(),
        "commit": _commit(),
        "machine": machine(),
    }
    tables = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    tables |= {name: {**about, **each} for name, each in _KEPT.items()}
    write_lines(file, tables)


def write_lines(file: Path, document: Mapping[str, Any]) -> None:
    """Writes JSON with each array of strings or numbers on a line of its own."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    text = ROW.sub(lambda row: f"[{CUT.sub(', ', row[1])}]", text)
    file.write_text(text + "\n", encoding="utf-8")


def _without_files(words: Sequence[str]) -> list[str]:
    """A command without the files that take its result."""
    pairs = itertools.pairwise(["", *words])
    files = ("--record", "--json")
    return [word for before, word in pairs if word not in files and before not in files]


#: An array of strings or numbers, and where it continues on the next line.
ROW = re.compile(r'\[\n\s+((?:(?:"(?:[^"\\]|\\.)*"|[-\d.e+]+)(?:,\n\s+)?)+)\n\s+\]')
CUT = re.compile(r'(?<=["\d]),\n\s+')


def _commit() -> str | None:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or None


@dataclass(frozen=True)
class Goal:
    """What a figure has to reach: at least (or at most) ``limit``."""

    name: str
    value: float | None  # None: could not be measured here
    limit: float
    at_least: bool = True

    @property
    def reached(self) -> bool | None:
        """Whether the figure is good enough; None when there is none."""
        if self.value is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def goals(found: Sequence[Goal]) -> None:
    """Prints what was to be reached and what was."""
    words = {True: "yes", False: "**no**", None: "not measured"}
    table(
        ["", "to reach", "measured", "reached"],
        [
            [
                goal.name,
                f"{'≥' if goal.at_least else '≤'} {goal.limit:.2f}",
                "–" if goal.value is None else f"{goal.value:.2f}",
                words[goal.reached],
            ]
            for goal in found
        ],
    )


def write_json(file: Path | None, what: str, result: Mapping[str, Any]) -> None:
    """Puts a benchmark's result into a JSON file under its name; other results there stay."""
    if file is None:
        return
    everything = json.loads(file.read_text()) if file.exists() else {}
    everything[what] = {**result, "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    file.write_text(json.dumps(everything, indent=1) + "\n")


def median(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def by_turns(ways: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each way, all of them measured in each round."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            took[name].append(way())
    return {name: median(values) for name, values in took.items()}
