"""The log of lives, and the table of the pairs that met in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from londiste.selftest.shapes import SHAPES
from tests.nemesis.faults import FAULTS
from tests.nemesis.operations import OPERATIONS
from tests.nemesis.plan import MIGRATING, Plan, plan
from tests.nemesis.runner import Outcome
from tests.nemesis.worlds import WORLDS, World


@dataclass
class Covered:
    """What a log contains."""

    lives: int = 0
    failed: list[int] = field(default_factory=list)
    seconds: float = 0.0
    transactions: int = 0
    looks: int = 0
    operation_fault: Counter[tuple[str, str]] = field(default_factory=Counter)
    shape_operation: Counter[tuple[str, str]] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)


def append(log: Path, outcome: Outcome) -> None:
    found = outcome.as_json()
    if not outcome.wrong:
        found.pop("log")
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(found, ensure_ascii=False) + "\n")


def read(log: Path) -> Covered:
    """A log that does not exist is empty."""
    found = Covered()
    if not log.exists():
        return found
    for line in log.read_text(encoding="utf-8").splitlines():
        life = json.loads(line)
        found.lives += 1
        found.seconds += life["seconds"]
        found.transactions += life["committed"]
        found.looks += life["looks"]
        found.work.update(life["work"])
        if life["wrong"]:
            found.failed.append(life["life"])
        found.operation_fault.update((a, b) for a, b in life["operation_fault"])
        found.shape_operation.update((a, b) for a, b in life["shape_operation"])
    return found


def _possible() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    pairs = [(o, f) for o in OPERATIONS.names() for f in ["", *FAULTS.names()]]
    shapes = [(s, o) for s in SHAPES for o in OPERATIONS.names()]
    # Nothing to interrupt, and no world for both; a table without key cannot be repaired;
    # partitions have one form.
    pairs = [
        (o, f)
        for o, f in pairs
        if not (o in ("traffic", "restart") and FAULTS_OF_COMMANDS & {f})
        and (not f or any(_fit(o, f, world) for world in WORLDS.values()))
    ]
    shapes = [
        (s, o)
        for s, o in shapes
        if (o != "repair" or not SHAPES[s].keyless)
        and (o != "change-form" or len(SHAPES[s].forms) > 1)
    ]
    return pairs, shapes


def _fit(operation: str, fault: str, world: World) -> bool:
    needs = OPERATIONS[operation].more
    return needs.migrates <= world.migrates and needs.fits(world) and FAULTS[fault].when(world)


FAULTS_OF_COMMANDS = {"kill command", "interrupt command", "command at a step"}


def empty(covered: Covered) -> list[tuple[str, str, str]]:
    """(shape, operation, fault) that no life has had."""
    pairs, shapes = _possible()
    return [("", o, f) for o, f in pairs if not covered.operation_fault[o, f]] + [
        (s, o, "") for s, o in shapes if not covered.shape_operation[s, o]
    ]


def directed(cells: list[tuple[str, str, str]], seed: int, lives: int) -> Iterator[Plan]:
    """Lives that have these cells, some in each."""
    for number in range(min(lives, (len(cells) + 2) // 3)):
        wanted = cells[number * 3 : number * 3 + 3]
        moves = OPERATIONS[wanted[0][1]].more.migrates
        for cell in wanted[1:]:
            # A world has to be possible for all of them.
            if cell[1] in ("switchover", "takeover", "change-provider") or "line" in cell[2]:
                wanted = [wanted[0]]
                break
            if OPERATIONS[cell[1]].more.migrates != moves:
                wanted = [wanted[0]]
                break
        yield plan(seed + number + (MIGRATING if moves else 0), wanted=wanted)


def table(covered: Covered) -> str:
    """For people; a dot is an empty cell."""
    lines = [
        f"{covered.lives} lives, {len(covered.failed)} failed {covered.failed[:20]},"
        f" {covered.seconds / 60:.0f} minutes, {covered.transactions} transactions,"
        f" {covered.looks} looks of readers",
        "",
    ]
    faults = ["", *FAULTS.names()]
    lines += _grid(OPERATIONS.names(), faults, covered.operation_fault, "(none)")
    flipped = Counter({(o, s): n for (s, o), n in covered.shape_operation.items()})
    lines += ["", *_grid(OPERATIONS.names(), list(SHAPES), flipped, "")]
    lines += ["", "work: " + ", ".join(f"{k} {n}" for k, n in covered.work.most_common())]
    cells = empty(covered)
    lines.append(f"empty cells: {len(cells)}")
    return "\n".join(lines)


def _grid(
    columns: list[str], rows: list[str], counts: Counter[tuple[str, str]], nothing: str
) -> list[str]:
    wide = max(len(r) for r in rows) + 1
    head = " " * wide + " ".join(f"{c[:9]:>9}" for c in columns)
    return [head] + [
        f"{row or nothing:<{wide}}" + " ".join(f"{counts[c, row] or '.':>9}" for c in columns)
        for row in rows
    ]
