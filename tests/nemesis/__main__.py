"""``python -m tests.nemesis --lives 500 --seed 1``: lives, their coverage, shrinking."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.nemesis import coverage
from tests.nemesis.plan import plan
from tests.nemesis.runner import live
from tests.nemesis.shrink import shrink
from tests.nemesis.stage import Stage


def main() -> int:
    parser = argparse.ArgumentParser(prog="nemesis", description=__doc__)
    parser.add_argument("--lives", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="number of the first life")
    parser.add_argument("--seconds", type=float, default=0, help="begin no life after this time")
    parser.add_argument("--log", type=Path, default=Path("nemesis.jsonl"))
    parser.add_argument("--plan", action="store_true", help="print the plans and exit")
    parser.add_argument("--directed", action="store_true", help="fill the empty cells of the log")
    parser.add_argument("--coverage", action="store_true", help="print the table of the log, exit")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--defects", nargs="*", help="plant defects (all, or these), and exit")
    given = parser.parse_args()
    if given.coverage:
        print(coverage.table(coverage.read(given.log)))
        return 0
    plans = (plan(given.seed + n) for n in range(given.lives))
    if given.directed:
        cells = coverage.empty(coverage.read(given.log))
        plans = coverage.directed(cells, given.seed, given.lives)
    if given.plan:
        for one in plans:
            print(json.dumps(one.as_json(), ensure_ascii=False))
        return 0
    began = time.monotonic()
    failed = []
    directory = Path(tempfile.mkdtemp(prefix="nemesis"))
    stage = Stage(directory)
    try:
        if given.defects is not None:
            from tests.nemesis import mutation

            return mutation.run(stage, given.defects, given.lives, given.seed, given.log)
        for one in plans:
            if given.seconds and time.monotonic() - began > given.seconds:
                break
            outcome = live(stage, one)
            coverage.append(given.log, outcome)
            word = "WRONG" if outcome.wrong else "ok"
            print(
                f"life {one.life}: {word}, {outcome.seconds:.1f} s, {one.world},"
                f" {outcome.committed} transactions, {outcome.looks} looks",
                flush=True,
            )
            if outcome.wrong:
                failed.append(one.life)
                print("\n".join([*outcome.wrong, *outcome.log]), flush=True)
                if not given.no_shrink:
                    print(json.dumps(shrink(stage, one, outcome).as_json(), ensure_ascii=False))
    finally:
        stage.close()
    print(coverage.table(coverage.read(given.log)))
    print(f"{len(failed)} lives failed: {failed}; files of their daemons are in {directory}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
