"""What an idle cascade costs: processor time, memory and WAL of its daemons, plain and watched.

Plain are a ticker and two workers.  Watched are the same with an endpoint for metrics that is
scraped each fifteen seconds, a notifier, and a console, first without and then with an open page.
A cascade without any daemon stands beside them: what the servers write by themselves.

    python -m bench.idle [--seconds 60] [--settle 20]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.latency import Idle, _processor_seconds, _resident, londiste
from bench.support import common
from londiste.embedded.postgres import Cluster

QUEUE = "bench"
#: Seconds between two scrapes, as Prometheus does them by default in most set-ups.
SCRAPE = 15.0
#: Goals of a daemon: per cent of a core, megabytes.
MOST_CPU, MOST_MEMORY = 1.0, 80.0


@dataclass(frozen=True)
class Measured:
    """A phase: its daemons, and the bytes of WAL of both servers in an hour."""

    name: str
    daemons: tuple[Idle, ...]
    wal: float


def main() -> None:
    """Runs the benchmark and prints its tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="of each phase")
    parser.add_argument("--settle", type=float, default=20, help="seconds before each phase")
    args = parser.parse_args()
    found = []
    with (
        common.servers("source", "target") as (source, target),
        tempfile.TemporaryDirectory() as folder,
    ):
        files = cascade(source, target, Path(folder))
        both = (source, target)
        found.append(phase("no daemon", both, {}, args.seconds, args.settle))
        with daemons(files, watched=False) as (running, _):
            found.append(phase("plain", both, running, args.seconds, args.settle))
        with daemons(files, watched=True) as (running, addresses), scraped(addresses):
            found.append(phase("watched", both, running, args.seconds, args.settle))
            with open_page(addresses["web"]):
                found.append(
                    phase("watched, a page open", both, running, args.seconds, args.settle)
                )
    report(found, args.seconds)


def cascade(source: Cluster, target: Cluster, folder: Path) -> Mapping[str, Path]:
    """A root and a leaf with one table, and the settings of their daemons."""
    for cluster, database in ((source, "src"), (target, "dst")):
        cluster.create_database(database)
        with common.connect(cluster, database) as conn:
            conn.execute("create table t (id bigint primary key, what text)")
    dsns = {"root": source.dsn("src"), "leaf": target.dsn("dst")}
    files = {}
    for name, dsn in dsns.items():
        files[name] = folder / f"{name}.toml"
        files[name].write_text(
            f'[londiste]\ndb = "{dsn}"\nqueue_name = "{QUEUE}"\njob_name = "{name}"\n'
            '[notify]\ncommand = ["true"]\n[web]\nlisten = "127.0.0.1:0"\n'
        )
        files[name].chmod(0o600)
        londiste(files[name], "install")
    londiste(files["root"], "create-root", "root", dsns["root"])
    leaf = ("create-leaf", "leaf", dsns["leaf"], "--provider", dsns["root"])
    londiste(files["leaf"], *leaf)
    for file in files.values():
        londiste(file, "add-table", "t")
    return files


@contextlib.contextmanager
def daemons(
    files: Mapping[str, Path], *, watched: bool
) -> Iterator[tuple[dict[str, int], dict[str, str]]]:
    """Runs the daemons: process ids and addresses by name."""
    endpoint = ["--set", "metrics=127.0.0.1:0"] if watched else []
    wanted = {
        "ticker": ("root", [*endpoint, "ticker", "--db", _db(files["root"])]),
        "worker of the root": ("root", [*endpoint, "worker"]),
        "worker": ("leaf", [*endpoint, "worker"]),
    }
    if watched:
        wanted |= {"notify": ("leaf", ["notify"]), "web": ("leaf", ["web"])}
    with contextlib.ExitStack() as stack:
        running, logs = {}, {}
        for name, (node, words) in wanted.items():
            logs[name] = files["root"].parent / f"{name}.log"
            argv = [sys.executable, "-m", "londiste"]
            argv += [] if name == "ticker" else ["-c", str(files[node])]
            output = stack.enter_context(logs[name].open("wb"))
            process = subprocess.Popen([*argv, *words], stdout=output, stderr=output)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            running[name] = process.pid
        addresses = {
            name: _address(log) for name, log in logs.items() if watched and name != "notify"
        }
        with psycopg.connect(_db(files["leaf"]), autocommit=True) as conn:
            common.wait_until(
                "select exists (select 1 from londiste.table_info where merge_state = 'ok')", conn
            )
        yield running, addresses


def _db(file: Path) -> str:
    found = re.search(r'(?m)^db = "(.*)"$', file.read_text())
    assert found is not None
    return found[1]


def _address(log: Path) -> str:
    """The address that a daemon has logged."""
    for _ in range(600):
        found = re.search(r"(?:metrics at|console:) (http://[^/\s]+)", log.read_text())
        if found:
            return found[1]
        threading.Event().wait(0.1)
    raise AssertionError(f"no address in {log.read_text()}")


@contextlib.contextmanager
def scraped(addresses: Mapping[str, str]) -> Iterator[None]:
    """Scrapes the endpoints, as Prometheus would."""
    end = threading.Event()

    def scrape() -> None:
        while not end.wait(SCRAPE):
            for name, address in addresses.items():
                if name != "web":
                    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
                        answer.read()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@contextlib.contextmanager
def open_page(address: str) -> Iterator[None]:
    """A live page of the console, which a browser keeps open."""
    with urllib.request.urlopen(f"{address}/live/cascade", timeout=60) as answer:
        ended = threading.Event()

        def read() -> None:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                while not ended.is_set() and answer.readline():
                    pass

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        yield
        ended.set()
        thread.join(20)


def phase(
    name: str,
    clusters: tuple[Cluster, ...],
    running: Mapping[str, int],
    seconds: float,
    settle: float,
) -> Measured:
    """Measures daemons that have nothing to do."""
    pause = threading.Event()
    pause.wait(settle)
    before = {daemon: _processor_seconds(pid) for daemon, pid in running.items()}
    wal = sum(_wal(cluster) for cluster in clusters)
    pause.wait(seconds)
    written = sum(_wal(cluster) for cluster in clusters) - wal
    found = tuple(
        Idle(daemon, (_processor_seconds(pid) - before[daemon]) / seconds * 100, _resident(pid))
        for daemon, pid in running.items()
    )
    return Measured(name, found, written / seconds * 3600)


def _wal(cluster: Cluster) -> float:
    with common.connect(cluster, "postgres") as conn:
        row = conn.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return float(row[0])


def report(found: list[Measured], seconds: float) -> None:
    """Prints the tables in Markdown and one line of JSON."""
    print(f"\n## Idle, over {seconds:g} s each\n\n{common.machine()}\n")
    print("| phase | daemon | per cent of a core | MB resident |\n|---|---|--:|--:|")
    missed = []
    for one in found:
        for daemon in one.daemons:
            print(f"| {one.name} | {daemon.name} | {daemon.cpu:.2f} | {daemon.memory:.0f} |")
            # An open page is no idleness: the console collects every two seconds for it.
            is_idle = "page" not in one.name
            if is_idle and (daemon.cpu > MOST_CPU or daemon.memory > MOST_MEMORY):
                missed.append(f"{daemon.name} ({one.name})")
    print("\n| phase | WAL of both servers, MB per hour |\n|---|--:|")
    for one in found:
        print(f"| {one.name} | {one.wal / 1e6:.2f} |")
    goal = f"at most {MOST_CPU:g} per cent of a core and {MOST_MEMORY:g} MB a daemon"
    print(f"\nGoal: {goal}: {'missed by ' + ', '.join(missed) if missed else 'reached'}.")
    rows = [
        {
            "name": one.name,
            "wal_mb_per_hour": round(one.wal / 1e6, 3),
            "daemons": [
                {"name": d.name, "cpu": round(d.cpu, 3), "mb": round(d.memory, 1)}
                for d in one.daemons
            ],
        }
        for one in found
    ]
    print("\n" + json.dumps({"title": "Idle", "rows": rows}))


if __name__ == "__main__":
    main()
