"""How every command that works in steps ends: explained, or done and reported."""

from __future__ import annotations

from collections.abc import Sequence

from londiste.cascade import plan
from londiste.cascade.plan import Sites, Step
from londiste.cli import output


def carry_out(
    steps: Sequence[Step], sites: Sites, *, explain: bool, json_wanted: bool = False
) -> int:
    """Prints what is left to do, or does it; the number of steps that were done."""
    if explain:
        output.steps(plan.remaining(steps, sites), json_wanted=json_wanted)
        return 0
    done: list[str] = []

    def report(step: Step) -> None:
        done.append(step.describe())
        output.message(step.describe())

    try:
        plan.execute(steps, sites, report)
    finally:
        if json_wanted:
            output.as_json({"done": done})
    return len(done)
