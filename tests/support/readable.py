"""Waits for input, whatever the numbers of the files: select() refuses those above 1,023."""

from __future__ import annotations

import select
from collections.abc import Iterable


def readable(files: Iterable[int], seconds: float) -> list[int]:
    """The files with input, or that were closed, as soon as there is one; empty after the time."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(seconds * 1000)]
