"""Which ratios became worse, and how much they may differ."""

from __future__ import annotations

import json

import pytest

from bench import check
from bench.check import Recorded, added, expected, judge

OLD = {"replay: cpu": Recorded(0.8, 0.25)}


@pytest.mark.parametrize(
    ("now", "word"),
    [
        (0.8, "same"),
        (0.99, "same"),
        (1.01, "worse"),
        (8.0, "worse"),
        (0.65, "same"),
        (0.6, "better"),
    ],
)
def test_a_ratio_is_judged_by_its_factor_and_its_tolerance(now: float, word: str) -> None:
    (verdict,) = judge(OLD, {"replay: cpu": now})
    assert verdict.word == word
    assert verdict.fails is (word == "worse")
    assert verdict.factor == pytest.approx(now / 0.8)


def test_a_ratio_that_is_not_measured_any_more_fails_and_a_new_one_does_not() -> None:
    missing, new = judge(OLD, {"replay: seconds": 9.0})
    assert (missing.name, missing.word, missing.fails) == ("replay: cpu", "missing", True)
    assert (new.name, new.word, new.fails) == ("replay: seconds", "new", False)


def test_the_tolerance_is_twice_the_largest_deviation_but_not_too_small() -> None:
    made = expected({"a": [1.0, 1.01, 0.99], "b": [2.0, 3.0, 1.0]})
    assert made["a"] == Recorded(1.0, check.TOLERANCE)
    # From 2.0 to 1.0 is a factor of 2, so 1 of deviation.
    assert made["b"] == Recorded(2.0, 2.0)
    assert not any(one.fails for one in judge(made, {"a": 1.2, "b": 5.9}))
    assert all(one.fails for one in judge(made, {"a": 1.3, "b": 6.1}))


def test_a_run_is_added_to_the_recorded_ones() -> None:
    document = {"ratios": {"a": [1.0], "gone": [3.0]}}
    assert added(document, {"a": 2.0, "new": 0.12345}) == {"a": [1.0, 2.0], "new": [0.123]}
    assert added({}, {"a": 2.0}) == {"a": [2.0]}


def test_a_worse_benchmark_runs_again_and_the_better_ratio_counts() -> None:
    took: list[float] = []

    def word(*ratios: float) -> str:
        left = iter(ratios)

        def run(bench: str) -> dict[str, float]:
            took.append(next(left))
            return {f"{bench}: cpu": took[-1]}

        (verdict,) = check.check(["replay"], OLD, run)
        return verdict.word

    assert word(0.9) == "same"
    assert word(2.0, 0.9) == "same"
    assert word(2.0, 1.9) == "worse"
    assert took == [0.9, 2.0, 0.9, 2.0, 1.9]


def results(factor: float) -> dict[str, object]:
    """Results of all benchmarks, with Londiste this many times as slow."""
    cpu = {"plain": 10.0, "londiste, row form": factor, "londiste, statement form": factor}
    columns = ("µs update", "µs insert", "µs/row insert", "µs/row update")
    ours = [{"cpu": factor, "seconds": factor}] * 3
    return {
        "capture": {"figures": dict.fromkeys(columns, cpu)},
        "replay rows": {
            "runs": {
                "londiste worker": ours,
                "native subscription": [{"cpu": 2.0, "seconds": 4.0}] * 3,
            }
        },
        "latency": {
            "londiste at default settings": [factor, 2, 3],
            "native subscription": [0.5, 1, 2],
        },
        "copy end accounts": {
            "ratio": {
                "londiste, local, snapshot": 1 / factor,
                "londiste, local, resumable": 1 / factor,
            }
        },
        "compare": {"limit, a session a side": 100.0, "compare, equal": 100 / factor},
    }


@pytest.mark.parametrize("bench", check.SHORT)
def test_a_ratio_grows_with_the_time_that_londiste_takes(bench: str) -> None:
    once, twice = (check.ratios(bench, results(factor)) for factor in (1.0, 2.0))
    assert once
    assert twice == pytest.approx({name: 2 * value for name, value in once.items()})
    assert all(name.startswith(f"{bench}: ") for name in once)


def test_the_recorded_ratios_are_those_of_the_short_forms() -> None:
    document = json.loads(check.FILE.read_text(encoding="utf-8"))
    assert set(document) == set(check.SHORT)
    for bench, recorded in document.items():
        assert recorded["options"] == check.SHORT[bench], "run python -m bench.check --record"
        assert all(name.startswith(f"{bench}: ") for name in recorded["ratios"])
        assert all(len(values) >= 3 for values in recorded["ratios"].values())
