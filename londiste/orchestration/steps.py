"""Commands as lists of steps, which can be explained, run and repeated after an interruption.

A step is one transaction on one node, so whether it is done is a yes/no question to that node.
``execute`` runs the steps that are not done; repeating an interrupted command finishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import psycopg

from londiste.daemon import crash
from londiste.errors import TransientError, from_database
from londiste.orchestration.connections import Connections


class Step(Protocol):
    """One transaction on one node."""

    def describe(self) -> str:
        """One line for output: ``node: action``."""
        ...

    def done(self, sites: Connections) -> bool:
        """Whether the step is done already."""
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
    return [step for step in steps if not step.done(sites)]


def execute(
    steps: Sequence[Step], sites: Connections, report: Callable[[Step], None] = lambda step: None
) -> int:
    """Runs the steps that are not done, in order; returns their number.

    ``report`` is called after each.  An error leaves the steps before it done.
    """
    count = 0
    for step in steps:
        try:
            if step.done(sites):
                continue
            crash.point("plan.before-step")
            step.run(sites)
        except (TransientError, psycopg.OperationalError) as error:
            ours = from_database(error)
            ours.say_more(f"at this step: {step.describe()}", _and_again(ours.hint))
            if ours is error:
                raise
            raise ours from error
        crash.point("plan.after-step")
        report(step)
        count += 1
    return count


def _and_again(hint: str) -> str:
    again = "repeat the command"
    return hint if again in hint else "; then ".join(filter(None, [hint, again]))
