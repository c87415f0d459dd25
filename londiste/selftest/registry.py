"""A registry of kinds: what can happen, how often, and when it is possible."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """One entry.

    weight -- how often it is chosen beside others.
    when -- whether it is possible now; given the model of the life.
    draw -- what is decided beforehand: the arguments, which can be written as JSON.
    run -- does it; what it is given is up to the registry.
    """

    name: str
    run: Callable[..., Any]
    weight: float = 1.0
    when: Callable[..., bool] = lambda *given: True
    draw: Callable[..., dict[str, Any]] = lambda *given: {}
    more: Any = None


class Registry:
    """Kinds by name, in the order in which they were added."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}

    def add(self, name: str, **fields: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Adds a function as a kind."""

        def added(run: Callable[..., Any]) -> Callable[..., Any]:
            assert name not in self._kinds, name
            self._kinds[name] = Kind(name, run, **fields)
            return run

        return added

    def __getitem__(self, name: str) -> Kind:
        return self._kinds[name]

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def names(self) -> list[str]:
        return list(self._kinds)

    def choose(self, chance: random.Random, *given: Any, among: list[str] | None = None) -> Kind:
        """One of the kinds that are possible now."""
        able = [k for k in self if (among is None or k.name in among) and k.when(*given)]
        return chance.choices(able, [k.weight for k in able])[0]
