"""Values of a test of which the default suite takes some; the slow run takes all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first(values: Iterable[Any], count: int = 1) -> list[Any]:
    """The values, of which those behind the first ones are in the slow run only."""
    return [value if n < count else _slow(value) for n, value in enumerate(values)]


def only(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """The values, of which all but the chosen ones are in the slow run only."""
    found = list(values)
    missing = [value for value in chosen if value not in found]
    assert not missing, missing
    return [value if value in chosen else _slow(value) for value in found]


def pairs(ones: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """All pairs; the default suite takes as few of them as have each value of both in one."""
    left, right = list(ones), list(others)
    chosen = {(n % len(left), n % len(right)) for n in range(max(len(left), len(right)))}
    return [
        (one, other) if (i, j) in chosen else _slow((one, other))
        for i, one in enumerate(left)
        for j, other in enumerate(right)
    ]


def _slow(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.slow)
