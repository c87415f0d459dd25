"""What replication promises, how often each promise was checked, and what broke it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

PROMISES = {
    "once": "Each committed transaction arrives exactly once; a rolled-back one never arrives.",
    "whole": "A reader of the target sees whole transactions only.",
    "order": "A reader of the target sees what the source had at one tick.",
    "position": "The position of the target never moves back.",
    "rows": "After each step all tables have the same rows on both sides.",
    "recovery": "After each fault replication catches up without an operator.",
    "commands": "Each command succeeds, or fails with a clear error and succeeds when repeated.",
    "compare": "compare finds rows that differ, and none where there is no difference.",
    "application": "Replication fails or blocks no statement of the application.",
    "outputs": "No log contains a password, a value of a row or a traceback.",
    "removed": "Everything is removed at the end.",
}


@dataclass(frozen=True)
class Breach:
    """A broken promise: what happened, where, and what to do next."""

    promise: str
    what: str
    where: str
    next: str


@dataclass
class Book:
    """Checks and breaches of one test, from several threads.

    report -- called for each breach.
    """

    report: Callable[[Breach], None]
    checks: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PROMISES, 0))
    breaches: list[Breach] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def checked(self, *promises: str) -> None:
        """Counts a check of each of these promises."""
        with self._lock:
            for promise in promises:
                self.checks[promise] += 1

    def broke(self, promise: str, what: str, where: str, next_step: str) -> None:
        """Records a breach; the first of each promise only, as others follow from it."""
        with self._lock:
            if any(one.promise == promise for one in self.breaches):
                return
            breach = Breach(promise, what, where, next_step)
            self.breaches.append(breach)
        self.report(breach)

    def result(self, promise: str) -> str:
        """``held``, ``broken`` or ``not checked``."""
        if any(one.promise == promise for one in self.breaches):
            return "broken"
        return "held" if self.checks[promise] else "not checked"
