"""The plan of a life: a pure function of its number, printable as JSON.

The model follows what the steps change, so that a step can tell whether it is possible now.  When
steps are dropped, those that have become impossible are skipped, by the same model.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from londiste.selftest.shapes import SHAPES, Table
from londiste.selftest.work import WORK
from tests.nemesis.worlds import WORLDS, World

Step = dict[str, Any]


@dataclass
class Model:
    """What is true after the steps so far, if each has done what it should."""

    world: World
    tables: list[Table]
    root: str
    #: Node -> numbers of the tables that it replicates.
    replicated: dict[str, set[int]]
    counters: dict[str, int] = field(default_factory=dict)
    #: Tables whose changes are captured by a trigger of the old kinds.
    compatible: set[int] = field(default_factory=set)
    #: Leaf, table -> the condition that its rows match.
    filters: dict[tuple[str, int], str] = field(default_factory=dict)
    #: Node -> its present name.
    names: dict[str, str] = field(default_factory=dict)

    def count(self, what: str) -> int:
        """1, 2, 3 …: for names that are used once."""
        self.counters[what] = self.counters.get(what, 0) + 1
        return self.counters[what]

    def subscribers(self) -> list[str]:
        """All nodes but the root, providers before their subscribers."""
        order = [self.root]
        for node in order:
            order += [n for n, up in self.world.providers.items() if up == node]
        return order[1:]

    def on_root(self) -> list[int]:
        return sorted(self.replicated[self.root])

    def free(self) -> list[int]:
        """Tables that no node replicates."""
        taken = set().union(*self.replicated.values())
        return [t.number for t in self.tables if t.number not in taken]

    def everywhere(self) -> list[int]:
        return sorted(set.intersection(*self.replicated.values()))

    def table(self, number: int) -> Table:
        return self.tables[number]

    def called(self, node: str) -> str:
        """The name that commands know a node by."""
        return self.names.get(node, node)


@dataclass
class Plan:
    """Everything that is decided beforehand."""

    life: int
    world: str
    more: dict[str, Any]
    shapes: list[str]
    work: list[str]
    steps: list[Step]

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def model(self) -> Model:
        """The beginning."""
        world = copy.deepcopy(WORLDS[self.world])
        tables = [Table(number, SHAPES[name], "nemesis") for number, name in enumerate(self.shapes)]
        root = next(n for n, up in world.providers.items() if up is None)
        return Model(world, tables, root, {node: set() for node in world.providers})


def plan(life: int, *, wanted: Sequence[tuple[str, str, str]] = (), steps: int = 0) -> Plan:
    """The plan of a life.

    wanted -- (shape, operation, fault) that a directed life is to have; any of them may be empty.
    steps -- so many; 0: chosen.
    """
    from tests.nemesis.faults import FAULTS
    from tests.nemesis.operations import OPERATIONS

    chance = random.Random(f"nemesis {life}")
    names = [w for w in WORLDS.values() if not wanted or w.name != "same server"]
    world = chance.choices(names, [w.weight for w in names])[0]
    for _, operation, fault in wanted:
        for _ in range(200):
            if (not operation or OPERATIONS[operation].more.fits(world)) and (
                not fault or FAULTS[fault].when(world)
            ):
                break
            world = chance.choice(list(WORLDS.values()))
    weights = [s.weight for s in SHAPES.values()]
    shapes = chance.choices(list(SHAPES), weights, k=chance.choice([1, 2, 2, 3]))
    shapes = [s for s, _, _ in wanted if s] + shapes
    # Few kinds often, or many things seldom.
    keep = chance.choice([0.3, 0.6, 0.9])
    work = [k for k in WORK.names() if chance.random() < keep] or ["rows"]
    more = {
        "pause": chance.choice([0.005, 0.02, 0.05]),
        "tick": chance.choice([0.05, 0.1, 0.3]),
        "rotate": chance.random() < 0.5,
        "settings": world.draw(chance),
    }
    made = Plan(life, world.name, more, shapes, work, [])
    model = made.model()
    count = steps or chance.randint(2, 4)
    directed = list(wanted)
    for _ in range(40):
        if len(made.steps) >= count and not directed:
            break
        step = _step(model, chance, OPERATIONS, FAULTS, directed)
        OPERATIONS[step["do"]].more.apply(model, step["args"])
        made.steps.append(step)
    return made


def _step(
    model: Model,
    chance: random.Random,
    operations: Any,
    faults: Any,
    directed: list[tuple[str, str, str]],
) -> Step:
    operation = fault = None
    number = None
    if directed:
        shape, operation, fault = directed[0]
        kind = operations[operation or "traffic"]
        numbers = [t.number for t in model.tables if t.shape.name == shape]
        if kind.when(model) and (not shape or kind.more.able(model, numbers)):
            directed.pop(0)
            number = numbers[0] if shape else None
        elif shape and kind.name != "add-table" and model.free() == []:
            directed.pop(0)
            operation = fault = None
        else:
            operation, fault = "add-table", None
            able = [n for n in numbers if n in model.free()]
            number = able[0] if able else None
            if not operations[operation].when(model):
                directed.pop(0)
                operation, number = None, None
    kind = operations[operation] if operation else operations.choose(chance, model)
    args = kind.draw(model, chance)
    if number is not None and "table" in args:
        args["table"] = number
    chosen = None
    if fault:
        chosen = faults[fault]
    elif operation is None and chance.random() < 0.75:
        chosen = faults.choose(chance, model.world)
    return {
        "do": kind.name,
        "args": args,
        "fault": chosen.name if chosen else None,
        "how": chosen.draw(model, chance) if chosen else {},
        # Which of its commands meets the fault, after how many seconds, and for how long.
        "at": chance.randint(0, 3),
        "after": round(chance.choice([0.0, 0.02, 0.05, 0.1, 0.2, 0.4]) * chance.random(), 3),
        "for": round(chance.choice([0.05, 0.3, 1.0]) * chance.random(), 3),
    }
