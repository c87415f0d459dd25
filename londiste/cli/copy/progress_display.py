"""Progress of running copies: JSON documents, bars on a terminal, or lines in a log.

All show the same: ``entries`` turns the status into one entry per table, and per index build.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from londiste.cli import output
from londiste.copy import progress
from londiste.copy.status import TableStatus, collect
from londiste.db.connection import session
from londiste.errors import LondisteError
from londiste.settings import WorkerSettings

#: Seconds between looks at the progress, and between lines of it where no terminal is.
_POLL_SECONDS = 0.5
_LINE = 10.0


@dataclass(frozen=True)
class DisplayedCopy:
    """One line of progress: what, how far (0 to 1, None when unknown), and in words.

    note -- what it waits for; where no terminal is, it is printed at once.
    brief -- the words that fit beside a bar; '' for all.
    """

    what: str
    fraction: float | None
    text: str
    note: str = ""
    brief: str = ""


def entries(items: Sequence[TableStatus]) -> list[DisplayedCopy]:
    """The current activity; nothing for tables that wait for their turn."""
    result = []
    for item in items:
        if item.load is not None and item.step in ("", "load"):
            text = progress.line(item.load).removeprefix(f"{item.table}: ")
            if item.waits:
                text = f"{item.waits}; {text}"
            result.append(
                DisplayedCopy(
                    item.table,
                    item.load.fraction,
                    text,
                    note=item.waits,
                    brief=item.waits or progress.brief(item.load),
                )
            )
        for build in item.builds:
            total = build.blocks_total
            result.append(
                DisplayedCopy(
                    f"{item.table}: index {build.index}".rstrip(),
                    min(1.0, build.blocks_done / total) if total else None,
                    build.phase + (f", block {build.blocks_done} of {total}" if total else ""),
                )
            )
        if item.analyze is not None:
            phase, done, total = item.analyze
            result.append(
                DisplayedCopy(
                    f"{item.table}: analyze", min(1.0, done / total) if total else None, phase
                )
            )
        if item.step in ("partitions", "states", "catch-up", "hand-over"):
            seconds = f"{item.seconds or 0:.0f} s so far"
            behind = item.behind
            lag = f", {behind.ticks} ticks, {behind.events or 0} events behind" if behind else ""
            result.append(DisplayedCopy(f"{item.table}: {item.step}", None, seconds + lag))
    return result


@contextlib.contextmanager
def shown(settings: WorkerSettings, *, as_json: bool, bars: bool) -> Iterator[None]:
    """Shows the progress during the block."""
    if as_json:
        show: Any = _Json()
    elif bars and output.on_terminal():
        show = _Bars()
    else:
        show = _Lines()
    end = threading.Event()
    thread = threading.Thread(target=_look, args=(settings, show, end), daemon=True)
    with show:
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join(2)


def _look(settings: WorkerSettings, show: Any, end: threading.Event) -> None:
    while not end.wait(show.period):
        # A display must not fail: the copies themselves report errors.
        with contextlib.suppress(LondisteError, psycopg.Error):
            with session(settings.db, name="londiste copy progress", autocommit=True) as conn:
                while True:
                    found = collect(
                        conn,
                        settings.queue_name,
                        settings.consumer,
                        remote_extra=settings.remote_extra_connstr,
                        lag=show.lag,
                    )
                    show(found.tables)
                    if end.wait(show.period):
                        return


class _Json(contextlib.AbstractContextManager["_Json", None]):
    period = _POLL_SECONDS
    lag = False

    def __exit__(self, *exc: object) -> None:
        return

    def __call__(self, items: list[TableStatus]) -> None:
        for item in items:
            if item.load is not None:
                output.as_json(item.load)


class _Lines(contextlib.AbstractContextManager["_Lines", None]):
    period = _LINE
    lag = True

    def __exit__(self, *exc: object) -> None:
        return

    def __call__(self, items: list[TableStatus]) -> None:
        for entry in entries(items):
            output.message(f"{entry.what}: {entry.text}")


class _Bars:
    """One bar per entry, on stderr; a finished entry is removed."""

    period = _POLL_SECONDS
    #: That would be a session on the provider twice a second.
    lag = False

    def __init__(self) -> None:
        # Imported here: only a terminal needs it.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[words]}", markup=False),
            console=Console(stderr=True),
        )
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def __call__(self, items: list[TableStatus]) -> None:
        now = {entry.what: entry for entry in entries(items)}
        for what, entry in now.items():
            if what not in self._bars:
                self._bars[what] = self._progress.add_task(output.cell(what), total=None, words="")
            self._progress.update(
                self._bars[what],
                completed=entry.fraction or 0.0,
                total=None if entry.fraction is None else 1.0,
                words=output.cell(entry.text),
            )
        for what in self._bars.keys() - now.keys():
            self._progress.remove_task(self._bars.pop(what))
