"""The check of the machine itself: each planted defect has to be caught within some lives."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from tests.nemesis.defects import DEFECTS
from tests.nemesis.operations import OPERATIONS
from tests.nemesis.plan import MIGRATING, NEWER, plan
from tests.nemesis.runner import live
from tests.nemesis.stage import Stage


def run(stage: Stage, names: Sequence[str], lives: int, seed: int, log: Path) -> int:
    """Plants these defects, one after the other; all of them when none is named.

    Every second life is directed at what the defect needs; the others are as random as ever.
    """
    missed = []
    for name in names or DEFECTS.names():
        defect = DEFECTS[name].more
        wanted = [(defect.shape, defect.operation, defect.fault)]
        began = time.monotonic()
        found = None
        needs = OPERATIONS[defect.operation or "traffic"].more
        first = seed + (MIGRATING if needs.migrates else NEWER if needs.newer else 0)
        for number in range(lives):
            directed = number % 2 == 0
            one = plan(
                first + number, wanted=wanted if directed else (), steps=1 if directed else 0
            )
            outcome = live(stage, one, name)
            assert not outcome.broken, outcome.wrong
            if outcome.wrong:
                found = (number + 1, one.life, outcome.wrong[0].splitlines()[0][:160])
                break
        seconds = time.monotonic() - began
        if found is None:
            missed.append(name)
            print(f"MISSED {defect.promise}: {name}: {lives} lives, {seconds:.0f} s", flush=True)
        else:
            count, life, what = found
            print(
                f"caught {defect.promise}: {name}: by life {count} (number {life}),"
                f" {seconds:.0f} s: {what}",
                flush=True,
            )
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"defect": name, "found": found}) + "\n")
    print(f"{len(missed)} defects were missed: {missed}")
    return 1 if missed else 0
