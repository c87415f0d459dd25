"""Token bucket: the wait that keeps a flow of bytes below a rate.

Pure: the time is an argument.  Bytes are taken when they have gone, so the bucket can owe: the wait
is as long as paying back takes.  What was saved up in idle time is bounded, so that after a pause
there is no flood.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Seconds of the rate that can be saved up.
BURST = 0.25


@dataclass
class Bucket:
    """rate -- bytes per second; None: no limit."""

    rate: float | None = None
    _tokens: float = 0.0
    _at: float = 0.0

    def set_rate(self, rate: float | None, now: float) -> None:
        """Another rate from now on; debts stay, what was saved up is cut to the new burst."""
        if rate == self.rate:
            return
        if self.rate is None:
            self._tokens = 0.0
        self._fill(now)
        self.rate = rate

    def take(self, count: int, now: float) -> None:
        """Counts bytes that were sent."""
        self._fill(now)
        if self.rate is not None:
            self._tokens -= count

    def wait(self, now: float) -> float:
        """Seconds until more may be sent; 0 for at once."""
        self._fill(now)
        if self.rate is None or self._tokens >= 0:
            return 0.0
        return -self._tokens / self.rate

    def _fill(self, now: float) -> None:
        if self.rate is not None:
            gained = max(0.0, now - self._at) * self.rate
            self._tokens = min(self._tokens + gained, self.rate * BURST)
        self._at = now
