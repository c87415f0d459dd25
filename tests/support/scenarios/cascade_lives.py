"""Random actions on a cascade: every command that changes it, and failures of nodes.

The number of a life decides about all of it that does not depend on the machine's speed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tests.support.scenarios import ledger
from tests.support.scenarios.ledger import TABLES
from tests.support.scenarios.random_walk import BLOCK, LIMITS, NEWEST, Course


class Draw(Protocol):
    """Chooses one argument."""

    def __call__(self, chance: random.Random, /) -> Any: ...


@dataclass(frozen=True)
class Rule:
    """Something that may happen: what it is given, and whether it can happen now."""

    run: Callable[..., None]
    arguments: dict[str, Draw]
    when: Callable[[Any], bool]


RULES: list[Rule] = []


def rule(
    when: Callable[[Any], bool] = lambda life: True, **arguments: Draw
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds a method to ``RULES``."""

    def add(method: Callable[..., None]) -> Callable[..., None]:
        RULES.append(Rule(method, arguments, when))
        return method

    return add


def number(chance: random.Random) -> int:
    """Which of the nodes there are."""
    return chance.randint(0, 11)


def seed(chance: random.Random) -> int:
    """For what happens meanwhile."""
    return chance.randint(0, 1 << 16)


def fault(chance: random.Random) -> tuple[int, bool] | None:
    """How a command ends early: after so many steps and waits, killed or by Ctrl-C."""
    return (chance.randint(1, 24), chance.random() < 0.5) if chance.random() < 0.35 else None


def either(chance: random.Random) -> bool:
    """Yes or no."""
    return chance.random() < 0.5


def one_of(*these: str) -> Draw:
    """One of some words."""
    return lambda chance: chance.choice(these)


#: Where a worker dies.
DEATHS = (
    "worker.after-next-batch",
    "worker.mid-apply",
    "worker.before-commit",
    "worker.after-commit",
    "worker.before-finish",
)


class Life(Course):
    """A life that is chosen at random; or step by step by a test."""

    def live(self, life: int, steps: int) -> None:
        """From the beginning to the end.  Raises AssertionError with all that has happened."""
        chance = random.Random(life)
        # Few things often, or many things seldom.
        rules = [r for r in RULES if chance.random() < 0.8]
        self.begin()
        with self.telling():
            self.ledger.check()
            for _ in range(steps):
                able = [r for r in rules if r.when(self)]
                if not able:
                    break
                chosen = chance.choice(able)
                chosen.run(self, **{k: draw(chance) for k, draw in chosen.arguments.items()})
                self.ledger.check()
            self.finish()

    # -- rules: rows, ticks, batches -------------------------------------------------------

    @rule(seed=seed)
    def write(self, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(chance.randint(1, 5)):
            self.some_rows(chance)

    @rule()
    def tick(self) -> None:
        self.some_tick()

    @rule(number=number, count=lambda chance: chance.randint(1, 4))
    def work(self, number: int, count: int) -> None:
        place = self.node(number)
        if place is not None:
            self.log.append(f"{place.name} works")
            for _ in range(count):
                self.stage.unit(place)

    @rule(seed=seed)
    def everybody_works(self, seed: int) -> None:
        self.stage.random.seed(seed)
        self.log.append("all work")
        for _ in range(4):
            self.stage.meanwhile()

    @rule(
        number=number,
        point=one_of(*DEATHS),
    )
    def worker_dies(self, number: int, point: str) -> None:
        place = self.node(number, "branch", "leaf")
        if place is not None:
            self.log.append(f"{place.name}: its worker dies at {point}")
            self.stage.dies_at = (point, 1)
            for _ in range(3):
                self.stage.unit(place)
            self.stage.dies_at = None

    # -- rules: who reads from whom --------------------------------------------------------

    @rule(at=number, number=number, to=number, fault=fault, seed=seed)
    def change_provider(
        self, at: int, number: int, to: int, fault: tuple[int, bool] | None, seed: int
    ) -> None:
        node, new = self.node(number, "branch", "leaf"), self.node(to, "root", "branch")
        if node is not None and new is not None:
            argv = ("change-provider", "--node", node.name, "--provider", new.name)
            self.give(self.node(at), *argv, *LIMITS, fault=fault, seed=seed)

    @rule(at=number, number=number, word=one_of("pause", "resume", "resume"))
    def pause_or_resume(self, at: int, number: int, word: str) -> None:
        node = self.node(number)
        if node is not None:
            self.give(self.node(at), word, "--node", node.name, *LIMITS)

    @rule(at=number, number=number, everyone=either, fault=fault, seed=seed)
    def switchover(
        self, at: int, number: int, everyone: bool, fault: tuple[int, bool] | None, seed: int
    ) -> None:
        new = self.node(number, "branch")
        if new is not None:
            argv = ["switchover", "--to", new.name, *LIMITS, *BLOCK, *["--all"] * everyone]
            self.give(self.node(at), *argv, fault=fault, seed=seed)

    @rule(old=number, number=number, everyone=either, fault=fault, seed=seed)
    def takeover_of_a_branch(
        self, old: int, number: int, everyone: bool, fault: tuple[int, bool] | None, seed: int
    ) -> None:
        replaced, new = self.node(old, "branch"), self.node(number, "branch")
        if replaced is not None and new is not None:
            argv = ["takeover", replaced.name, *LIMITS, *["--all"] * everyone]
            self.give(new, *argv, fault=fault, seed=seed)

    @rule(when=lambda self: self.pending is not None, seed=seed, rollback=either)
    def again(self, seed: int, rollback: bool) -> None:
        if self.pending is None:
            return
        at, argv = self.pending
        if at.cut or not at.name:
            self.pending = None
            return
        if rollback and argv[0] in {"switchover", "change-provider"}:
            self.pending = None
            self.give(at, *argv[: argv.index("--timeout")], "--rollback", seed=seed)
        else:
            self.give(at, *argv, seed=seed)
            self.pending = None

    # -- rules: nodes that are lost --------------------------------------------------------

    @rule(when=lambda self: not self.away(), number=number, root=either)
    def lose(self, number: int, root: bool) -> None:
        node = self.ledger.root if root else self.node(number, "branch", "leaf")
        if node is not None:
            self.log.append(f"{node.name} is lost")
            self.stage.cut(node)
            if node is self.ledger.root:
                self.ledger.lose(node)

    @rule(
        when=lambda self: self.cut() is not None,
        number=number,
        accept=either,
        fault=fault,
        seed=seed,
    )
    def takeover_of_the_dead(
        self, number: int, accept: bool, fault: tuple[int, bool] | None, seed: int
    ) -> None:
        lost, new = self.cut(), self.node(number, "branch")
        if lost is not None and new is not None:
            argv = ["takeover", lost.name, "--failover", *LIMITS, *["--allow-data-loss"] * accept]
            self.give(new, *argv, fault=fault, seed=seed)

    @rule(when=lambda self: self.cut() is not None)
    def return_of_the_lost(self) -> None:
        self.come_back()

    @rule(
        when=lambda self: self.ledger.away and self.cut() is None,
        at=number,
        both=either,
        fault=fault,
        seed=seed,
    )
    def resurrect(self, at: int, both: bool, fault: tuple[int, bool] | None, seed: int) -> None:
        self.take_back(at, ["--undo", "--resync"] if both else ["--resync"], fault, seed)

    # -- rules: nodes and tables that come and go ------------------------------------------

    @rule(at=number, number=number, fault=fault, seed=seed)
    def drop_node(self, at: int, number: int, fault: tuple[int, bool] | None, seed: int) -> None:
        node = self.node(number, "leaf", "branch")
        others = [p for p in self.stage.places if p.name and not p.cut and p is not node]
        if node is not None and others and len(others) > 2:
            self.give(others[at % len(others)], "drop-node", node.name, fault=fault, seed=seed)
            self.notice_dropped()

    @rule(number=number, kind=one_of("branch", "leaf"), fault=fault, seed=seed)
    def create_node(
        self, number: int, kind: str, fault: tuple[int, bool] | None, seed: int
    ) -> None:
        spare = [p for p in self.stage.places if not p.name]
        provider = self.node(number, "root", "branch")
        if not spare or provider is None:
            return
        place = spare[0]
        self.names += 1
        name = f"n{place.slot}_{self.names}"
        argv = (f"create-{kind}", name, place.database.dsn)
        before = self.pending
        answer = self.give(
            place, *argv, "--provider", provider.database.dsn, fault=fault, seed=seed
        )
        if answer is None:
            answer = self.give(place, *argv, "--provider", provider.database.dsn, seed=seed)
            self.pending = before
        if ledger.look(place) is not None:
            place.name, place.born = name, place.value(NEWEST) or 1
            self.give(place, "add-table", *TABLES, seed=seed)

    @rule(at=number, number=number, fault=fault, seed=seed)
    def rename_node(self, at: int, number: int, fault: tuple[int, bool] | None, seed: int) -> None:
        node, asked = self.node(number), self.node(at)
        if node is None or asked is None:
            return
        self.names += 1
        new = f"n{node.slot}_{self.names}"
        argv = ("rename-node", node.name, new)
        self.give(asked, *argv, fault=fault, seed=seed)
        if self.pending == (asked, argv):
            self.pending = None
            self.give(asked, *argv, seed=seed)
        self.read_names()

    def read_names(self) -> None:
        for place in self.stage.places:
            if place.name:
                found = place.value("select node_name from pgq_node.node_info")
                place.name = found or place.name

    @rule(number=number, which=number)
    def table_leaves_or_comes(self, number: int, which: int) -> None:
        node, table = self.node(number, "branch", "leaf"), TABLES[which % len(TABLES)]
        if node is not None and node not in self.ledger.beyond:
            kept = node.value("select local from londiste.table_info where table_name = %s", table)
            self.give(node, "remove-table" if kept else "add-table", table)

    @rule(at=number, number=number)
    def tag(self, at: int, number: int) -> None:
        node = self.node(number)
        asked = self.node(at)
        if node is not None and asked is not None and node is not asked:
            self.give(asked, "tag-dead", node.name)
            self.give(asked, "tag-alive", node.name)
