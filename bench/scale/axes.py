"""The axes by name: what grows, and which operations are measured at each size."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bench.scale.meter import Cost, Meter

#: Builds a size on new servers and yields the cost of each operation.
Run: TypeAlias = Callable[[Meter, int], Iterator[Cost]]

#: Modules with axes.
_MODULES = ("tables", "queues", "rows", "backlog", "shapes", "writers", "databases", "held")
_AXES: dict[str, Axis] = {}


@dataclass(frozen=True)
class Axis:
    """What grows; ``steps`` are the sizes by default, ``servers`` the names of those it needs."""

    name: str
    steps: Sequence[int]
    servers: Sequence[str]
    run: Run


def axis(name: str, steps: Sequence[int], servers: Sequence[str]) -> Callable[[Run], Run]:
    """Registers a generator function as an axis."""

    def register(run: Run) -> Run:
        _AXES[name] = Axis(name, steps, servers, run)
        return run

    return register


def known() -> dict[str, Axis]:
    """The axes by name."""
    for module in _MODULES:
        importlib.import_module(f"bench.scale.{module}")
    return _AXES
