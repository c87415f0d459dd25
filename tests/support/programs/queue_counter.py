"""A consumer that adds up its events, as a process of its own."""

from __future__ import annotations

import re
import time
from pathlib import Path

from londiste import Consumer, Context
from londiste.consumer.event_stream import Events
from londiste.pgq.types import Batch


class Counter(Consumer):
    """Prints a line of figures for every batch with events."""

    queue = "q"
    name = "counter"

    def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
        started = time.monotonic()
        first = 0.0
        count = total = last = 0
        in_order = True
        for event in events:
            first = first or time.monotonic() - started
            count += 1
            total += int(event.data or 0)
            in_order = in_order and event.id > last
            last = event.id
        if count:
            seconds = time.monotonic() - started
            print(count, total, in_order, f"{first:.1f}", f"{seconds:.1f}", f"{_megabytes():.0f}")


def _megabytes() -> float:
    """The most memory that this program has had.

    Not ``getrusage``: its figure begins with what the process was before it became this program.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


if __name__ == "__main__":
    Counter.main()
