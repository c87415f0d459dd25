"""Lets a plan happen: commands under faults, revived daemons, and checks after each step."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.nemesis import validators
from tests.nemesis.app_queue import AppConsumer
from tests.nemesis.cast import TICKS, Cast
from tests.nemesis.faults import FAULTS
from tests.nemesis.operations import OPERATIONS, lost_root, merging, migrating, tables
from tests.nemesis.plan import Model, Plan, Step
from tests.nemesis.stage import Stage
from tests.nemesis.watcher import Watcher
from tests.nemesis.writer import Writer
from tests.support.scenarios.forks import Fork
from tests.support.scenarios.processes import tail
from tests.support.waiting import wait_for

#: Seconds after which a command that nothing disturbs any more hangs.
_HANGS = 75.0


@dataclass
class Outcome:
    """What became of a life."""

    life: int
    wrong: list[str] = field(default_factory=list)
    #: The machine itself has failed.
    broken: bool = False
    seconds: float = 0.0
    committed: int = 0
    looks: int = 0
    operation_fault: list[tuple[str, str]] = field(default_factory=list)
    shape_operation: list[tuple[str, str]] = field(default_factory=list)
    work: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


class Life:
    """One life while it happens."""

    def __init__(self, cast: Cast, plan: Plan, model: Model, outcome: Outcome) -> None:
        self.cast, self.plan, self.model, self.outcome = cast, plan, model, outcome
        cast.tables = model.tables
        self.writer = Writer(
            lambda: cast.places[self.model.root].dsn,
            plan.life,
            plan.work,
            plan.more["pause"],
        )
        self.parts = merging.Parts(cast, plan.life) if model.world.merges else None
        self.migration = migrating.Migration(cast) if model.world.migrates else None
        self.writer.queue = self.migration is None
        self.watchers: list[Watcher] = []
        self.consumers: list[AppConsumer] = []
        #: Node -> eras of the writer in which it was the root.
        self.eras: dict[str, list[int]] = defaultdict(list)
        #: Node, table: its rows are not those of the root now.
        self.aside: set[tuple[str, str]] = set()
        #: Lost root -> what was seen of it when it was lost.
        self.losses: dict[str, lost_root.Loss] = {}
        #: The tick at which the present root has begun to take writes.
        self._era_tick = 0
        self._began = time.monotonic()
        #: The fault that the next command meets, if any.
        self._next: tuple[Any, Step] = (None, {})

    def note(self, what: str) -> None:
        self.outcome.log.append(f"{time.monotonic() - self._began:7.3f} {what}")

    def live(self) -> None:
        """From the beginning to the end.  Raises AssertionError at the first thing wrong."""
        for table in self.model.tables:
            for node in self.model.world.providers if self.migration is None else ["old"]:
                with psycopg.connect(self.cast.places[node].dsn, autocommit=True) as conn:
                    conn.execute(table.ddl(subscriber=node != self.model.root).encode())
        self.writer.tables = self.model.tables
        before, nodes = {}, []
        if self.migration is None:
            before = {n: validators.structure(self.cast, n) for n in self.model.subscribers()}
            nodes = list(self.model.world.providers)
        self.watchers = [Watcher(self.cast, n, self) for n in nodes]
        self.consumers = [
            AppConsumer(self.cast, n) for n in nodes if n not in self.model.world.leaves
        ]
        self.eras[self.model.root].append(self.writer.era)
        self.writer.start()
        if self.parts is not None:
            self.parts.start()
        if self.migration is not None:
            self.migration.start()
        for thread in (*self.watchers, *self.consumers):
            thread.start()
        try:
            for number, step in enumerate(self.plan.steps):
                kind = OPERATIONS[step["do"]]
                if kind.when(self.model) and kind.more.takes(self.model, step["args"]):
                    self.note(f"step {number}: {step}")
                    self._step(step)
                    self._settle(f"after step {number}")
            self.note("the end")
            if self.parts is not None:
                self.parts.stop()
            self.writer.calm = True
            self.writer.allowed = {"LD100"} if self.model.compatible else set()
            if self.migration is not None:
                return self.migration.end(self)
            validators.compare_agrees(self)
            self._stop()
            validators.at_the_end(self, before)
        finally:
            for thread in (*self.watchers, *self.consumers):
                thread.stop()
            for other in (self.parts, self.migration):
                if other is not None:
                    other.stop()
            self.outcome.committed = self.writer.committed
            self.outcome.looks = sum(w.looks for w in self.watchers)
            self.outcome.work = dict(self.writer.kinds)
            self.outcome.ends = dict(self.writer.ends)

    def _stop(self) -> None:
        self.writer.stop()
        for watcher in self.watchers:
            watcher.stop()

    # -- steps -----------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        kind, args = OPERATIONS[step["do"]], step["args"]
        new_root = step["do"] in ("switchover", "takeover") and args["to"] != self.model.root
        if step["do"] == "takeover" and step["how"].get("node") == self.model.root:
            step = {**step, "how": {**step["how"], "node": args["to"]}}
        self.writer.calm = step["do"] in ("compare", "repair") or kind.more.migrates
        todo = kind.run(self.model, args)
        fault = FAULTS[step["fault"]] if step["fault"] else None
        at = step["at"] % max(1, len(todo))
        commands = [number for number, one in enumerate(todo) if not callable(one)]
        if kind.more.newer and commands:
            at = commands[step["at"] % len(commands)]
        self.outcome.operation_fault.append((step["do"], step["fault"] or ""))
        numbers = [args["table"]] if "table" in args else self.model.everywhere()
        for number in numbers:
            shape = self.model.table(number).shape.name
            self.outcome.shape_operation.append((shape, step["do"]))
        disturbs = (
            new_root
            or kind.more.migrates
            or (fault is not None and fault.name in ("immediate stop", "end backends"))
        )
        self.writer.allowed = {"LD102", "LD101", "57P01", "55000"} if disturbs else set()
        if self.model.compatible or "trigger" in args:
            # The compatible triggers refuse another key for a row.
            self.writer.allowed.add("LD100")
        if not todo:
            self._traffic(fault, step)
        for number, one in enumerate(todo):
            self._next = (fault if number == at else None, step)
            if callable(one):
                one(self)
            else:
                self.command(one[0], *one[1])
            if self._next[0] is not None:
                self._traffic(*self._next)
        if new_root:
            self.another_root(lambda: kind.more.apply(self.model, args))
        else:
            kind.more.apply(self.model, args)

    def command(self, node: str, *words: str) -> None:
        """Runs a command to its success; under the fault of the step, if this one is to meet it."""
        (fault, step), self._next = self._next, (None, {})
        filled = [w.replace("{directory}", str(self.cast.directory)) for w in words]
        self._command(node, filled, fault, step)

    def lose(self, node: str) -> None:
        """The database of a node is gone, and does not come back in this life."""
        place = self.cast.places[node]
        # Nobody can switch a node that only the lost one has heard of.
        count = "select count(*) from pgq_node.node_location"
        for other in self.model.subscribers():
            wait_for(
                lambda other=other: self.cast.value(other, count) >= len(self.model.replicated),
                timeout=30,
                what=f"the locations of all nodes on {other}",
            )
        if self.plan.more.get("unseen"):
            self.cast.rows(node, lost_root.PAUSE, True)
            self.pass_time(0.3)
        with self.writer.held():
            if place.worker is not None:
                place.worker.kill()
                place.worker = None
            for thread in (*self.watchers, *self.consumers):
                if thread.node == node:
                    thread.stop()
            self.watchers = [w for w in self.watchers if w.node != node]
            self.consumers = [c for c in self.consumers if c.node != node]
            self.cast.close_database(node)
        branches = [n for n in self.model.subscribers() if n not in self.model.world.leaves]
        self.losses[node] = lost_root.Loss(self.cast, node, branches, self.writer.era)

    def compared(self) -> list[str]:
        """Tables that ``compare`` is given."""
        return tables.compared(self.model)

    def joined(self, node: str) -> None:
        """A node is there again; it is watched as those that never left."""
        watcher = Watcher(self.cast, node, self)
        watcher.moved(self._era_tick)
        self.watchers.append(watcher)
        watcher.start()

    def another_root(self, apply: Callable[[], None]) -> None:
        """Applications write to another node from now on."""
        with self.writer.held():
            apply()
            self.writer.moved()
            self.eras[self.model.root].append(self.writer.era)
            self.watched_from_here()

    def watched_from_here(self) -> None:
        """Watchers know what is seen by the ticks after the newest one of the root."""
        newest = f"select max(tick_id) from {TICKS} t"
        self._era_tick = int(self.cast.value(self.model.root, newest) or 0)
        for watcher in self.watchers:
            watcher.moved(self._era_tick)

    def _traffic(self, fault: Any, step: Step) -> None:
        if fault is None or fault.more == "environment":
            self.pass_time(0.2)
            return
        self.pass_time(step["after"])
        with fault.run(self.cast, step["how"], None):
            self.pass_time(step["for"])
        self._revive()

    def pass_time(self, seconds: float) -> None:
        """Time in which applications write; as long as nothing is wrong."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.writer.wrong:
            time.sleep(min(0.05, max(0.0, end - time.monotonic())))

    def revive(self) -> None:
        """As a supervisor does: daemons that were killed start again."""
        wrong = self.cast.revive()
        assert not wrong, "\n".join(wrong)

    def _revive(self) -> None:
        if self.cast.doubles:
            # Both work for one node now: one of them has to notice it.
            self.pass_time(1.5)
            self.cast.end_doubles()
        self.revive()

    def run(self, node: str, *words: str) -> Fork:
        """A command from its beginning to its end."""
        return self._until_end(self.cast.command(node, *words))

    def _until_end(self, fork: Fork) -> Fork:
        """Waits for a command that nothing disturbs any more; daemons are revived."""
        try:
            wait_for(
                lambda: self.revive() or fork.code() is not None,
                timeout=_HANGS,
                what=f"the end of {' '.join(fork.argv)}",
            )
        except AssertionError:
            fork.send(signal.SIGKILL)
            fork.wait(30)
            raise
        return fork

    def _command(self, node: str, words: list[str], fault: Any, step: Step) -> None:
        self.note(f"{node}: londiste {' '.join(words)}" + (f" [{fault.name}]" if fault else ""))
        fork = self._disturbed(node, words, fault, step)
        self._revive()
        if fork.code() == 0:
            return validators.output(fork)
        assert fault is not None, f"without a fault:\n{fork}"
        if (fork.code() or 0) >= 0:
            validators.refusal(fork)
        self.note(f"  {fork.code()}: {fork.err.strip()[-200:]}")
        # What a fault has left may take a moment to be noticed: as the hints say, again.
        for _ in range(4):
            fork = self.run(node, *words)
            if fork.code() == 0:
                return validators.output(fork)
            validators.refusal(fork)
            self.note(f"  again, {fork.code()}: {fork.err.strip()[-300:]}")
            self.pass_time(0.5)
        raise AssertionError(f"again and again:\n{fork}")

    def stays(self, *words: str) -> None:
        """Begins a command that stays, under the fault of the step if it is to meet it."""
        (fault, step), self._next = self._next, (None, {})
        told = f" [{fault.name}]" if fault else ""
        self.note(f"stays: londiste migrate {' '.join(words)}{told}")
        self._begun(lambda **env: self.cast.stay(*words, **env), fault, step)
        self._revive()

    def _disturbed(self, node: str, words: list[str], fault: Any, step: Step) -> Fork:
        """Runs a command; the fault comes in the midst of it, and ends before it or later."""
        return self._until_end(
            self._begun(lambda **env: self.cast.command(node, *words, **env), fault, step)
        )

    def _begun(self, start: Callable[..., Fork], fault: Any, step: Step) -> Fork:
        env = {}
        if fault is not None and fault.more == "environment":
            env = {"LONDISTE_CRASH": f"plan.before-step:{step['how']['step']}"}
        with contextlib.ExitStack() as stack:
            if fault is not None and fault.more == "before":
                stack.enter_context(fault.run(self.cast, step["how"], None))
            fork = start(**env)
            if fault is not None and fault.more is None:
                self._pass_or_end(fork, step["after"])
                stack.enter_context(fault.run(self.cast, step["how"], fork))
                self.pass_time(step["for"])
        return fork

    def _pass_or_end(self, fork: Fork, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and fork.code() is None:
            time.sleep(0.005)

    # -- checks ----------------------------------------------------------------------------

    def _settle(self, where: str) -> None:
        """All nodes get what the root has; then they hold the same rows."""
        for watcher in self.watchers:
            watcher.check()
        with self.writer.held():
            self.note("  applications are held")
            assert not self.writer.wrong, self.writer.wrong[:3]
            if self.model.migration in ("not begun", "over"):
                return
            validators.settle(self, where)
            self.note("  settled")
        if self.parts is not None and self.model.merged:
            self.parts.check(self, where)


def live(stage: Stage, plan: Plan, defect: str = "") -> Outcome:
    """One life; never raises but for an interrupt."""
    outcome = Outcome(plan.life)
    began = time.monotonic()
    model = plan.model()
    more = {**plan.more, "defect": defect}
    try:
        with stage.life(plan.life, model.world, more) as cast:
            life = Life(cast, plan, model, outcome)
            try:
                life.live()
            except (AssertionError, psycopg.Error, OSError) as error:
                text = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
                outcome.wrong.append(text)
                for name, fork in cast.daemons().items():
                    outcome.log.append(f"--- {name}\n{tail(fork.err, 30)}")
                stage.up()
                with contextlib.suppress(AssertionError):
                    life._stop()
            left = cast.close()
            outcome.wrong += [f"left behind: {what}" for what in left]
    except Exception:
        outcome.broken = True
        outcome.wrong.append(traceback.format_exc())
    outcome.seconds = round(time.monotonic() - began, 2)
    if not outcome.wrong:
        shutil.rmtree(stage.directory / f"life{plan.life}", ignore_errors=True)
    return outcome
