"""Signals of a daemon: stop, stop now, reload the settings, wake up.

Signal handlers only set flags and write to a pipe; the pipe ends any wait at once.  Other
threads wake the process the same way.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType

from londiste.daemon.service_manager import ServiceManager, waiting

#: A second SIGINT within this many seconds ends the process without finishing anything.
IMPATIENCE = 1.0

EXIT_INTERRUPTED = 130

#: Waits shorter than this many seconds are exact.
_SHORT = 0.02

#: File numbers from here on are not for select.
_SELECT_LIMIT = 1024


class Interrupted(KeyboardInterrupt):
    """The unit of work exceeded the time limit after a stop; raised inside it.

    Derived from KeyboardInterrupt because psycopg then cancels the statement it waits for.
    """


class Signals:
    """Flags of requests, and a wait that ends when one of them changes.

    stopping -- SIGTERM, SIGINT or ``stop()`` has come: finish the unit of work, then end.
    received -- the name of the signal that was the first to ask for that; '' for none.
    on_reload -- what the process itself reads again after SIGHUP; called by ``reload_wanted``.
    stop_timeout -- seconds for that; then Interrupted is raised in the main thread.
    break_off_on_second -- a second stop does not wait for that time.
    manager -- gets the reports of the process.
    """

    def __init__(
        self,
        *,
        stop_timeout: float = 5.0,
        on_reload: Callable[[], None] = lambda: None,
        break_off_on_second: bool = False,
        manager: ServiceManager | None = None,
    ) -> None:
        self.manager = manager or ServiceManager()
        self.stop_timeout = stop_timeout
        self.on_reload = on_reload
        self.break_off_on_second = break_off_on_second
        self.received = ""
        self._stop = threading.Event()
        self._reload = threading.Event()
        self._last_interrupt = -IMPATIENCE
        self._closed = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """Requests a stop, from any thread."""
        self.manager.stopping()
        self._stop.set()
        self.wake()

    def reload_wanted(self) -> bool:
        """Whether SIGHUP has arrived since the last call."""
        wanted = self._reload.is_set()
        self._reload.clear()
        if wanted:
            self.manager.reloading()
            self.on_reload()
        return wanted

    def wake(self) -> None:
        """Ends the present or next wait of the process's loop."""
        if self._closed:
            return
        # A full pipe wakes as well as a fuller one.
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"\0")

    def wait(self, seconds: float, files: Iterable[int] = ()) -> list[int]:
        """Sleeps until a signal, a wake-up, input on one of ``files``, or the time is over.

        Returns those of ``files`` that have input.
        """
        self.manager.ready()
        with waiting(max(0.0, seconds)):
            ready = _readable([self._reader, *files], max(0.0, seconds))
        if self._reader in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._reader, 4096):
                    pass
        return [file for file in ready if file != self._reader]

    @contextlib.contextmanager
    def handled(self) -> Iterator[Signals]:
        """SIGTERM, SIGINT and SIGHUP set the flags inside the with block.

        Only the main thread can receive signals; in another one this does nothing.  A timer that
        the caller has set goes on, with the caller's handler, until a signal asks for the stop.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        handlers = {
            signal.SIGTERM: self._on_stop,
            signal.SIGINT: self._on_stop,
            signal.SIGHUP: self._on_reload,
        }
        before = {number: signal.signal(number, handlers[number]) for number in handlers}
        before[signal.SIGALRM] = signal.getsignal(signal.SIGALRM)
        try:
            yield self
        finally:
            if signal.getsignal(signal.SIGALRM) == self._on_timeout:
                signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def close(self) -> None:
        """Closes the pipe after the last wait; later wake-ups have no effect."""
        if self._closed:
            return
        self._closed = True
        os.close(self._reader)
        os.close(self._writer)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        if not self._stop.is_set():
            self.received = signal.Signals(number).name
        if number == signal.SIGINT:
            now = time.monotonic()
            if now - self._last_interrupt < IMPATIENCE:
                os._exit(EXIT_INTERRUPTED)
            self._last_interrupt = now
        if self._stop.is_set() and self.break_off_on_second:
            self._on_timeout(number, frame)
        if not self._stop.is_set():
            self._set_timer()
        self.stop()

    def _on_reload(self, number: int, frame: FrameType | None) -> None:
        self._reload.set()
        self.wake()

    def _on_timeout(self, number: int, frame: FrameType | None) -> None:
        # Again until it is heard: code may catch it where it cannot stop.
        self._set_timer()
        raise Interrupted

    def _set_timer(self) -> None:
        signal.signal(signal.SIGALRM, self._on_timeout)
        signal.setitimer(signal.ITIMER_REAL, self.stop_timeout)


def stopped(signals: Signals) -> str:
    """That a process was stopped, and by which signal."""
    return f"stopped by {signals.received}" if signals.received else "stopped"


def _readable(files: Sequence[int], seconds: float) -> Sequence[int]:
    """The files with input, as soon as there is one; empty after the timeout."""
    if seconds < _SHORT and max(files) < _SELECT_LIMIT:
        # poll counts in whole milliseconds.
        return select.select(files, (), (), seconds)[0]
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(seconds * 1000)]
