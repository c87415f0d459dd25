"""Parent side of the watcher, a process that ends a server when its parent dies."""

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

        directories -- removed when this process has ended; ``home``, too, if it is empty then.
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
        """Registers a process that must end with this one."""
        self._tell(f"+{pid}")

    def ended(self, pid: int) -> None:
        """Unregisters a process that has ended; its id may be reused."""
        self._tell(f"-{pid}")

    def keep(self) -> None:
        """Ends the watch without any action."""
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
