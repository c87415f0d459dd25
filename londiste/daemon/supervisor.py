"""Supervisor: daemons as children of one process, started again when they fail.

The children end with this process, however it ends (see ``child``).  Their output becomes lines of
one log; a line that has not the form of a log, as that of a crash, becomes a warning with the
daemon's name.  SIGHUP reads the list of daemons again: a new one is
started, one that is gone is stopped, one whose ``fixed`` part differs is restarted, all others get
SIGHUP.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from londiste.daemon import crash, logcontext
from londiste.daemon.child import Child
from londiste.daemon.logging import formatter
from londiste.daemon.loghandlers import File
from londiste.daemon.logline import has_form
from londiste.daemon.loop import describe
from londiste.daemon.service_manager import waiting
from londiste.daemon.signals import Signals
from londiste.errors import LondisteError

log = logging.getLogger(__name__)

#: Seconds before a daemon that has failed is started again; doubled with each failure.
_FIRST_DELAY = 0.5
#: Seconds after which a running daemon counts as healthy.
_HEALTHY = 60.0
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Daemon:
    """A daemon to run.

    rank -- daemons of a lower rank are started earlier and stopped later.
    fixed -- what the running process cannot change.
    """

    name: str
    argv: tuple[str, ...]
    rank: int = 0
    fixed: tuple[object, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Changes:
    """What a new list of daemons means for the running ones."""

    stop: tuple[Daemon, ...]
    start: tuple[Daemon, ...]
    reload: tuple[Daemon, ...]


def changes(before: Iterable[Daemon], after: Iterable[Daemon]) -> Changes:
    """Compares two lists of daemons; a restart is a stop and a start.  Pure."""
    old, new = {d.name: d for d in before}, {d.name: d for d in after}
    same = [name for name in new if name in old and old[name] == new[name]]
    return Changes(
        tuple(sorted((d for n, d in old.items() if n not in same), key=lambda d: -d.rank)),
        tuple(sorted((d for n, d in new.items() if n not in same), key=lambda d: d.rank)),
        tuple(new[name] for name in same),
    )


def delay(failures: int, longest: float) -> float:
    """Seconds before the next start after this many failures in a row.  Pure."""
    return min(longest, _FIRST_DELAY * 2.0 ** min(failures - 1, 20))


def lines(logfile: Path | None, *, console: bool) -> list[logging.Handler]:
    """Handlers for lines that daemons have formatted: the terminal, and a file.

    The file is opened again when something has moved it away, as that of the own log.
    """
    found: list[logging.Handler] = []
    if logfile is not None:
        found.append(File(logfile, encoding="utf-8"))
    if console or logfile is None:
        found.append(logging.StreamHandler(sys.stderr))
    return found


class _Running:
    """One daemon and its present process."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.child: Child | None = None
        self.failures = 0
        self.failed = 0
        self.started = 0.0
        self.due = 0.0
        self.reader: threading.Thread | None = None


class Supervisor:
    """Runs daemons until the process is stopped.

    read -- the daemons; called at the start and after SIGHUP.
    stop_timeout -- seconds for a daemon to stop; after that it is killed.
    longest -- maximum seconds before a failed daemon is started again.
    output -- where the lines of the daemons go (``lines``).
    form -- of a line: text or json.
    files -- open files for a daemon, by its name: variable -> number.
    """

    def __init__(
        self,
        read: Callable[[], Sequence[Daemon]],
        signals: Signals,
        *,
        stop_timeout: float,
        longest: float,
        output: Sequence[logging.Handler],
        form: str = "text",
        files: Callable[[str], Mapping[str, int]] = lambda name: {},
    ) -> None:
        self._read = read
        self._signals = signals
        self._stop_timeout = stop_timeout
        self._longest = longest
        self._output = output
        self._formatter = formatter(form)
        self._files = files
        self._running: dict[str, _Running] = {}

    def run(self) -> None:
        """Runs the daemons; returns when all have stopped."""
        try:
            for daemon in sorted(self._read(), key=lambda d: d.rank):
                self._add(daemon)
            while not self._signals.stopping:
                if self._signals.reload_wanted():
                    self._reload()
                self._look()
                self._signals.wait(_POLL_SECONDS)
        finally:
            self._stop([one.daemon for one in self._running.values()])

    def health(self) -> dict[str, tuple[bool, int]]:
        """Whether the process of each daemon runs, and how often it has failed."""
        return {
            name: (one.child is not None, one.failed) for name, one in list(self._running.items())
        }

    def _add(self, daemon: Daemon) -> None:
        self._running[daemon.name] = _Running(daemon)
        self._start(self._running[daemon.name])

    def _start(self, one: _Running) -> None:
        one.started = time.monotonic()
        try:
            one.child, source = self._child(one.daemon)
        except OSError as error:
            # No process or descriptor is free, or the program is being replaced.
            self._failed(one, f"cannot start: {error.strerror or error}")
            return
        one.reader = threading.Thread(
            target=self._forward, args=(one.daemon.name, source), daemon=True
        )
        try:
            one.reader.start()
        except RuntimeError as error:
            # No thread is free either.
            source.close()
            one.child.terminate(0)
            one.child = one.reader = None
            self._failed(one, f"cannot start: {error}")
            return
        log.info("%s started with process id %d", one.daemon.name, one.child.pid)
        crash.point("run.started")

    def _child(self, daemon: Daemon) -> tuple[Child, BinaryIO]:
        """A new process and its output.  Raises OSError."""
        reader, writer = os.pipe()
        try:
            with os.fdopen(writer, "wb") as output:
                child = Child.start(daemon.argv, output=output, files=self._files(daemon.name))
                return child, os.fdopen(reader, "rb")
        except OSError:
            os.close(reader)
            raise

    def _failed(self, one: _Running, what: str) -> None:
        """Counts a failure, and plans the next start."""
        now = time.monotonic()
        healthy = now - one.started >= _HEALTHY
        one.failures = 1 if healthy else one.failures + 1
        one.failed += 1
        one.child = None
        wait = delay(one.failures, self._longest)
        one.due = now + wait
        log.warning("%s %s; it is started again in %g s", one.daemon.name, what, wait)

    def _look(self) -> None:
        """Notices ended daemons, and starts those that are due again."""
        for one in self._running.values():
            code = None if one.child is None else one.child.exit_code()
            if code is not None:
                self._failed(one, f"ended with exit code {code}")
            if one.child is None and time.monotonic() >= one.due:
                self._start(one)
        ended = [one.daemon.name for one in self._running.values() if one.child is None]
        text = f"{len(self._running)} daemons"
        if ended:
            text += f", not running: {', '.join(ended)}"
        self._signals.manager.status(text)

    def _reload(self) -> None:
        try:
            after = self._read()
        except LondisteError as error:
            log.error("settings not reloaded, the old ones stay: %s", describe(error))
            return
        found = changes([one.daemon for one in self._running.values()], after)
        self._stop(found.stop)
        for daemon in found.start:
            self._add(daemon)
        for daemon in found.reload:
            child = self._running[daemon.name].child
            if child is not None:
                child.signal(signal.SIGHUP)
        log.info(
            "reloaded the settings: %d stopped, %d started, %d reloaded",
            len(found.stop),
            len(found.start),
            len(found.reload),
        )

    def _stop(self, daemons: Sequence[Daemon]) -> None:
        """Stops daemons, those of one rank in parallel, the highest rank first."""
        for rank in sorted({daemon.rank for daemon in daemons}, reverse=True):
            group = [self._running.pop(d.name) for d in daemons if d.rank == rank]
            living = [one for one in group if one.child is not None]
            for one in living:
                assert one.child is not None
                one.child.signal(signal.SIGTERM)
            deadline = time.monotonic() + self._stop_timeout
            for one in living:
                assert one.child is not None
                with waiting(self._stop_timeout):
                    code = one.child.wait(max(0.0, deadline - time.monotonic()))
                if code is None:
                    log.warning("%s does not stop and is killed", one.daemon.name)
                    code = one.child.terminate(0)
                if one.reader is not None:
                    one.reader.join(1.0)
                log.info("%s stopped with exit code %d", one.daemon.name, code)

    def _formed(self, name: str, text: str) -> str:
        """A line of a daemon that did not come from its log, as a line of a log."""
        record = logging.LogRecord(log.name, logging.WARNING, "", 0, f"{name}: {text}", None, None)
        record.daemon = name
        logcontext.Fields().filter(record)
        return self._formatter.format(record)

    def _forward(self, name: str, source: BinaryIO) -> None:
        """Writes the lines of a daemon into the log; ends with the daemon."""
        with source, contextlib.suppress(OSError, ValueError):
            for line in source:
                text = line.decode("utf-8", "replace").rstrip()
                if not text:
                    continue
                if not has_form(text):
                    text = self._formed(name, text)
                for handler in self._output:
                    handler.handle(logging.makeLogRecord({"msg": text}))
        self._signals.wake()
