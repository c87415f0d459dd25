"""A copy of this process that goes on with something else, without the start of a new program.

A new program of ours imports, for half a second of processor time, what this process has already.
The copy shares its memory until one of both writes to it.  What the copy must not have is taken
from it before it does anything: sessions with servers (ending one would end it for both), locked
files, pipes that wake us.  Only a process with one thread is copied: locks that other threads hold
would stay locked for ever.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import ctypes
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

#: Seconds between looks whether the copy has ended, where the kernel does not say it.
_POLL_SECONDS = 0.02

#: Name of the thread that waits for the end of the parent (``child.die_with_parent``).
WATCHER = "parent"

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)


def may_fork() -> bool:
    """Whether this process can be copied now: on Linux, by the only thread it has.

    A thread that reads from a pipe all its life (``WATCHER``) holds no lock and does not count.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return False
    watching = sum(thread.name == WATCHER for thread in threading.enumerate())
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1 + watching
    except OSError:
        return False


class Forked:
    """The copy, with what ``subprocess.Popen`` has of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # Somebody else has waited for it.
                self._code = 0
            else:
                if pid:
                    self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code.  Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                assert timeout is not None
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(_POLL_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal if it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def fork(
    main: Callable[[], int],
    argv: Sequence[str],
    *,
    keep: Sequence[int],
    environment: dict[str, str],
) -> Forked:
    """Starts a copy that calls ``main`` and ends with its result as exit code.

    argv -- what ``ps`` shows of it.
    keep -- files it keeps; of all others only standard output and error stay.
    environment -- added to its environment.

    To be called when ``may_fork``.  The copy has a process group of its own.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    with _without_signals():
        pid = os.fork()
        if pid == 0:
            _go_on(main, argv, keep, environment)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
    return Forked(pid)


@contextlib.contextmanager
def _without_signals() -> Iterator[None]:
    """No signal is handled by the copy as if it were this process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _go_on(
    main: Callable[[], int], argv: Sequence[str], keep: Sequence[int], environment: dict[str, str]
) -> NoReturn:
    code = 70
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        _let_go(frozenset(keep))
        # What belongs to the other process is neither looked at nor ended here.
        gc.freeze()
        atexit._clear()
        os.environ.update(environment)
        for number in _HANDLED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        with contextlib.suppress(OSError, ValueError, IndexError):
            _show(argv)
        code = contextvars.Context().run(main)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            atexit._run_exitfuncs()
            logging.shutdown()
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code & 0xFF)


def _let_go(keep: frozenset[int]) -> None:
    """Every file becomes the empty one: numbers that objects of the other process know stay taken.

    Should such an object end its session after all, it says so to nobody.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if number == 0:
            os.dup2(null, number)
        elif number not in {1, 2, null} and number not in keep:
            with contextlib.suppress(OSError):
                # The directory that was just listed is not open any more.
                os.fstat(number)
                os.dup2(null, number, inheritable=False)
    os.close(null)


def _show(argv: Sequence[str]) -> None:
    """Writes another command line over that of the program, if there is room."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"\0".join(map(os.fsencode, argv)) + b"\0"
    if start and len(text) <= end - start:
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
