"""This side of the watcher: a process that ends a server when this process is gone."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from londiste.embedded import watcher


class Watch:
    """A running watcher.  It acts when its input ends without ``keep``."""

    def __init__(self, data: Path, home: Path | None, directories: Iterable[Path]) -> None:
        """Watches the server on ``data``.

        directories -- removed when this process is gone; ``home``, too, if it is empty then.
        """
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", watcher.__file__),
                *(data, home or "", *directories),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # it survives what ends this process's group
        )

    def started(self, pid: int) -> None:
        """A process that has to go when this one is gone."""
        self._tell(f"+{pid}")

    def ended(self, pid: int) -> None:
        """It has ended; somebody else may get its number."""
        self._tell(f"-{pid}")

    def keep(self) -> None:
        """Ends the watch and leaves everything as it is."""
        self._tell("keep")
        self.end()

    def end(self) -> None:
        """Ends the watch; returns when the watcher has ended."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.communicate(timeout=20)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
