"""How every command that works in steps ends: explained, or done and reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from londiste.cli import output
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step


def execute_plan(
    steps: Sequence[Step], sites: Connections, *, explain: bool, json_wanted: bool = False
) -> int:
    """Prints what is left to do, or does it; the number of steps that were done."""
    if explain:
        output.steps(plan.remaining(steps, sites), json_wanted=json_wanted)
        return 0
    with reported(json_wanted) as report:
        return plan.execute(steps, sites, report)


@contextlib.contextmanager
def reported(json_wanted: bool) -> Iterator[Callable[[Step], None]]:
    """What is to be told of each step that is done; at the end all of them are the JSON answer."""
    done: list[str] = []

    def report(step: Step) -> None:
        done.append(step.describe())
        output.message(step.describe())

    try:
        yield report
    finally:
        if json_wanted:
            output.as_json({"done": done})
