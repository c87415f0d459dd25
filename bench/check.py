"""Compares short forms of the main benchmarks with recorded ratios: make bench-check.

    python -m bench.check [--only replay,latency]      # exit code 1: something became worse
    python -m bench.check --record --runs 5            # adds five runs to bench/ratios.json

A ratio is a figure of Londiste divided by that of a peer or limit in the same run, so it depends
less on the machine than the figure.  Processor time is used where a benchmark has it.  A benchmark
with a worse ratio runs once more, and the better ratio of both runs counts: other work of the
machine makes a run slower, never faster.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.support import common

FILE = Path(__file__).with_name("ratios.json")
#: The smallest tolerance; above it, twice the largest deviation of a recorded run.
TOLERANCE = 0.25

#: Benchmark -> options of its short form, at most about a minute on an idle machine.
SHORT = {
    "capture": "--parts single,bulk --ways form --rounds 2 --statements 5000 --rows 50000",
    "replay": "--workloads rows --events 50000 --rows 20000 --rounds 2 --skip-original",
    "latency": "--seconds 4 --rounds 3 --idle 0",
    "copy": "--parts end --cases accounts --rows 300000 --rounds 2 --no-spark --skip-original",
    "compare": "--rows 500000 --rounds 2",
}


@dataclass(frozen=True)
class Recorded:
    """A ratio as recorded: the median of the runs, and how far a new one may be from it."""

    ratio: float
    tolerance: float


@dataclass(frozen=True)
class Verdict:
    """A ratio beside the recorded one; ``factor`` above 1 is worse, whatever the ratio means."""

    name: str
    recorded: Recorded | None
    found: float | None
    word: str
    factor: float | None = None

    @property
    def fails(self) -> bool:
        """Whether the check has to fail."""
        return self.word in ("worse", "missing")


def judge(recorded: Mapping[str, Recorded], found: Mapping[str, float]) -> list[Verdict]:
    """Compares ratios with the recorded ones; a ratio is the better the lower it is."""
    verdicts = []
    for name in [*recorded, *(name for name in found if name not in recorded)]:
        old, new = recorded.get(name), found.get(name)
        if old is None or new is None:
            verdicts.append(Verdict(name, old, new, "new" if old is None else "missing"))
            continue
        factor = new / old.ratio
        within = 1 + old.tolerance
        word = "worse" if factor > within else "better" if factor < 1 / within else "same"
        verdicts.append(Verdict(name, old, new, word, factor))
    return verdicts


def expected(runs: Mapping[str, Sequence[float]]) -> dict[str, Recorded]:
    """The medians of the recorded runs, with twice their largest deviation as tolerance."""
    made = {}
    for name, values in runs.items():
        middle = statistics.median(values)
        deviation = max(max(value / middle, middle / value) - 1 for value in values)
        made[name] = Recorded(middle, max(TOLERANCE, 2 * deviation))
    return made


def added(document: Mapping[str, Any], found: Mapping[str, float]) -> dict[str, list[float]]:
    """The ratios of the recorded runs with those of one more."""
    before = document.get("ratios", {})
    return {name: [*before.get(name, ()), round(value, 3)] for name, value in found.items()}


def ratios(bench: str, result: Mapping[str, Any]) -> dict[str, float]:
    """The ratios of a benchmark from its JSON; lower is better in each."""
    match bench:
        case "capture":
            figures = result["capture"]["figures"]
            row, statement = "londiste, row form", "londiste, statement form"
            return {
                f"capture: {column}, {form} added × plain": figures[column][form]
                / figures[column]["plain"]
                for form, columns in (
                    (row, ("µs update", "µs insert")),
                    (statement, ("µs/row insert", "µs/row update")),
                )
                for column in columns
            }
        case "replay":
            runs = result["replay rows"]["runs"]
            return {
                f"replay: {figure} × native": _median(runs["londiste worker"], figure)
                / _median(runs["native subscription"], figure)
                for figure in ("cpu", "seconds")
            }
        case "latency":
            ways = result["latency"]
            ours, theirs = ways["londiste at default settings"], ways["native subscription"]
            return {"latency: p50 × native": ours[0] / theirs[0]}
        case "copy":
            speeds = result["copy end accounts"]["ratio"]
            return {
                f"copy: seconds, {mode} × native": 1 / speeds[f"londiste, local, {mode}"]
                for mode in ("snapshot", "resumable")
            }
        case "compare":
            rates = result["compare"]
            limit = rates["limit, a session a side"]
            return {"compare: seconds, equal × limit": limit / rates["compare, equal"]}
    raise ValueError(f"no ratios of {bench}")


def _median(runs: Sequence[Mapping[str, float]], figure: str) -> float:
    return statistics.median(run[figure] for run in runs)


def run(bench: str) -> dict[str, float]:
    """Runs a short form; its ratios."""
    print(f"running bench.{bench} {SHORT[bench]}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        command = [sys.executable, "-m", f"bench.{bench}", *SHORT[bench].split()]
        done = subprocess.run([*command, "--json", str(file)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"error: bench.{bench} ended with {done.returncode}\n{done.stderr}")
        return ratios(bench, json.loads(file.read_text(encoding="utf-8")))


def check(
    benches: Iterable[str],
    recorded: Mapping[str, Recorded],
    run: Callable[[str], Mapping[str, float]] = run,
) -> list[Verdict]:
    """Runs the short forms and compares them; a worse one runs once more."""
    verdicts = []
    for bench in benches:
        old = {k: v for k, v in recorded.items() if k.startswith(f"{bench}:")}
        found = run(bench)
        if any(verdict.fails for verdict in judge(old, found)):
            again = run(bench)
            found = {name: min(value, again.get(name, value)) for name, value in found.items()}
        verdicts += judge(old, found)
    return verdicts


def main() -> None:
    """Measures, compares and prints, or records."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", default=",".join(SHORT), metavar="NAMES", help="benchmarks to run"
    )
    parser.add_argument("--record", action="store_true", help="add runs to the recorded ratios")
    parser.add_argument("--runs", type=int, default=3, metavar="NUMBER", help="runs to record")
    args = parser.parse_args()
    benches = args.only.split(",")
    if unknown := set(benches) - set(SHORT):
        parser.error(f"there is no {', '.join(sorted(unknown))}: known are {', '.join(SHORT)}")
    if args.record:
        for bench in args.runs * benches:
            _record(bench)
        return
    document = json.loads(FILE.read_text(encoding="utf-8"))
    recorded = expected({k: v for bench in benches for k, v in document[bench]["ratios"].items()})
    verdicts = check(benches, recorded)
    show(verdicts)
    sys.exit(any(verdict.fails for verdict in verdicts))


def _record(bench: str) -> None:
    """Runs a benchmark and adds its ratios to the file; other options begin again."""
    found = run(bench)
    document = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    before = document.get(bench, {})
    same = before if before.get("options") == SHORT[bench] else {}
    document[bench] = {
        "options": SHORT[bench],
        "date": datetime.date.today().isoformat(),
        "machine": common.machine(),
        "ratios": added(same, found),
    }
    common.write_lines(FILE, document)


def show(verdicts: Sequence[Verdict]) -> None:
    """Prints the table of ratios, what became worse first."""
    order = ("worse", "missing", "better", "new", "same")
    common.table(
        ["ratio, lower is better", "recorded", "now", "factor", "allowed", ""],
        [
            [
                one.name,
                f"{one.recorded.ratio:.2f}" if one.recorded else "–",
                f"{one.found:.2f}" if one.found is not None else "–",
                f"{one.factor:.2f}" if one.factor is not None else "–",
                f"{1 + one.recorded.tolerance:.2f}" if one.recorded else "–",
                f"**{one.word}**" if one.fails else one.word,
            ]
            for one in sorted(verdicts, key=lambda one: order.index(one.word))
        ],
    )
    print(f"\n{common.machine()}")


if __name__ == "__main__":
    main()
