"""Child process that never outlives its parent.

The child inherits the reading end of a pipe whose writing end only the parent has.  However
the parent ends, the pipe ends with it, and a thread of the child ends the child.  On Linux the
kernel is asked to do the same, for a child whose threads are stuck.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from londiste.errors import BadOption

_FILE = "LONDISTE_PARENT_FILE"
_PID = "LONDISTE_PARENT_PID"
_SIGNAL = "LONDISTE_PARENT_SIGNAL"
_PR_SET_PDEATHSIG = 1

EXIT_PARENT_GONE = 75

#: Name of the thread that waits for the end of the parent.
WATCHER = "parent"

_is_child = False


class Child:
    """A running child process."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: int) -> None:
        self._process = process
        self._pipe: int | None = pipe

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        output: IO[bytes] | None = None,
        files: Mapping[str, int] | None = None,
    ) -> Child:
        """Starts a program that calls ``die_with_parent`` first thing.

        files -- open files for it: variable of its environment -> number of the file.
        Its stdin is empty; stdout and stderr are inherited, or go to ``output``.  It is in a
        process group of its own: Ctrl-C reaches the parent only, which then decides.
        """
        reader, writer = os.pipe()
        # The kernel watches the thread that starts the child, and only the main thread is sure
        # to live as long as the process.
        by_kernel = threading.current_thread() is threading.main_thread()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    **(os.environ if env is None else env),
                    _FILE: str(reader),
                    _PID: str(os.getpid()),
                    _SIGNAL: "1" if by_kernel else "",
                    **{name: str(number) for name, number in (files or {}).items()},
                },
                pass_fds=(reader, *(files or {}).values()),
                process_group=0,
            )
        except OSError:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        return cls(process, writer)

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        code = self._process.poll()
        if code is not None:
            self._close()
        return code

    def wait(self, seconds: float | None = None) -> int | None:
        """Waits for its end; the exit code, None when it still runs after that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.exit_code()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal if the process is still running."""
        self._process.send_signal(number)

    def terminate(self, grace: float = 5.0) -> int:
        """SIGTERM, after ``grace`` seconds SIGKILL; the exit code."""
        self.signal(signal.SIGTERM)
        code = self.wait(grace)
        if code is None:
            self._process.kill()
            code = self._process.wait()
        self._close()
        return code

    def _close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def die_with_parent() -> bool:
    """Call this first in a child; no effect in a process that ``start`` did not start.

    Whether this process is a child, also when called again.  Raises BadOption if the environment
    does not contain what ``start`` has written there.
    """
    global _is_child
    file, parent, by_kernel = (os.environ.pop(name, "") for name in (_FILE, _PID, _SIGNAL))
    if not file:
        return _is_child
    try:
        reader, parent_pid = int(file), int(parent or 0)
        os.set_inheritable(reader, False)
    except (ValueError, OverflowError, OSError):
        raise BadOption(
            f"{_FILE}, {_PID}: not what Londiste has written there",
            hint=f"unset {_FILE} {_PID} {_SIGNAL}",
        ) from None
    _is_child = True
    if by_kernel and sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have ended before the kernel was asked.
        if os.getppid() != parent_pid:
            os._exit(EXIT_PARENT_GONE)
    threading.Thread(target=_watch, args=(reader,), name=WATCHER, daemon=True).start()
    return True


def _watch(file: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(file, 1):
            pass
    # No clean-up: the parent had no chance of it either, and everything here can be repeated.
    os._exit(EXIT_PARENT_GONE)
