"""The plan of a life: from its number alone; and the mechanics around it, without a server."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path

from londiste.selftest.shapes import SHAPES
from londiste.selftest.work import WORK
from tests.nemesis import coverage
from tests.nemesis.faults import FAULTS, NEWER_FAULTS
from tests.nemesis.operations import OPERATIONS
from tests.nemesis.plan import MIGRATING, NEWER, Plan, plan
from tests.nemesis.runner import Outcome
from tests.nemesis.shrink import shrunk, smaller
from tests.nemesis.worlds import WORLDS


def test_a_plan_comes_from_its_number_alone() -> None:
    for number in range(50):
        text = json.dumps(plan(number).as_json(), sort_keys=True)
        assert text == json.dumps(plan(number).as_json(), sort_keys=True)
    assert plan(1) != plan(2)


def test_newer_kinds_leave_the_earlier_numbers_as_they_are() -> None:
    for number in range(300):
        one = plan(number)
        assert not WORLDS[one.world].newer
        for step in one.steps:
            assert not OPERATIONS[step["do"]].more.newer and step["fault"] not in NEWER_FAULTS
    # Of all of it, also of what is drawn for it.
    text = json.dumps([plan(number).as_json() for number in range(100)], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "e5c1f42df1c243b1"


def test_lives_from_3000_on_are_migrations_and_leave_the_earlier_ones_as_they_are() -> None:
    for number in range(MIGRATING, MIGRATING + 100):
        one = plan(number)
        assert WORLDS[one.world].migrates
        does = [step["do"] for step in one.steps]
        assert does[0] == "migrate" and "migrate" not in does[1:]
        assert all(OPERATIONS[do].more.migrates or do == "traffic" for do in does)
        ends = [n for n, do in enumerate(does) if do in ("migrate finish", "migrate abandon")]
        assert ends in ([], [len(does) - 1])
    text = json.dumps(
        [plan(number).as_json() for number in range(NEWER, NEWER + 100)], sort_keys=True
    )
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "2d344e7b5f0a74c5"


def test_every_kind_is_in_some_plan() -> None:
    plans = [
        plan(number)
        for number in [*range(400), *range(NEWER, NEWER + 400), *range(MIGRATING, MIGRATING + 100)]
    ]
    steps = [step for one in plans for step in one.steps]
    assert {step["do"] for step in steps} == set(OPERATIONS.names())
    assert {step["fault"] for step in steps} == {None, *FAULTS.names()}
    assert {shape for one in plans for shape in one.shapes} == set(SHAPES)
    assert {kind for one in plans for kind in one.work} == set(WORK.names())


def test_every_step_is_possible_where_it_stands() -> None:
    for number in [*range(200), *range(NEWER, NEWER + 200), *range(MIGRATING, MIGRATING + 200)]:
        one = plan(number)
        model = one.model()
        for step in one.steps:
            kind = OPERATIONS[step["do"]]
            assert kind.when(model) and kind.more.takes(model, step["args"]), (number, step)
            for todo in kind.run(model, step["args"]):
                nodes = {*model.replicated, *model.world.others()}
                assert callable(todo) or todo[0] in nodes, (number, step)
            kind.more.apply(model, step["args"])


def test_a_directed_plan_has_what_is_wanted() -> None:
    for wanted in [
        ("partitioned", "resync", ""),
        ("", "switchover", "kill worker"),
        ("", "traffic", "deaf line"),
        ("wholerow", "add-table", ""),
        ("", "return", "kill command"),
        ("", "migrate back", "kill all"),
    ]:
        shape, operation, fault = wanted
        for number in range(5):
            first = MIGRATING if OPERATIONS[operation].more.migrates else 0
            one = plan(first + number, wanted=[wanted])
            found = [
                step
                for step in one.steps
                if step["do"] == operation
                and (not fault or step["fault"] == fault)
                and (not shape or one.shapes[step["args"]["table"]] == shape)
            ]
            assert found, (wanted, one)


def test_a_failing_plan_shrinks_to_what_fails() -> None:
    big = next(p for p in map(plan, range(100)) if len(p.steps) >= 4 and len(p.work) > 3)
    guilty, work = big.steps[2], big.work[1]

    def fails(less: Plan) -> bool:
        # By what it does and not by its fault.
        does = [(s["do"], s["args"]) for s in less.steps]
        return (guilty["do"], guilty["args"]) in does and work in less.work

    small = shrunk(big, fails, attempts=200)
    assert [(s["do"], s["fault"]) for s in small.steps] == [(guilty["do"], None)]
    assert small.work == [work]
    assert not any(fails(less) for less in smaller(small))


def test_coverage_names_the_pairs_that_never_met(tmp_path: Path) -> None:
    log = tmp_path / "log"
    nothing = coverage.read(log)
    before = coverage.empty(nothing)
    assert ("", "resync", "kill copy") in before
    outcome = Outcome(7, operation_fault=[("resync", "kill copy")])
    outcome.shape_operation = [("plain", "resync")]
    coverage.append(log, copy.deepcopy(outcome))
    after = coverage.empty(coverage.read(log))
    assert set(before) - set(after) == {("", "resync", "kill copy"), ("plain", "resync", "")}
    assert f"empty cells: {len(after)}" in coverage.table(coverage.read(log))
