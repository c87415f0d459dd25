"""Whether a standby is read, and when it is tried again; pure.

usable ── not replayed in time ──> late     one look for each batch, without a wait
usable ── any other reason ──────> away     not asked until ``retry_at``
late, away ── a batch was read, or could be ──> usable
"""

from __future__ import annotations

from dataclasses import dataclass

#: Seconds until a standby that failed is tried again; doubled with each failure.
FIRST_PAUSE = 1.0
#: Seconds without the standby after which ``status`` has a finding.
TOLERATED = 60.0


@dataclass(frozen=True)
class Health:
    """State of a standby; times by a monotonic clock.

    reason -- why it is not read; '' while it is.
    since -- when that began.
    retry_at -- before, it is not asked.
    failures -- since it was last read.
    late -- it only lags: it is asked for each batch, and not waited for.
    """

    reason: str = ""
    since: float = 0.0
    retry_at: float = 0.0
    failures: int = 0
    late: bool = False

    @property
    def usable(self) -> bool:
        """Whether it was read at the last attempt."""
        return not self.reason


def may_ask(health: Health, now: float) -> bool:
    """Whether the standby is asked now."""
    return now >= health.retry_at


def patience(health: Health, wait: float) -> float:
    """Seconds to wait for its replay: none while it lags, so that not each batch waits."""
    return 0.0 if health.late else wait


def failed(health: Health, now: float, reason: str, longest: float) -> Health:
    """After an error, or a refusal; ``longest``: the maximum pause in seconds."""
    pause = min(longest, FIRST_PAUSE * 2 ** min(health.failures, 16))
    since = health.since if health.reason else now
    return Health(reason, since, now + pause, health.failures + 1)


def lags(health: Health, now: float, reason: str) -> Health:
    """After a wait for its replay that was too short."""
    since = health.since if health.reason else now
    return Health(reason, since, late=True)


def answers() -> Health:
    """After it was read, or proved that it can be."""
    return Health()


def finding(health: Health, now: float) -> str:
    """What ``status`` reports: the reason, once it has lasted long enough."""
    return health.reason if health.reason and now - health.since >= TOLERATED else ""
