"""The exponent with which a cost grows: a fit of ``fixed + factor * size ** exponent``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: The cost of the largest size is at most this times that of the smallest: no growth.
_NOISE = 1.25
#: Of exponents that explain the costs nearly as well the lower one is taken: a last size that is a
#: little dearer fits any high exponent.
_SIMPLER = 0.001
_STEPS = [step / 100 for step in range(5, 301)]


@dataclass(frozen=True)
class Growth:
    """What a cost is made of; ``exponent`` is 0 if it does not grow."""

    fixed: float
    factor: float
    exponent: float

    def at(self, size: float) -> float:
        """The cost that the fit gives for a size."""
        return float(self.fixed + self.factor * size**self.exponent)


def fit(points: Sequence[tuple[float, float]]) -> Growth:
    """Fits costs at several sizes, by the least sum of squared relative errors.

    A program has a fixed cost to start, which a slope between logarithms would take for slow
    growth.

    points -- sizes and their costs, three sizes at least for a meaning of the exponent.
    """
    sizes = [size for size, _ in points]
    costs = [max(cost, 1e-9) for _, cost in points]
    first, last = costs[sizes.index(min(sizes))], costs[sizes.index(max(sizes))]
    if last <= first * _NOISE:
        return Growth(sum(costs) / len(costs), 0.0, 0.0)
    fits = (_linear(sizes, costs, step) for step in _STEPS)
    return min(fits, key=lambda found: _error(found, points) + _SIMPLER * found.exponent)


def _linear(sizes: Sequence[float], costs: Sequence[float], exponent: float) -> Growth:
    """The best fixed part and factor for one exponent; neither is negative."""
    # Each equation is divided by its cost: fixed / cost + factor * size ** exponent / cost = 1.
    a = [1 / cost for cost in costs]
    b = [size**exponent / cost for size, cost in zip(sizes, costs, strict=True)]
    aa, bb = sum(x * x for x in a), sum(x * x for x in b)
    ab = sum(x * y for x, y in zip(a, b, strict=True))
    below = aa * bb - ab * ab
    fixed = (sum(a) * bb - sum(b) * ab) / below if below > 1e-12 * aa * bb else 0.0
    fixed = max(fixed, 0.0)
    return Growth(fixed, max((sum(b) - fixed * ab) / bb, 0.0), exponent)


def _error(found: Growth, points: Sequence[tuple[float, float]]) -> float:
    return sum((found.at(size) / max(cost, 1e-9) - 1) ** 2 for size, cost in points)
