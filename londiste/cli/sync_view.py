"""View of nodes that come into sync: a bar for each copy, then lines that stay current.

On a terminal it is refreshed in place.  Elsewhere a line is printed when its words change, and
numbers that change are printed every ten seconds.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from londiste.cli import output
from londiste.cli.copy.progress_display import DisplayedCopy

#: Seconds between prints of numbers where no terminal is.
_PERIOD = 10.0
_NUMBER = re.compile(r"\d[\d.,]*")


class SyncView(Protocol):
    """Shows the copies that run, and lines below them."""

    def __call__(self, copies: Sequence[DisplayedCopy], lines: Sequence[str]) -> None: ...


@contextlib.contextmanager
def sync_view(*, quiet: bool) -> Iterator[SyncView]:
    """A view for the length of a with block, on stderr."""
    if quiet or not output.on_terminal():
        yield Lines()
        return
    # Imported here: only a terminal needs it.
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False) as live:
        yield lambda copies, lines: live.update(_frame(copies, lines), refresh=True)


def _frame(copies: Sequence[DisplayedCopy], lines: Sequence[str]) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    bars = Table.grid(padding=(0, 1))
    for one in copies:
        total = None if one.fraction is None else 1.0
        bar = ProgressBar(total=total, completed=one.fraction or 0.0, width=20)
        bars.add_row(Text(output.cell(one.what)), bar, Text(one.text))
    texts = [Text(output.cell(line), no_wrap=True, overflow="ellipsis") for line in lines]
    return Group(bars, *texts) if copies else Group(*texts)


class Lines:
    """Messages, each when it is new."""

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._lines: list[str] = []
        self._printed = -_PERIOD

    def __call__(self, copies: Sequence[DisplayedCopy], lines: Sequence[str]) -> None:
        words = {_NUMBER.sub("#", line) for line in lines}
        now = time.monotonic()
        late = now - self._printed >= _PERIOD
        for line in lines:
            if _NUMBER.sub("#", line) not in self._words or (late and line not in self._lines):
                output.message(line)
        if late and copies:
            for one in copies:
                output.message(f"{one.what}: {one.text}")
        if late:
            self._printed = now
            self._lines = list(lines)
        self._words = words
