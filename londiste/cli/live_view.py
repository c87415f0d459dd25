"""Live display that is refreshed in place on a terminal, and printed repeatedly elsewhere."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator

import click


def again_and_again(seconds: float, look: Callable[[], list[str] | None]) -> None:
    """Calls ``look`` at an interval in seconds and shows its lines, until q or Ctrl-C.

    look -- returns None when it has printed its result: then nothing is shown in place.
    """
    with contextlib.suppress(KeyboardInterrupt):
        first = look()
        if first is not None and sys.stdout.isatty():
            _in_place(seconds, first, look)
            return
        lines = first
        while True:
            if lines is not None:
                click.echo("\n".join(lines) + "\n")
            sys.stdout.flush()
            time.sleep(seconds)
            lines = look()


def _in_place(seconds: float, first: list[str], look: Callable[[], list[str] | None]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def shown(lines: list[str]) -> Text:
        return Text.from_ansi("\n".join([*lines, "", "q quits"]), no_wrap=True, overflow="crop")

    with _keys(), Live(shown(first), console=Console(), screen=True, auto_refresh=False) as live:
        live.refresh()
        while not _quit_within(seconds):
            live.update(shown(look() or []), refresh=True)


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Keys come at once, without Enter."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _quit_within(seconds: float) -> bool:
    """Waits; True as soon as q is typed."""
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if not sys.stdin.isatty():
            time.sleep(left)
        elif select.select([sys.stdin], [], [], left)[0]:
            # Not through the buffer of the text layer: it would keep what select() cannot see.
            typed = os.read(sys.stdin.fileno(), 64)
            if not typed or b"q" in typed.lower():
                return True
