"""View of nodes that come into sync: a bar for each copy, then lines that stay current.

On a terminal it is refreshed in place.  Elsewhere a line is printed when its key changes, and
other changes, as those of numbers, are printed every ten seconds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from londiste.cli import output
from londiste.cli.copy.progress_display import DisplayedCopy, entries
from londiste.replicate import state
from londiste.replicate.state import NodeState
from londiste.wording import at_node

#: Seconds between prints of numbers where no terminal is.
_PERIOD = 10.0


class ViewLine(NamedTuple):
    """A line below the bars; where no terminal is, it is printed when its key changes."""

    text: str
    key: object


class SyncView(Protocol):
    """Shows the copies that run, and lines below them."""

    def __call__(self, copies: Sequence[DisplayedCopy], lines: Sequence[ViewLine]) -> None: ...


def shown(
    found: Sequence[NodeState], placed: state.Placing = at_node
) -> tuple[list[DisplayedCopy], list[ViewLine]]:
    """The copies of all nodes, with the name of each if there are several, and a line per node."""
    several = sum(not one.root for one in found) > 1
    copies = [
        replace(one, what=f"{node.name}: {one.what}") if several else one
        for node in found
        for one in entries(node.copies)
    ]
    return copies, [ViewLine(state.line(one, placed=placed), one.key) for one in found]


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


def _frame(copies: Sequence[DisplayedCopy], lines: Sequence[ViewLine]) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    bars = Table.grid(padding=(0, 1))
    for one in copies:
        total = None if one.fraction is None else 1.0
        bar = ProgressBar(total=total, completed=one.fraction or 0.0, width=20)
        bars.add_row(Text(output.cell(one.what)), bar, Text(output.cell(one.brief or one.text)))
    texts = [Text(output.cell(line.text), no_wrap=True, overflow="ellipsis") for line in lines]
    return Group(bars, *texts) if copies else Group(*texts)


class Lines:
    """Messages, each when it is new."""

    def __init__(self) -> None:
        self._keys: set[object] = set()
        self._texts: set[str] = set()
        self._notes: set[tuple[str, str]] = set()
        self._printed = time.monotonic()

    def __call__(self, copies: Sequence[DisplayedCopy], lines: Sequence[ViewLine]) -> None:
        late = time.monotonic() - self._printed >= _PERIOD
        for line in lines:
            if line.key not in self._keys or (late and line.text not in self._texts):
                output.message(line.text)
                self._texts.add(line.text)
        self._keys = {line.key for line in lines}
        for one in copies:
            if late or (one.note and (one.what, one.note) not in self._notes):
                output.message(f"{one.what}: {one.text}")
        self._notes = {(one.what, one.note) for one in copies}
        if late:
            self._printed = time.monotonic()
            self._texts = {line.text for line in lines}
