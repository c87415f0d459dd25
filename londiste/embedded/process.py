"""PostgreSQL programs in a clean environment, their TCP ports, and the watcher that ends them."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from londiste.embedded import watcher
from londiste.embedded.account import Account


def start(
    command: Sequence[str | Path], account: Account, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """A program that runs as ``account``, in a session of its own, with its output in ``log``."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        # A pipe would be inherited by every process of the server and never end.
        stdout=log,
        stderr=log,
        cwd="/",
        env=environment(),
        umask=0o077,
        start_new_session=True,  # Ctrl-C in the terminal is not for the server
        **account.popen_options(),
    )


@functools.cache
def environment() -> dict[str, str]:
    """Removes PG* variables, locales and time zones of the user, which change a server."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "TZ": "UTC",
        "HOME": "/",
    }


def choose_port(wanted: bool | int, remembered: str) -> int | None:
    """A port; None if no port is wanted.

    wanted -- True: the remembered one if it is free, else any free one; a number: that one.
    """
    if wanted is False:
        return None
    if wanted is not True:
        return int(wanted)
    if remembered.isdigit() and _is_free(int(remembered)):
        return int(remembered)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


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
