"""Daemon process from start to end: pid file, background, log, signals."""

from __future__ import annotations

import contextlib
import platform
import threading
from collections.abc import Callable, Iterator
from logging import captureWarnings, getLogger
from pathlib import Path

from londiste import __version__
from londiste.daemon import child, logcontext, logging, pidfile
from londiste.daemon.loop import describe
from londiste.daemon.service_manager import ServiceManager
from londiste.daemon.signals import Signals
from londiste.errors import LondisteError

log_of_process = getLogger(__name__)


@contextlib.contextmanager
def process(
    *,
    pid: Path | None = None,
    logfile: Path | None = None,
    log: logging.LogTarget | None = None,
    background: bool = False,
    quiet: bool = False,
    verbose: int = 0,
    stop_timeout: float = 5.0,
    break_off_on_second: bool = False,
    announced: bool = True,
) -> Iterator[Signals]:
    """Context of every daemon; gives the signals for its loop.

    Enter it before opening connections and starting threads: with ``background`` the calling
    process ends in here, and only the daemon continues.  Raises NodeBusy when the pid file
    belongs to a living process, BadOption when the log cannot be set up; nothing runs then.

    log -- where the log goes (``LogTarget.of(settings)``); a file that configures it is read again
        after SIGHUP.
    announced -- the log begins with version and settings file, and ends with the signal.
    """
    target = log or logging.LogTarget(logfile)
    logcontext.of_process(
        program=target.program or None, node=target.node or None, queue=target.queue or None
    )

    def set_up(*, console: bool = not background) -> None:
        # In the background stderr is the logfile already.
        logging.setup(quiet=quiet, verbose=verbose, console=console, target=target)

    if target.config is not None:
        # What is wrong with it is said to whoever starts a daemon.
        set_up(console=True)
    with pidfile.owned(pid, background=background, logfile=target.logfile):
        set_up()
        # Stderr of a daemon in the background, or of a child of another one, is a log.
        logcontext.detach(background or child.die_with_parent())
        if announced:
            _announce(target)
        manager = ServiceManager.of_environment()
        signals = Signals(
            stop_timeout=stop_timeout,
            on_reload=lambda: _again(set_up, target),
            break_off_on_second=break_off_on_second,
            manager=manager,
        )
        with (
            contextlib.closing(signals),
            signals.handled(),
            manager.watched(),
            _everything_in_log(),
        ):
            try:
                yield signals
            finally:
                if announced and signals.received:
                    log_of_process.info("ends: %s received", signals.received)


def _announce(target: logging.LogTarget) -> None:
    """The first line of a daemon's log."""
    log_of_process.info(
        "londiste %s started, %s, Python %s",
        __version__,
        f"settings {target.source}" if target.source else "no settings file",
        platform.python_version(),
    )


@contextlib.contextmanager
def _everything_in_log() -> Iterator[None]:
    """Warnings of Python, and errors that end a thread, are lines of the log."""

    def report(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            name = args.thread.name if args.thread is not None else "?"
            log_of_process.error("thread %s has failed", name, exc_info=args.exc_value)

    before, threading.excepthook = threading.excepthook, report
    captureWarnings(True)
    try:
        yield
    finally:
        captureWarnings(False)
        threading.excepthook = before


def _again(set_up: Callable[[], None], target: logging.LogTarget) -> None:
    """Reloads the logging configuration file; an invalid one changes nothing."""
    if target.config is None:
        return
    try:
        set_up()
    except LondisteError as error:
        log_of_process.error("log_config not reloaded, the old one stays: %s", describe(error))
