"""Prints what is to be expected of a fleet that a file or options describe."""

from __future__ import annotations

import argparse
import json
import math
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import bench.fleet
from bench.fleet import model, points, simulate
from bench.support import common


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the description, simulates and prints."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet",
        description=bench.fleet.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="description in TOML")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--costs", action="store_true", help="print the figures and their sources")
    parser.add_argument("--check", action="store_true", help="measure three points on this machine")
    for name, field in model.Fleet.model_fields.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            metavar="NAME" if name == "workload" else "NUMBER",
            help=f"{field.description} (default {field.default})",
        )
    args = vars(parser.parse_args(arguments))
    try:
        document = tomllib.loads(args["file"].read_text("utf-8")) if args["file"] else {}
        given = {name: args[name] for name in model.Fleet.model_fields if args[name] is not None}
        fleet, costs = model.read({**document, **given})
    except ValidationError as error:
        sys.exit("\n".join(map(_problem, error.errors())) + f"\n{HINT}")
    except (OSError, tomllib.TOMLDecodeError) as error:
        sys.exit(f"error: description {args['file']}: {error}\n{HINT}")
    if args["costs"]:
        sources = model.sources(fleet.workload)
        rows = [[name, f"{v:g}", *sources[name]] for name, v in costs.model_dump().items()]
        common.table(["cost", "figure", "unit", "source"], rows)
    elif args["check"]:
        points.check()
    elif args["json"]:
        found = asdict(simulate.forecast(fleet, costs))
        print(
            json.dumps({"fleet": fleet.model_dump(), "costs": costs.model_dump(), **_finite(found)})
        )
    else:
        report(fleet, simulate.forecast(fleet, costs))


HINT = "hint: python -m bench.fleet --help lists the keys"


def _problem(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    return f"error: {where + ': ' if where else ''}{error['msg'].removeprefix('Value error, ')}"


def _finite(value: Any) -> Any:
    """The value with null for what never ends, as JSON has no infinity."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def report(fleet: model.Fleet, found: simulate.Forecast) -> None:
    """Prints the tables."""
    queues = fleet.databases * fleet.queues
    print(
        f"{queues:,} queues, {fleet.rate:g} rows a second each, {fleet.rate_of_peak:g} during"
        f" {fleet.peak_hours:g} hours; {fleet.subscribers} subscribers, {fleet.branches} branches"
    )
    common.table(
        ["", "expected"],
        [
            ["subscribers a provider carries directly", f"{found.direct:,}"],
            ["subscribers over branches like the provider", f"{found.over_branches:,}"],
            ["lag at the mean rate", duration(found.lag)],
            ["lag at the end of the peak", duration(found.lag_at_peak)],
            ["peak is worked off after", duration(found.peak_is_worked_off)],
            ["event tables of a server, GB", f"{found.disk:,.1f}"],
            [
                f"event tables after {fleet.outage_hours:g} hours off, GB",
                f"{found.disk_after_outage:,.1f}",
            ],
            ["backlog after it, rows", f"{found.backlog:,.0f}"],
            ["backlog is drained after", duration(found.drain)],
            ["rows a second while it drains", f"{found.drain_rate:,.0f}"],
            ["daemons", f"{found.daemons:,}"],
            ["memory of the daemons, GB", f"{found.memory:,.1f}"],
            [
                "processor of the daemons, cores, mean and peak",
                f"{found.processor:.2f}, {found.processor_at_peak:.2f}",
            ],
        ],
    )
    common.table(
        ["resource", "mean", "peak", "events alone, peak", "change"],
        [
            [use.name, f"{use.mean:.0%}", f"{use.peak:.0%}", f"{use.needed:.0%}", use.advice]
            for use in found.uses
        ],
    )
    print(f"\nfirst bottleneck: {found.first.name}, {found.first.needed:.0%} at the peak")


def duration(seconds: float) -> str:
    """Seconds in a unit that fits."""
    if math.isinf(seconds):
        return "never"
    for limit, unit, size in ((1, "ms", 0.001), (120, "s", 1), (7200, "min", 60)):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 3600:,.3g} h"


if __name__ == "__main__":
    main()
