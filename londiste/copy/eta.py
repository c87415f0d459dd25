"""Remaining time of a copy, estimated from its finished chunks.

Pure: times of finished chunks in, seconds out.  The chunks of a table are about equally large,
so the seconds of the finished ones are a sample of what the others will take.  The sum of the
``m`` chunks that are left lies, with the confidence asked for, within

    m * mean  +-  t * s * sqrt(m * (1 + m / n))

where ``n`` chunks are finished, ``mean`` and ``s`` are mean and standard deviation of their
seconds and ``t`` is the quantile of Student's distribution with ``n - 1`` degrees of freedom: the
prediction interval for the mean of ``m`` future observations of a normal distribution (Hahn and
Meeker, *Statistical Intervals*, 1991, chapter 4), times ``m``.  Under the root, ``m`` is for the
spread of the chunks to come and ``m / n`` for what is not known of the mean.
It counts on the servers going on as before: a throttle that changes, another load, and values
that are larger at the end of the table are outside of the band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

#: How often the truth lies in the band, if the rest goes like what was.
CONFIDENCE = 0.9


@dataclass(frozen=True)
class ChunkTimes:
    """The finished chunks of a table.

    count -- how many; seconds -- of all together; deviation -- standard deviation of one's
        seconds, None for fewer than two; bytes -- of all together.
    """

    count: int
    bytes: int
    seconds: float
    deviation: float | None

    @property
    def rate(self) -> float | None:
        """Bytes per second of one task; None when nothing is known."""
        return self.bytes / self.seconds if self.seconds > 0 else None


@dataclass(frozen=True)
class Remaining:
    """Seconds that are left, and between which seconds; no band while too little is known."""

    seconds: float
    low: float | None = None
    high: float | None = None


def remaining(done: ChunkTimes, left: float, running: int) -> Remaining | None:
    """The time of the chunks that are left.

    left -- chunks, those in flight as the fraction that is still to come.
    running -- tasks at work now; taken for the number from now on.

    None when no chunk is finished: then only what is in flight can tell.
    """
    if done.count < 1:
        return None
    tasks = max(1, running)
    mean = done.seconds / done.count
    total = left * mean
    if done.count < 2 or done.deviation is None:
        return Remaining(total / tasks)
    width = (
        student(0.5 + CONFIDENCE / 2, done.count - 1)
        * done.deviation
        * math.sqrt(left * (1 + left / done.count))
    )
    return Remaining(total / tasks, max(0.0, total - width) / tasks, (total + width) / tasks)


def student(p: float, freedom: int) -> float:
    """Quantile of Student's t for 0.5 <= p < 1.

    Exact for one and two degrees of freedom, otherwise the expansion 26.7.5 of Abramowitz and
    Stegun, *Handbook of Mathematical Functions*; for p = 0.95 better than 1 %.
    """
    if freedom == 1:
        return math.tan(math.pi * (p - 0.5))
    if freedom == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    x = NormalDist().inv_cdf(p)
    terms = (
        x,
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return math.fsum(term / math.pow(freedom, power) for power, term in enumerate(terms))
