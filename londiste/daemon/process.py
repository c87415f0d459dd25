"""A long-running process from start to end: pid file, background, log, signals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from londiste.daemon import logging, pidfile
from londiste.daemon.signals import Signals


@contextlib.contextmanager
def process(
    *,
    pid: Path | None = None,
    logfile: Path | None = None,
    background: bool = False,
    quiet: bool = False,
    verbose: int = 0,
    stop_timeout: float = 5.0,
) -> Iterator[Signals]:
    """What stands around the work of every daemon; gives the signals its loop obeys.

    Enter it before opening connections and starting threads: with ``background`` the calling
    process ends in here, and only the daemon goes on.  Raises NodeBusy when the pid file
    belongs to a living process.
    """
    with pidfile.owned(pid, background=background, logfile=logfile):
        # In the background stderr is the logfile already.
        logging.setup(quiet=quiet, verbose=verbose, logfile=logfile, console=not background)
        signals = Signals(stop_timeout=stop_timeout)
        with signals.handled():
            yield signals
