"""A producer process that commits at a fixed rate, for bench.queue.

Runs a statement with the numbers of the first and the last event of each transaction, so many
transactions a second, and prints when each commit was over: one JSON list of seconds of the
system's monotonic clock, which other processes of the machine read as well.

    python -m bench.support.paced DSN STATEMENT --rate 500 --seconds 10 [--events 1]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import psycopg


def main() -> None:
    """Runs for the time given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn")
    parser.add_argument("statement")
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--events", type=int, default=1, help="in each transaction")
    args = parser.parse_args()
    commits = []
    with psycopg.connect(args.dsn, autocommit=True) as conn:
        statement = args.statement.encode()
        start = time.monotonic()
        for number in range(int(args.rate * args.seconds)):
            wait = start + number / args.rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            first = number * args.events
            conn.execute(statement, [first, first + args.events - 1], prepare=True)
            commits.append(round(time.monotonic(), 6))
    json.dump(commits, sys.stdout)


def start(dsn: str, statement: str, rate: float, seconds: float, events: int = 1) -> Producer:
    """Starts one in a process of its own."""
    return Producer(
        [dsn, statement, "--rate", str(rate), "--seconds", str(seconds), "--events", str(events)],
        int(rate * seconds) * events,
        events,
    )


class Producer:
    """The running process; ``total`` events will come."""

    def __init__(self, arguments: list[str], total: int, events: int) -> None:
        self.total = total
        self.events = events
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.support.paced", *arguments], stdout=subprocess.PIPE
        )

    def committed(self) -> list[float]:
        """When each event was committed, by its number; waits for the end."""
        output, _ = self.process.communicate()
        if self.process.returncode != 0:
            raise RuntimeError("the producer failed")
        return [time for time in json.loads(output) for _ in range(self.events)]


if __name__ == "__main__":
    main()
