"""Commands as lists of steps, which can be explained, run and repeated after an interruption.

A step is one transaction on one node, so whether it is done is a yes/no question to that node.
``execute`` runs the steps that are not done; repeating an interrupted command finishes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import psycopg

from londiste.daemon import crash
from londiste.errors import TransientError, from_database
from londiste.orchestration.connections import Connections
from londiste.wording import repeated


class Step(Protocol):
    """One transaction on one node."""

    def describe(self) -> str:
        """One line for output: ``node: action``."""
        ...

    def done(self, sites: Connections) -> bool:
        """Whether the step is done already.

        A class of which many steps stand in a row has ``each_done`` too, which answers for all.
        """
        ...

    def run(self, sites: Connections) -> None:
        """Performs the step."""
        ...


@dataclass(frozen=True)
class NodeStep:
    """The node of a step, its database and the queue."""

    node: str
    dsn: str = field(repr=False)
    queue: str


@dataclass(frozen=True)
class Later:
    """Steps for ``--dry-run`` that cannot be planned before others are done."""

    text: str

    def describe(self) -> str:
        return self.text


def remaining(steps: Sequence[Step], sites: Connections) -> list[Step]:
    """The steps that are not done, for ``--dry-run``; changes nothing."""
    look = _Look(steps, sites)
    return [step for step in steps if not look.done(step)]


def execute(
    steps: Sequence[Step], sites: Connections, report: Callable[[Step], None] = lambda step: None
) -> int:
    """Runs the steps that are not done, in order; returns their number.

    ``report`` is called after each.  An error leaves the steps before it done.
    """
    count = 0
    look = _Look(steps, sites)
    for step in steps:
        try:
            if look.done(step):
                continue
            crash.point("plan.before-step")
            step.run(sites)
        except (TransientError, psycopg.OperationalError) as error:
            ours = from_database(error)
            ours.say_more(f"at this step: {step.describe()}", repeated(ours.hint))
            if ours is error:
                raise
            raise ours from error
        crash.point("plan.after-step")
        report(step)
        count += 1
    return count


class _Look:
    """Asks whether steps are done: each before it runs, grouped ones before the first of them."""

    def __init__(self, steps: Sequence[Step], sites: Connections) -> None:
        self._sites = sites
        self._groups: dict[int, list[Any]] = {}
        for (kind, _), group in itertools.groupby(steps, _group):
            if hasattr(kind, "each_done"):
                together = list(group)
                self._groups |= dict.fromkeys(map(id, together), together)
        self._known: dict[int, bool] = {}

    def done(self, step: Step) -> bool:
        group = self._groups.get(id(step))
        if group is None:
            return step.done(self._sites)
        if id(step) not in self._known:
            found = group[0].each_done(group, self._sites)
            self._known |= {id(one): done for one, done in zip(group, found, strict=True)}
        return self._known[id(step)]


def _group(step: Step) -> tuple[type[Step], str]:
    return type(step), getattr(step, "dsn", "")
