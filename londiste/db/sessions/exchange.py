"""Limits of one exchange with a server: a statement and its answer.

A server that sends something need not be answering.  Notices, notifications and reports of
parameters may come without end, and an answer may grow without end.
"""

from __future__ import annotations

import contextlib
import sys

from psycopg.pq.abc import PGconn, PGresult
from psycopg.pq.misc import PGnotify

#: Bytes of an answer that has to be complete in a given time.
LARGEST_ANSWER = 256 << 20
#: Notifications that are kept until they are read; each of them only ends a wait early.
KEPT_NOTIFICATIONS = 10_000
#: Bytes of a notification: PostgreSQL allows fewer than 8,000, with larger blocks four times that.
LONGEST_NOTIFICATION = 32_768
#: Reads of an answer whose bytes are not counted, and what libpq takes from the system in one.
_UNCOUNTED, _READ = 32, 16_384


class Exchange:
    """Whether an exchange takes too long, by what has come when.  Pure: it has no clock.

    whole -- the answer must be complete after ``seconds``, and its size is limited; otherwise only
        a pause in it must not be longer.
    heard -- something has come that was no part of the answer; where it is ``whole``, anything.
    """

    # Of the class, because most exchanges need no more than the next lines.
    heard = _reported = False
    _reads = _bytes = 0

    def __init__(self, now: float, seconds: float, *, whole: bool) -> None:
        self._seconds, self._whole = seconds, whole
        self._began, self._deadline = now, now + seconds

    def got(self, now: float, *, answer: bool) -> None:
        """Something has come; answer -- it may be a part of the answer."""
        self.heard = self._whole or not answer
        if not self.heard:
            self.wait_again(now)

    def wait_again(self, now: float) -> None:
        """The time counts from now on."""
        self._deadline = now + self._seconds

    def is_counted(self) -> bool:
        """Whether the next read of a whole answer is to be counted; most need few reads."""
        self._reads += 1
        return self._reads > _UNCOUNTED

    def count(self, before: int, after: int) -> None:
        """Bytes that waited before and after a read, during which others have come."""
        self._bytes += max(min(before, _READ), before - after)

    def is_over(self, now: float) -> bool:
        """Whether the time is up, or the answer too large."""
        return now >= self._deadline or self._bytes > LARGEST_ANSWER

    def is_late(self, now: float) -> bool:
        """Whether the answer has been arriving for longer than a pause may last; true once."""
        if self._whole or self._reported or now - self._began < self._seconds:
            return False
        self._reported = True
        return True

    def why(self) -> str:
        """Why the server was given up."""
        if self._bytes > LARGEST_ANSWER:
            return f"the answer of the server is larger than {LARGEST_ANSWER >> 20} MB"
        return no_answer(self._seconds, heard=self.heard)


def no_answer(seconds: float, *, heard: bool) -> str:
    """Pure: why a server was given up; heard -- it has sent something, but no whole answer."""
    what = "sent no complete answer" if heard else "not responded"
    return f"the server has {what} for {seconds:g} s"


class Aside:
    """Messages of a session that are no part of an answer: notices and notifications.

    count -- of those that have come.
    """

    def __init__(self, pgconn: PGconn) -> None:
        self.count = 0
        self._notice, self._notify = pgconn.notice_handler, pgconn.notify_handler
        pgconn.notice_handler, pgconn.notify_handler = self._noticed, self._notified

    def read(self, pgconn: PGconn) -> None:
        """Reads the notifications that libpq keeps until the end of the answer."""
        while (notification := pgconn.notifies()) is not None:
            self._notified(notification)

    def _noticed(self, notice: PGresult) -> None:
        self.count += 1
        if self._notice is not None:
            self._notice(notice)

    def _notified(self, notification: PGnotify) -> None:
        self.count += 1
        if self._notify is not None and len(notification.extra) <= LONGEST_NOTIFICATION:
            self._notify(notification)


def unread(file: int) -> int:
    """Bytes that have come on a socket and wait to be read, where the system tells."""
    return _queued(file, "FIONREAD")


def unsent(file: int) -> int:
    """Bytes that the network has not taken yet, where the system tells."""
    return _queued(file, "TIOCOUTQ")


def _queued(file: int, request: str) -> int:
    with contextlib.suppress(ImportError, OSError):
        import fcntl
        import termios

        return int.from_bytes(fcntl.ioctl(file, getattr(termios, request), bytes(4)), sys.byteorder)
    return 0
