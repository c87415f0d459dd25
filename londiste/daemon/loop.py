"""Daemon loop: work, sleep, back off after errors, stop.

A unit of work says whether there is more.  After an error the loop waits, longer from time to
time and never exactly as long as its neighbours, and tries the same unit again: positions are
in databases, so nothing is lost and nothing skipped.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import psycopg

from londiste.daemon import logcontext
from londiste.daemon.signals import Interrupted, Signals
from londiste.errors import (
    AccessDenied,
    LondisteError,
    NodeUnreachable,
    NotSecured,
    ServerStarting,
    Superseded,
    from_database,
)
from londiste.wording import bounded, exception_text

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0
#: Seconds between looks at a server that takes no connections yet.
STARTING_PAUSE = 0.5

Work = Callable[[], bool]


def pause(failures: int, *, longest: float = LONGEST_PAUSE, chance: float = 1.0) -> float:
    """Seconds to wait after this number of failures in a row.

    Doubles from 0.1 up to ``longest``; ``chance`` (0 to 1) takes off up to a half, so that many
    workers of one server that came back do not knock at the same moment.
    """
    full = min(longest, FIRST_PAUSE * 2.0 ** min(failures - 1, 40))
    return full * (0.5 + chance / 2)


@dataclass
class Trouble:
    """Failures in a row: number, start, and the last message.

    same -- how many of the last ones in a row have that message.
    """

    failures: int = 0
    same: int = 0
    since: datetime | None = None
    message: str = ""

    def failed(self, error: LondisteError) -> bool:
        """Notes a failure; true when it should be logged.

        The same message is logged at the 1st, 2nd, 4th, 8th … time.
        """
        same = error.message == self.message
        self.failures += 1
        self.same = self.same + 1 if same else 1
        self.since = self.since or datetime.now().astimezone()
        self.message = error.message
        return not same or self.failures & (self.failures - 1) == 0

    def times(self) -> str:
        """For the end of a log line: how often and since when; empty for the first time."""
        if self.failures <= 1 or self.since is None:
            return ""
        return f" ({self.failures} times since {self.since:%Y-%m-%d %H:%M:%S})"

    def over(self) -> Trouble:
        """Resets the failures after a success."""
        if self.failures:
            log.info("recovered after %d failures", self.failures)
        return Trouble()


class Loop:
    """Runs one kind of work until a stop request.

    work -- does one unit; true: there is more, continue at once; false: sleep.
    delay -- seconds of sleep, shortened by signals, wake-ups and input on ``files``.
    longest_pause -- limit in seconds of the pause after errors.
    on_reload -- called between two units after SIGHUP; its errors do not end the loop.
    files -- file numbers to watch while sleeping (a connection that listens).
    recover -- called after an error, before the pause: close what may be broken; may return file
        numbers whose input ends the pause, since somebody has done something about it.
    fatal -- errors that end the loop: they are raised from ``run``.
    """

    def __init__(
        self,
        work: Work,
        *,
        signals: Signals,
        delay: float = 1.0,
        longest_pause: float = LONGEST_PAUSE,
        on_reload: Callable[[], None] | None = None,
        files: Callable[[], Iterable[int]] = tuple,
        recover: Callable[[LondisteError], Iterable[int] | None] | None = None,
        fatal: tuple[type[LondisteError], ...] = (Superseded,),
    ) -> None:
        self.work = work
        self.signals = signals
        self.delay = delay
        self.longest_pause = longest_pause
        self.on_reload = on_reload
        self.files = files
        self.recover = recover
        self.fatal = fatal
        self.trouble = Trouble()

    def run(self) -> None:
        """Runs until a stop request; the current unit is finished or rolled back."""
        try:
            self.signals.manager.ready()
            self.signals.manager.status("running")
            while not self.signals.stopping:
                self._reload()
                self.signals.wait(*self._step())
        except Interrupted:
            log.warning("stopped during a unit of work: it took too long to finish")

    def _step(self) -> tuple[float, Iterable[int]]:
        """One unit; how long to sleep afterwards, and which input ends the sleep."""
        try:
            more = self.work()
            if self.trouble.failures:
                self.signals.manager.status("running")
            self.trouble = self.trouble.over()
            # Input is looked at only when idle: a closed connection would end every pause.
            return (0.0, ()) if more else (self.delay, tuple(self.files()))
        except Exception as error:
            ours = as_londiste(error)
            if isinstance(ours, self.fatal):
                raise ours from error
            if self.trouble.failed(ours):
                report(ours, self.trouble)
            self.signals.manager.status(f"failing: {ours.message}")
            wakers = self.recover(ours) if self.recover is not None else None
            # The pause needs no secrecy, only difference.
            chance = random.random()
            seconds = pause(self.trouble.failures, longest=self.longest_pause, chance=chance)
            return seconds, tuple(wakers or ())

    def _reload(self) -> None:
        if not self.signals.reload_wanted() or self.on_reload is None:
            return
        try:
            self.on_reload()
            log.info("reloaded the settings")
        except LondisteError as error:
            log.error("settings not reloaded, the old ones stay: %s", describe(error))
        self.signals.manager.ready()


def started(
    start: Callable[[], None], signals: Signals, *, longest_pause: float = LONGEST_PAUSE
) -> bool:
    """Starts the work; waits while its server is unreachable.  False: a stop was requested.

    A host may start its daemons before its database, or its network.  A daemon of a service manager
    also waits while the server refuses it: during a change of a password, of a certificate or of
    pg_hba.conf nobody starts the daemon again.  Raises everything else that ``start`` raises.
    """
    trouble = Trouble()
    refused = (AccessDenied, NotSecured) if signals.manager.present else ()
    try:
        while not signals.stopping:
            try:
                start()
            except (NodeUnreachable, *refused) as error:
                what = "a server"
                if not isinstance(error, NodeUnreachable):
                    what = "access"
                    error.say_more("this service waits until the server accepts it")
                if trouble.failed(error):
                    report(error, trouble)
                signals.manager.status(f"waiting for {what}: {error.message}")
                starting = isinstance(error, ServerStarting)
                longest = STARTING_PAUSE if starting else longest_pause
                signals.wait(pause(trouble.failures, longest=longest, chance=random.random()))
            else:
                trouble.over()
                return True
    except Interrupted:
        log.warning("stopped before the server was ready")
    return False


def as_londiste(error: Exception) -> LondisteError:
    """Any exception as a LondisteError; an unexpected one is marked as a defect."""
    if isinstance(error, LondisteError | psycopg.Error):
        return from_database(error)
    if os.environ.get("LONDISTE_TRACEBACK"):
        log.error("unexpected error", exc_info=error)
    return LondisteError(
        f"unexpected {type(error).__name__}: {exception_text(error)}",
        hint="this is a defect; run again with LONDISTE_TRACEBACK=1 and report it",
    )


def report(error: LondisteError, trouble: Trouble | None = None) -> None:
    """Logs an error with detail and hint."""
    since = "" if trouble is None else trouble.times()
    with logcontext.bound(**logcontext.of(error)):
        failures = None if trouble is None else trouble.failures
        log.log(level(error, failures), "%s%s", describe(error), since, extra={"error": error})


def level(error: LondisteError, failures: int | None) -> int:
    """Pure: the level of an error in the log; a warning if a retry may help.

    failures -- of the daemon in a row; None: the error ends it.
    """
    if failures is not None and failures <= error.normal_failures:
        return logging.INFO
    return logging.WARNING if error.retry else logging.ERROR


def describe(error: LondisteError) -> str:
    """Message, detail and hint in one line; long texts are cut."""
    # What code of a table says is no hint of ours (``wording.hint_in``).
    text, detail = (
        bounded(part).replace("; hint: ", ", hint: ") for part in (error.message, error.detail)
    )
    if detail:
        text += f"; detail: {detail}"
    if error.hint:
        text += f"; hint: {error.hint}"
    return text
