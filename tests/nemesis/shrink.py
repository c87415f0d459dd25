"""Makes a failing life smaller: steps, faults, kinds of work and tables are dropped while it fails.

What depends on the moment may not fail each time, so an attempt has two tries.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from tests.nemesis.plan import Plan
from tests.nemesis.runner import Outcome, live
from tests.nemesis.stage import Stage

_TRIES = 2


def smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with one thing less; those that drop most come first."""
    for number in range(len(plan.steps)):
        if len(plan.steps) > 1:
            less = copy.deepcopy(plan)
            del less.steps[number]
            yield less
    for number, step in enumerate(plan.steps):
        if step["fault"]:
            less = copy.deepcopy(plan)
            less.steps[number]["fault"] = None
            yield less
    for kind in plan.work:
        if len(plan.work) > 1:
            less = copy.deepcopy(plan)
            less.work.remove(kind)
            yield less


def shrunk(plan: Plan, fails: Callable[[Plan], bool], attempts: int = 24) -> Plan:
    """The smallest plan that still fails."""
    while attempts > 0:
        for less in smaller(plan):
            attempts -= 1
            if fails(less):
                plan = less
                break
            if attempts <= 0:
                return plan
        else:
            return plan
    return plan


def shrink(stage: Stage, plan: Plan, outcome: Outcome) -> Plan:
    """The same, on real servers."""

    def fails(less: Plan) -> bool:
        return any(live(stage, less).wrong for _ in range(_TRIES))

    return shrunk(plan, fails)
