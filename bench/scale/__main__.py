"""Runs an axis and prints its lines and exponents."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import bench.scale
from bench.scale import axes, growth
from bench.scale.meter import Cost, Meter
from bench.support import common


def main() -> None:
    """Runs the steps of an axis, each on new servers."""
    known = axes.known()
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description=bench.scale.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--axis", choices=sorted(known), required=True)
    parser.add_argument("--steps", help="sizes, comma between (default: those of the axis)")
    parser.add_argument("--json", type=Path, help="file that takes the result")
    args = parser.parse_args()
    axis = known[args.axis]
    steps = [int(step) for step in args.steps.split(",")] if args.steps else axis.steps
    found: dict[int, list[Cost]] = {}
    print(f"\n## {axis.name}", flush=True)
    common.table([axis.name, "operation", *_UNITS], [])
    for step in steps:
        with (
            common.servers(*axis.servers, settings=_SETTINGS) as servers,
            tempfile.TemporaryDirectory() as folder,
        ):
            found[step] = []
            for cost in axis.run(Meter(servers, Path(folder)), step):
                found[step].append(cost)
                print(f"| {' | '.join(_line(step, cost))} |", flush=True)
    report(axis.name, found, args.json)


#: For thirty nodes with their workers, and for two hundred writers.
_SETTINGS = {"max_connections": "300"}
_UNITS = ("s", "processor s", "of the program", "of the servers", "peak MB", "WAL MB")


def _line(step: int, cost: Cost) -> Sequence[str]:
    figures = (cost.seconds, cost.processor, cost.program, cost.server)
    return [
        f"{step:,}",
        cost.operation,
        *(f"{figure:.2f}" for figure in figures),
        f"{cost.memory:.0f}",
        f"{cost.wal / 1e6:.2f}",
    ]


def report(name: str, found: dict[int, list[Cost]], file: Path | None) -> None:
    """Prints the exponents, where every step has the operation, and the result as JSON."""
    by_operation: dict[str, list[tuple[int, Cost]]] = {}
    for step, costs in found.items():
        for cost in costs:
            by_operation.setdefault(cost.operation, []).append((step, cost))
    rows = []
    for operation, costs_at in by_operation.items():
        if len(costs_at) == len(found) > 2:
            of = [
                growth.fit([(step, value) for step, value in pairs]).exponent
                for pairs in (
                    [(step, cost.seconds) for step, cost in costs_at],
                    [(step, cost.processor) for step, cost in costs_at],
                    [(step, float(cost.wal)) for step, cost in costs_at],
                )
            ]
            rows.append([operation, *(f"{exponent:.2f}" for exponent in of)])
    if rows:
        common.table(["exponent of", "s", "processor s", "WAL"], rows)
    print(f"\n{common.machine()}")
    result = {
        "rows": [
            {"size": step, **{k: _rounded(v) for k, v in vars(cost).items()}}
            for step, costs in found.items()
            for cost in costs
        ]
    }
    print("\n" + json.dumps({"title": f"Scale: {name}", **result}))
    common.write_json(file, f"scale {name}", result)


def _rounded(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
