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

#: Lives from this number on have the newer kinds too; the plans of those before it never change.
NEWER = 2000
#: Lives from this number on are migrations of a database to another server.
MIGRATING = 3000


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
    #: Node, table -> the condition that its rows match; nodes below keep no others.
    filters: dict[tuple[str, int], str] = field(default_factory=dict)
    #: Leaf, table -> the condition of its shard, besides.
    shards: dict[tuple[str, int], str] = field(default_factory=dict)
    #: Node -> its present name.
    names: dict[str, str] = field(default_factory=dict)
    #: Roots that another node has replaced, with their tables at that time.
    lost: dict[str, set[int]] = field(default_factory=dict)
    #: The leaf has the parts of both roots.
    merged: bool = False
    #: Events are removed soon after all nodes have them.
    rotates: bool = False
    #: Of a database: not begun, in step, over; empty in all other worlds.
    migration: str = ""

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

    def whole(self, node: str, number: int) -> None:
        """A node keeps all rows of a table again."""
        self.filters.pop((node, number), None)
        self.shards.pop((node, number), None)

    def conditions(self, node: str, number: int) -> list[str]:
        """What rows of a node have to match: its own conditions, and those of the nodes above."""
        found = []
        above: str | None = node
        while above is not None:
            for kind in (self.filters, self.shards):
                found += [kind[above, number]] if (above, number) in kind else []
            above = self.world.providers[above]
        return found

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
        # A migration has all tables.
        numbers = [t.number for t in tables if world.migrates]
        replicated: dict[str, set[int]] = {node: set(numbers) for node in world.providers}
        return Model(
            world,
            tables,
            root,
            replicated,
            rotates=self.more["rotate"],
            migration="not begun" if world.migrates else "",
        )


def plan(life: int, *, wanted: Sequence[tuple[str, str, str]] = (), steps: int = 0) -> Plan:
    """The plan of a life.

    wanted -- (shape, operation, fault) that a directed life is to have; any of them may be empty.
    steps -- so many; 0: chosen.
    """
    from tests.nemesis.faults import FAULTS
    from tests.nemesis.operations import OPERATIONS

    chance = random.Random(f"nemesis {life}")
    newer = life >= NEWER
    among = [w for w in WORLDS.values() if w.migrates == (life >= MIGRATING)]
    worlds = [w for w in among if newer or not w.newer]
    names = [w for w in worlds if not wanted or w.name != "same server"]
    world = chance.choices(names, [w.weight for w in names])[0]
    for _, operation, fault in wanted:
        for _ in range(200):
            if (not operation or OPERATIONS[operation].more.fits(world)) and (
                not fault or FAULTS[fault].when(world)
            ):
                break
            world = chance.choice(among)
    if newer and not wanted:
        wanted = _theme(world, chance, OPERATIONS, FAULTS)
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
    if newer:
        # The transactions before the loss of a root are in no tick that another node has.
        more["unseen"] = chance.random() < 0.7
        more["settings"]["obfuscator_key"] = f"hush7secret key {life}"
    made = Plan(life, world.name, more, shapes, work, [])
    model = made.model()
    count = steps or chance.randint(2, 4) + bool(model.migration)
    directed = list(wanted)
    for _ in range(40):
        if (len(made.steps) >= count and not directed) or model.migration == "over":
            break
        step = _step(model, chance, OPERATIONS, FAULTS, directed, newer=newer)
        OPERATIONS[step["do"]].more.apply(model, step["args"])
        made.steps.append(step)
    return made


def _theme(world: World, chance: random.Random, operations: Any, faults: Any) -> Sequence[Any]:
    """One of the newer kinds, which need more than chance: a lost root, or tables of some shape."""
    able = [
        k
        for k in operations
        if (k.more.migrates if world.migrates else k.more.newer) and k.more.fits(world)
    ]
    if chance.random() < 0.3:
        return ()
    kind = chance.choice(able)
    shape = chance.choice(kind.more.shapes) if kind.more.shapes else ""
    fault = faults.choose(chance, world).name if chance.random() < 0.7 else ""
    return [(shape, kind.name, fault)]


def _before(kind: Any, model: Model, operations: Any) -> str:
    """The operation that is possible now, and leads to what this one needs; empty: none."""
    name: str = kind.more.after
    while name and not operations[name].when(model):
        name = operations[name].more.after
    return name


def _step(
    model: Model,
    chance: random.Random,
    operations: Any,
    faults: Any,
    directed: list[tuple[str, str, str]],
    *,
    newer: bool,
) -> Step:
    from tests.nemesis.faults import NEWER_FAULTS

    operation = fault = None
    number = None
    if directed:
        shape, operation, fault = directed[0]
        kind = operations[operation or "traffic"]
        numbers = [t.number for t in model.tables if t.shape.name == shape]
        if kind.when(model) and (not shape or kind.more.able(model, numbers)):
            directed.pop(0)
            able = [n for n in numbers if n in kind.more.numbers(model)]
            number = able[0] if able and shape else None
        elif (not shape or model.migration) and (before := _before(kind, model, operations)):
            operation, fault = before, None
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
    among = None if newer else [k.name for k in operations if not k.more.newer]
    if model.migration:
        # Nothing but it is possible at first.
        among = [k.name for k in operations if k.more.migrates]
        among += ["traffic"] if model.migration == "in step" else []
    kind = operations[operation] if operation else operations.choose(chance, model, among=among)
    args = kind.draw(model, chance)
    if "trigger" in args and directed and operations[directed[0][1]].more.newer:
        # Those of the old kinds cannot be given to the operation that this is for.
        args["trigger"] = "capture"
    if number is not None and "table" in args:
        args["table"] = number
    chosen = None
    if fault:
        chosen = faults[fault]
    elif operation is None and chance.random() < 0.75:
        among = None if newer else [n for n in faults.names() if n not in NEWER_FAULTS]
        chosen = faults.choose(chance, model.world, among=among)
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
