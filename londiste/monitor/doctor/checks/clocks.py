"""Checks of the clocks of both servers."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.monitor.doctor.situation import Situation, warning
from londiste.monitor.queues.model import Finding

FINDINGS = {"clock": "clocks of the servers that differ"}


def check(pair: Situation) -> Iterator[Finding]:
    """A finding if the clocks differ by more than the measurement can be wrong."""
    if pair.target is None:
        return
    one, other = pair.source.more, pair.target.more
    apart = other.clock - one.clock
    if abs(apart) - one.spread - other.spread <= pair.limits.clock:
        return
    wrong = pair.names[1] if abs(other.clock) > abs(one.clock) else pair.names[0]
    yield warning(
        "clock",
        f"the clock of the {pair.names[1]} server is {abs(apart):.1f} s"
        f" {'ahead of' if apart > 0 else 'behind'} the {pair.names[0]} server's",
        "lag, delayed events and conflict times are computed from both clocks",
        f"synchronise the clock of the {wrong} server: timedatectl set-ntp true",
        side=wrong,
    )
