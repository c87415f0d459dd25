"""Service manager: a daemon reports its state to systemd by the protocol of sd_notify.

Without ``NOTIFY_SOCKET`` in the environment nothing is sent.  Variables of the protocol are removed
from the environment: children are not the service.

The watchdog of systemd gets a sign of life as long as the watched threads are alive: each waits for
a server or in its loop, or did so in the last seconds.  A thread that spins, or hangs in a lock, is
not alive.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Iterator

from londiste.db import connection

log = logging.getLogger(__name__)

#: Characters of a status line.
_STATUS = 500


class _Mark:
    """at -- the last sign of life.  until -- silence is allowed up to this moment (monotonic)."""

    __slots__ = ("at", "name", "until")

    def __init__(self, name: str) -> None:
        self.name = name
        self.at = time.monotonic()
        self.until = -math.inf


_marks: dict[int, _Mark] = {}


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """This thread must show signs of life inside the with block."""
    ident = threading.get_ident()
    before = _marks.get(ident)
    _marks[ident] = _Mark(threading.current_thread().name)
    try:
        yield
    finally:
        if before is None:
            _marks.pop(ident, None)
        else:
            _marks[ident] = before


@contextlib.contextmanager
def waiting(seconds: float = math.inf) -> Iterator[None]:
    """The thread waits on purpose, for this time at most."""
    mark = _marks.get(threading.get_ident())
    if mark is None:
        yield
        return
    before, mark.until = mark.until, time.monotonic() + seconds
    try:
        yield
    finally:
        mark.until = before
        mark.at = time.monotonic()


def silent(limit: float) -> list[str]:
    """Names of watched threads without a sign of life for more than ``limit`` seconds."""
    now = time.monotonic()
    return [mark.name for mark in list(_marks.values()) if now - max(mark.at, mark.until) > limit]


class ServiceManager:
    """Reports of one process.

    address -- of the socket; '' without a service manager.
    watchdog -- seconds after which a silent process is restarted; 0: never.
    """

    def __init__(self, address: str = "", watchdog: float = 0.0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog = watchdog
        self._status = ""
        self._is_ready = self._is_stopping = self._is_reloading = False

    @classmethod
    def of_environment(cls) -> ServiceManager:
        """The service manager that has started this process, if there is one."""
        address, usec, pid = (
            os.environ.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        )
        ours = not pid or pid == str(os.getpid())
        seconds = int(usec) / 1e6 if ours and usec.isdecimal() else 0.0
        return cls(address, seconds if address else 0.0)

    @property
    def present(self) -> bool:
        """Whether a service manager has started this process."""
        return bool(self._address)

    def ready(self) -> None:
        """The process has started, or has read its settings again."""
        if not self._is_ready or self._is_reloading:
            self._is_ready, self._is_reloading = True, False
            self._send("READY=1")

    def reloading(self) -> None:
        """The process reads its settings again; ``ready`` ends that."""
        self._is_reloading = True
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The process ends."""
        if not self._is_stopping:
            self._is_stopping = True
            self._send("STOPPING=1", "STATUS=stopping")

    def status(self, text: str) -> None:
        """One line for ``systemctl status``, if it has changed."""
        line = " ".join(text.split())[:_STATUS]
        if line != self._status and not self._is_stopping:
            self._status = line
            self._send(f"STATUS={line}")

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Keeps the watchdog quiet inside the with block, as long as the threads are alive."""
        with watched():
            if not self.watchdog:
                yield
                return
            end = threading.Event()
            thread = threading.Thread(target=self._watch, args=(end,), name="watchdog", daemon=True)
            connection.around_exchange = waiting
            thread.start()
            try:
                yield
            finally:
                end.set()
                connection.around_exchange = contextlib.nullcontext

    def _watch(self, end: threading.Event) -> None:
        said = False
        while True:
            found = silent(self.watchdog / 2)
            if not found:
                self._send("WATCHDOG=1")
            elif not said:
                log.error("thread %s shows no sign of life", ", ".join(found))
            said = bool(found)
            if end.wait(self.watchdog / 4):
                return

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # A service manager that is restarting must not stop the work.
        with (
            contextlib.suppress(OSError, ValueError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
        ):
            sock.setblocking(False)
            sock.sendto("\n".join(lines).encode("utf-8", "replace"), self._address)
