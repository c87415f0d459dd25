"""What every benchmark needs: two durable servers, a native subscription, a table of ratios."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
def servers(*names: str, version: int = 18) -> Iterator[tuple[Cluster, ...]]:
    """Throw-away servers of one version with ``SETTINGS``, on Unix sockets: no password."""
    versions = dict.fromkeys(names, version)
    with clusters(None, *names, versions=versions, settings=SETTINGS) as started:
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
    title: str, unit: str, rows: Sequence[Row], base: str, notes: Sequence[str] = ()
) -> None:
    """Prints a Markdown table and one JSON line; ratios are against the way named ``base``."""
    reference = next(row for row in rows if row.name == base)
    print(f"\n## {title}\n")
    print(f"{machine()}\n")
    print(f"| way | s | {unit}/s | × {base} |")
    print("|---|--:|--:|--:|")
    for row in rows:
        ratio = reference.seconds / row.seconds
        print(f"| {row.name} | {row.seconds:.2f} | {row.amount / row.seconds:,.0f} | {ratio:.2f} |")
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


def machine() -> str:
    """One line about the machine, for the reader of a figure."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"


def median(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)
