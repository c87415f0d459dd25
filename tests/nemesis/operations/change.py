"""A kind of operation: when it is possible, and how it changes the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from londiste.selftest.registry import Registry
from tests.nemesis.plan import Model
from tests.nemesis.worlds import World

Args = dict[str, Any]
Words = tuple[str, list[str]]

OPERATIONS = Registry()


@dataclass(frozen=True)
class Change:
    """What the plan knows of an operation.

    apply -- follows it in the model; numbers -- tables that it can be given.
    fits -- whether it is possible in a world at all.
    newer -- only lives with the newer kinds have it.
    migrates -- only lives whose database migrates have it.
    after -- the operation that makes it possible.
    shapes -- those of the tables that it needs; empty: any, or none.
    """

    apply: Callable[[Model, Args], None] = lambda model, args: None
    numbers: Callable[[Model], list[int]] = Model.everywhere
    fits: Callable[[World], bool] = lambda world: True
    newer: bool = False
    migrates: bool = False
    after: str = ""
    shapes: tuple[str, ...] = ()

    def able(self, model: Model, numbers: list[int]) -> bool:
        return any(n in self.numbers(model) for n in numbers)

    def takes(self, model: Model, args: Args) -> bool:
        """Whether arguments fit the model, which may lack steps that were dropped."""
        return (
            ("table" not in args or args["table"] in self.numbers(model))
            and ("to" not in args or args["to"] in [model.root, *branches(model)])
            and ("lost" not in args or args["lost"] in model.lost)
        )


def added(model: Model) -> bool:
    return bool(model.everywhere())


def branches(model: Model) -> list[str]:
    return [n for n in model.subscribers() if n.startswith("branch") or n == "root"]


def has_branch(world: World) -> bool:
    return any(n.startswith("branch") for n in world.providers)


def subscriber(model: Model, args: Args) -> str:
    """The node of an operation on a subscriber; another one if it has become the root."""
    node: str = args["node"]
    return node if node != model.root else model.subscribers()[0]
