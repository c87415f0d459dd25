"""A cascade whose nodes change places at random, with commands that are interrupted.

Hypothesis chooses what happens: rows, ticks, batches, every command that changes the cascade,
nodes that are lost and come back.  After each of it the ledger says what every node has to hold.
In the end whatever is under way is finished by the command that the program names, and all nodes
are equal: rows, ticks, and the events between them.
"""

from __future__ import annotations

import collections
import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from londiste.cascade.switching import operation
from tests.fix_cascade import Answer
from tests.fix_cluster import Server
from tests.scenarios import ledger
from tests.scenarios.harness import QUEUE
from tests.scenarios.in_process import Killed, Place, Stage, patched, words
from tests.scenarios.ledger import TABLES, Ledger
from tests.waiting import wait_for

SCHEMA = """
create table public.a (id int primary key, v text);
create table public.b (x int, y int, v text, primary key (x, y));
create table public.c (id bigserial primary key, v text);
"""
#: Seconds, of the clock that goes on while nobody sleeps.
LIMITS = ("--timeout", "4")
BLOCK = ("--block", "4")

NUMBER = st.integers(0, 11)
SEED = st.integers(0, 1 << 16)
#: How a command ends early: after so many steps and waits, killed or by Ctrl-C.
FAULT = st.one_of(st.none(), st.none(), st.tuples(st.integers(1, 24), st.booleans()))
#: Where a worker dies.
DEATHS = (
    "worker.after-next-batch",
    "worker.mid-apply",
    "worker.before-commit",
    "worker.after-commit",
    "worker.before-finish",
)


def _writes(chance: random.Random) -> list[str]:
    """A transaction."""
    some = lambda: chance.randint(1, 12)  # noqa: E731
    texts = {
        "insert into public.a values ({0}, '{2}') on conflict do nothing": 4,
        "update public.a set v = v || '{2}' where id = {0}": 3,
        "update public.a set id = id + 100 where id = {0}": 1,
        "delete from public.a where id in ({0}, {1}, {0} + 100)": 1,
        "insert into public.b values ({0}, {1}, '{2}') on conflict do nothing": 4,
        "update public.b set v = '{2}', y = y where x = {0}": 2,
        "update public.b set y = y + 20 where x = {0} and y < 200": 1,
        "delete from public.b where y = {1}": 1,
        "insert into public.c (v) values ('{2}')": 4,
        "update public.c set v = null where id % 12 = {0}": 1,
        "truncate public.b": 0.2,
    }
    chosen = chance.choices(list(texts), list(texts.values()), k=chance.randint(1, 4))
    return [text.format(some(), some(), chance.randint(0, 999)) for text in chosen]


class Cascade(RuleBasedStateMachine):
    """One run; ``stage`` is set for all of them."""

    stage: Stage
    told: collections.Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.pending: tuple[Place, tuple[str, ...]] | None = None
        self.violation: AssertionError | None = None
        self.passes = 0
        self.fault: tuple[int, bool] | None = None
        self.names = 0

    @initialize()
    def begin(self) -> None:
        stage = self.stage
        stage.between = lambda where: None
        stage.dies_at = None
        stage.restore()
        self.ledger = Ledger(stage, stage.places[0])
        self.ledger.begin()
        self.log: list[str] = []

    # -- what happens meanwhile ------------------------------------------------------------

    def between(self, where: str) -> None:
        """At each step and each wait of a command; what is wrong ends it, and is told later."""
        try:
            self.happen()
        except AssertionError as error:
            self.violation = error
            raise Killed from error
        if self.fault is not None:
            self.passes += 1
            if self.passes == self.fault[0]:
                raise Killed if self.fault[1] else KeyboardInterrupt

    def happen(self) -> None:
        """Rows, ticks, batches, or nothing."""
        self.ledger.observe()
        chance = self.stage.random
        if chance.random() < 0.25:
            self.some_rows(chance)
        if chance.random() < 0.2:
            self.some_tick()
        if chance.random() < 0.2:
            self.stage.meanwhile()
        self.ledger.observe()

    def some_rows(self, chance: random.Random) -> None:
        """A transaction on the root, when it takes any."""
        root, texts = self.ledger.root, _writes(chance)
        conn = root.session()
        try:
            with conn.transaction():
                for text in texts:
                    conn.execute(text.encode())
        except psycopg.Error as error:
            # What is not there; a sequence that gives a number twice is no such error.
            ordinary = error.sqlstate == "LD102" or (
                error.sqlstate == "23505" and "c_pkey" not in str(error)
            )
            assert ordinary, f"{texts}: {error}"
            return
        self.ledger.wrote()

    def some_tick(self) -> None:
        """The root's ticker, also of one that is lost."""
        root = self.ledger.root
        root.rows("select pgq.force_tick(%s)", QUEUE)
        root.rows("select pgq.ticker()")
        self.ledger.observe()
        self.log.append(f"  tick {root.value('select max(tick_id) from pgq.tick')}")

    # -- choosing --------------------------------------------------------------------------

    def node(self, number: int, *kinds: str, cut: bool = False) -> Place | None:
        """Some node that answers, of these kinds."""
        found = [
            p
            for p in self.stage.places
            if p.name
            and p.cut is cut
            and (not kinds or ((s := ledger.look(p)) is not None and s.kind in kinds))
        ]
        return found[number % len(found)] if found else None

    def give(
        self,
        at: Place | None,
        *argv: str,
        fault: tuple[int, bool] | None = None,
        seed: int = 0,
    ) -> Answer | None:
        """A command with what happens meanwhile; None when it was interrupted."""
        if at is None:
            return None
        stage = self.stage
        stage.random.seed(seed)
        stage.between, self.passes, self.fault = self.between, 0, fault
        self.log.append(f"{at.name}: {words(argv)} {fault or ''} {seed}")
        try:
            answer = stage.command(at, *argv)
        except Killed:
            self.log.append("  killed")
            answer = None
        finally:
            stage.between = lambda where: None
        if self.violation is not None:
            self.broken = True
            raise AssertionError(f"{self.violation}\n" + "\n".join(self.log))
        if answer is not None and answer.code == 130:
            self.log.append("  Ctrl-C")
            answer = None
        if answer is None:
            self.pending = (at, argv)
            self.told[f"{argv[0]} interrupted"] += 1
        else:
            said = answer.err.strip().splitlines()
            self.log.append(
                f"  {answer.code} {' | '.join(said[-3:] if answer.code else said[-1:])}"
            )
            assert answer.code in {0, 2, 3, 6}, (argv, answer, self.log)
            assert answer.code == 0 or "hint:" in answer.err, answer
            self.told[f"{argv[0]} {answer.code}"] += 1
            if self.pending == (at, argv) and answer.code == 0:
                self.pending = None
        return answer

    # -- rules: rows, ticks, batches -------------------------------------------------------

    @rule(seed=SEED)
    def write(self, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(chance.randint(1, 5)):
            self.some_rows(chance)

    @rule()
    def tick(self) -> None:
        self.some_tick()

    @rule(number=NUMBER, count=st.integers(1, 4))
    def work(self, number: int, count: int) -> None:
        place = self.node(number)
        if place is not None:
            self.log.append(f"{place.name} works")
            for _ in range(count):
                self.stage.unit(place)

    @rule(seed=SEED)
    def everybody_works(self, seed: int) -> None:
        self.stage.random.seed(seed)
        self.log.append("all work")
        for _ in range(4):
            self.stage.meanwhile()

    @rule(
        number=NUMBER,
        point=st.sampled_from(DEATHS),
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

    @rule(at=NUMBER, number=NUMBER, to=NUMBER, fault=FAULT, seed=SEED)
    def change_provider(
        self, at: int, number: int, to: int, fault: tuple[int, bool] | None, seed: int
    ) -> None:
        node, new = self.node(number, "branch", "leaf"), self.node(to, "root", "branch")
        if node is not None and new is not None:
            argv = ("change-provider", "--node", node.name, "--provider", new.name)
            self.give(self.node(at), *argv, *LIMITS, fault=fault, seed=seed)

    @rule(at=NUMBER, number=NUMBER, word=st.sampled_from(["pause", "resume", "resume"]))
    def pause_or_resume(self, at: int, number: int, word: str) -> None:
        node = self.node(number)
        if node is not None:
            self.give(self.node(at), word, "--node", node.name, *LIMITS)

    @rule(at=NUMBER, number=NUMBER, everyone=st.booleans(), fault=FAULT, seed=SEED)
    def switchover(
        self, at: int, number: int, everyone: bool, fault: tuple[int, bool] | None, seed: int
    ) -> None:
        new = self.node(number, "branch")
        if new is not None:
            argv = ["switchover", "--to", new.name, *LIMITS, *BLOCK, *["--all"] * everyone]
            self.give(self.node(at), *argv, fault=fault, seed=seed)

    @rule(old=NUMBER, number=NUMBER, everyone=st.booleans(), fault=FAULT, seed=SEED)
    def takeover_of_a_branch(
        self, old: int, number: int, everyone: bool, fault: tuple[int, bool] | None, seed: int
    ) -> None:
        replaced, new = self.node(old, "branch"), self.node(number, "branch")
        if replaced is not None and new is not None:
            argv = ["takeover", replaced.name, *LIMITS, *["--all"] * everyone]
            self.give(new, *argv, fault=fault, seed=seed)

    @rule(seed=SEED, rollback=st.booleans())
    @precondition(lambda self: self.pending is not None)
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

    @rule(number=NUMBER, root=st.booleans())
    @precondition(lambda self: not self.away())
    def lose(self, number: int, root: bool) -> None:
        node = self.ledger.root if root else self.node(number, "branch", "leaf")
        if node is not None:
            self.log.append(f"{node.name} is lost")
            self.stage.cut(node)
            if node is self.ledger.root:
                self.ledger.lose(node)

    @rule(number=NUMBER, accept=st.booleans(), fault=FAULT, seed=SEED)
    @precondition(lambda self: self.cut() is not None)
    def takeover_of_the_dead(
        self, number: int, accept: bool, fault: tuple[int, bool] | None, seed: int
    ) -> None:
        lost, new = self.cut(), self.node(number, "branch")
        if lost is not None and new is not None:
            argv = ["takeover", lost.name, "--dead", *LIMITS, *["--accept-loss"] * accept]
            self.give(new, *argv, fault=fault, seed=seed)

    @rule()
    @precondition(lambda self: self.cut() is not None)
    def come_back(self) -> None:
        lost = self.cut()
        assert lost is not None
        self.log.append(f"{lost.name} is back")
        self.stage.mend(lost)
        if lost in self.ledger.away and self.ledger.root is lost:
            self.ledger.found(lost)

    @rule(at=NUMBER, both=st.booleans(), fault=FAULT, seed=SEED)
    @precondition(lambda self: self.away() and self.cut() is None)
    def resurrect(self, at: int, both: bool, fault: tuple[int, bool] | None, seed: int) -> None:
        self.take_back(at, ["--undo", "--resync"] if both else ["--resync"], fault, seed)

    def take_back(
        self, at: int, choice: list[str], fault: tuple[int, bool] | None, seed: int
    ) -> None:
        (old,) = self.ledger.away
        self.names += 1
        export = str(self.stage.directory / f"lost{old.slot}.{self.names}.{seed}")
        argv = ("resurrect", "--node", old.name, "--export", export, *choice)
        self.give(self.node(at), *argv, fault=fault, seed=seed)
        self.ledger.observe()

    # -- rules: nodes and tables that come and go ------------------------------------------

    @rule(at=NUMBER, number=NUMBER, fault=FAULT, seed=SEED)
    def drop_node(self, at: int, number: int, fault: tuple[int, bool] | None, seed: int) -> None:
        node = self.node(number, "leaf", "branch")
        others = [p for p in self.stage.places if p.name and not p.cut and p is not node]
        if node is not None and others and len(others) > 2:
            self.give(others[at % len(others)], "drop-node", node.name, fault=fault, seed=seed)
            self.notice_dropped()

    def notice_dropped(self) -> None:
        for place in self.stage.places:
            if place.name and ledger.look(place) is None:
                self.stage.stop_worker(place)
                place.name = ""
                if place in self.ledger.beyond:
                    self.ledger.beyond.remove(place)

    @rule(number=NUMBER, kind=st.sampled_from(["branch", "leaf"]), fault=FAULT, seed=SEED)
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
            place.name, place.born = name, place.value(_NEWEST) or 1
            self.give(place, "add-table", *TABLES, seed=seed)

    @rule(at=NUMBER, number=NUMBER, fault=FAULT, seed=SEED)
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

    @rule(number=NUMBER, which=NUMBER)
    def table_leaves_or_comes(self, number: int, which: int) -> None:
        node, table = self.node(number, "branch", "leaf"), TABLES[which % len(TABLES)]
        if node is not None and node not in self.ledger.beyond:
            kept = node.value("select local from londiste.table_info where table_name = %s", table)
            self.give(node, "remove-table" if kept else "add-table", table)

    @rule(at=NUMBER, number=NUMBER)
    def tag(self, at: int, number: int) -> None:
        node = self.node(number)
        asked = self.node(at)
        if node is not None and asked is not None and node is not asked:
            self.give(asked, "tag-dead", node.name)
            self.give(asked, "tag-alive", node.name)

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """What goes wrong comes with all that has happened; then nothing is finished."""
        try:
            yield
        except AssertionError as error:
            self.broken = True
            raise AssertionError(f"{error}\n" + "\n".join(self.log)) from None

    # -- what has to hold ------------------------------------------------------------------

    def cut(self) -> Place | None:
        return next((p for p in self.stage.places if p.cut), None)

    def away(self) -> bool:
        return bool(self.cut() or self.ledger.away or self.ledger.beyond)

    @invariant()
    def every_node_holds_what_it_has_to(self) -> None:
        if hasattr(self, "ledger"):
            with self.telling():
                self.ledger.check()

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        if not self.broken:
            with self.telling():
                self.finish()

    # -- the end ---------------------------------------------------------------------------

    def must(self, at: Place | None, *argv: str, seed: int = 0) -> None:
        answer = self.give(at, *argv, seed=seed)
        assert answer is not None and answer.code == 0, f"{argv}: {answer}"

    def finish(self) -> None:
        """As the runbook has it: nodes come back, what is under way is finished, all go on."""
        cut = self.cut()
        if cut is not None:
            self.come_back()
        for place, seen in list(self.ledger.nodes()):
            if seen.paused:
                place.rows("select pgq_node.set_consumer_paused(%s, %s, false)", QUEUE, place.job)
        self.finish_what_is_under_way()
        if self.pending is not None and self.pending[1][0] == "drop-node":
            # Nothing else says that it was begun.
            answer = self.give(self.ledger.root, *self.pending[1])
            assert answer is not None and (answer.code == 0 or "has no node" in answer.err), answer
            self.notice_dropped()
        if self.ledger.away:
            self.take_back(0, ["--undo", "--resync"], None, 0)
            assert not self.ledger.away
        asked = self.ledger.root
        for place in list(self.ledger.beyond):
            self.must(asked, "drop-node", place.name)
            self.notice_dropped()
        dead = [n for (n,) in asked.rows("select node_name from pgq_node.node_location where dead")]
        if dead:
            self.must(asked, "tag-alive", *dead)
        for place, seen in list(self.ledger.nodes()):
            if seen.paused:
                self.must(asked, "resume", "--node", place.name, *LIMITS)
        self.settle()
        queues = [p for p, s in self.ledger.nodes() if s.kind != "leaf"]
        self.told["events compared"] += ledger.same_events(queues)
        self.told["runs"] += 1
        self.told["roots"] += self.ledger.roots

    def finish_what_is_under_way(self) -> None:
        for _ in range(4):
            notes = {}
            for place, _seen in [*self.ledger.nodes(), *((p, None) for p in self.ledger.away)]:
                noted = operation.find(place.session(), QUEUE)
                if noted is not None:
                    notes[place.slot] = (place, noted)
            if not notes:
                return
            place, noted = next(iter(notes.values()))
            argv = noted.command().split()[1:]
            more = LIMITS if argv[0] != "resurrect" else ("--undo", "--resync")
            self.must(place, *argv, *more)
        raise AssertionError(f"still under way: {notes}")

    def settle(self) -> None:
        """Until every node has what the root has."""
        self.ledger.observe()
        self.some_tick()
        self.ledger.observe()
        newest = max(self.ledger.at)

        def caught_up() -> bool:
            self.stage.meanwhile()
            return all(
                place is self.ledger.root
                or (
                    seen.tick >= newest
                    and in_step_or_gone(place)
                    and (seen.kind == "leaf" or place.value(_NEWEST) >= newest)
                )
                for place, seen in self.ledger.nodes()
            )

        try:
            wait_for(caught_up, timeout=60, what=f"tick {newest} on every node")
        except AssertionError as error:
            stands = {p.name: (s, p.error) for p, s in self.ledger.nodes()}
            raise AssertionError(f"{error}\n{stands}") from None
        self.ledger.check()


_NEWEST = "select max(tick_id) from pgq.tick"


def in_step_or_gone(place: Place) -> bool:
    """Whether no table is being copied."""
    return not place.value(
        "select count(*) from londiste.table_info where local and merge_state is distinct from 'ok'"
    )


def _stage(directory: Any, server: Server) -> Stage:
    """n1 (root) -> n2 -> n4 (leaf), n1 -> n3 -> n5 (leaf), and a spare database; saved."""
    stage = Stage(directory, server)
    for _ in range(6):
        stage.place(SCHEMA)
    n1, n2, n3, n4, n5, _spare = stage.places
    for place, kind, provider in (
        (n1, "root", None),
        (n2, "branch", n1),
        (n3, "branch", n1),
        (n4, "leaf", n2),
        (n5, "leaf", n3),
    ):
        place.name = f"n{place.slot + 1}"
        more = ["--provider", provider.database.dsn] if provider else []
        for argv in (
            [f"create-{kind}", place.name, place.database.dsn, *more],
            ["add-table", "public.a", "--trigger-arg", "backup"],
            ["add-table", "public.b", "public.c"],
        ):
            if argv[0] == "add-table" and provider is not None:
                argv.append("--expect-sync")
            if kind == "leaf" and "--trigger-arg" in argv:
                argv = [w for w in argv if w not in {"--trigger-arg", "backup"}]
            answer = stage.command(place, *argv)
            assert answer.code == 0, answer
    for _ in range(10):
        n1.rows("select pgq.force_tick(%s)", QUEUE)
        n1.rows("select pgq.ticker()")
        stage.meanwhile()
    stage.save()
    return stage


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, own_servers: Callable[..., Any]
) -> Iterator[Stage]:
    server = own_servers("machine", settings={"max_connections": "200"})
    made = _stage(tmp_path_factory.mktemp("machine"), server)
    with patched(made):
        yield made


def _run(stage: Stage, runs: int, steps: int, *, same: bool) -> None:
    told: collections.Counter[str] = collections.Counter()
    machine = type("Machine", (Cascade,), {"stage": stage, "told": told})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=hypothesis.settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            derandomize=same,
            database=None,
            # Who does what in a wait depends on the machine's speed: nothing is to be shrunk.
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )
    print(dict(sorted(told.items())))
    assert told["runs"] >= runs


def test_a_few_random_lives_of_a_cascade(stage: Stage) -> None:
    _run(stage, 5, 20, same=True)


def test_a_life_with_all_that_matters(stage: Stage) -> None:
    """In a fixed order, since few random lives may leave something out."""
    told: collections.Counter[str] = collections.Counter()
    life = type("Life", (Cascade,), {"stage": stage, "told": told})()
    life.begin()
    life.write(1)
    life.tick()
    # n3 is ahead of n2, which takes over; the root has rows that are in no tick.
    life.work(2, 4)
    life.write(2)
    life.lose(0, True)
    life.write(3)
    life.takeover_of_the_dead(0, False, (5, True), 4)
    life.again(5, False)
    life.write(6)
    life.come_back()
    life.resurrect(0, True, (3, True), 7)
    life.again(8, False)
    life.ledger.observe()
    assert not life.ledger.away, life.log
    life.settle()
    life.switchover(2, 0, True, (9, True), 9)
    life.again(10, False)
    life.write(11)
    life.worker_dies(1, "worker.after-commit")
    life.switchover(0, 0, False, (12, False), 12)
    life.again(13, True)
    life.everybody_works(14)
    with life.telling():
        life.ledger.check()
        life.finish()
    assert told["roots"] >= 3, (told, life.log)
    assert told["takeover interrupted"] and told["resurrect interrupted"], told
    assert told["switchover interrupted"], told


def test_a_lost_root_has_one_successor(stage: Stage) -> None:
    life = type("Life", (Cascade,), {"stage": stage, "told": collections.Counter()})()
    life.begin()
    life.lose(0, True)
    takeover = ("takeover", "n1", "--dead", *LIMITS)
    life.must(stage.places[1], *takeover)
    refused = life.give(stage.places[2], *takeover)
    assert refused is not None and refused.code == 3
    assert "node n2 is the root" in refused.err
    life.must(stage.places[1], *takeover)
    with life.telling():
        life.finish()


def test_an_old_root_has_no_event_of_its_own(stage: Stage) -> None:
    """Its worker publishes what it knows in the midst of a switchover."""
    told: collections.Counter[str] = collections.Counter()
    life = type("Life", (Cascade,), {"stage": stage, "told": told})()
    life.begin()
    for new, seed in (("n2", 3556), ("n3", 65535)):
        life.must(stage.places[1], "switchover", "--to", new, *LIMITS, *BLOCK, seed=seed)
    with life.telling():
        life.finish()
    assert told["roots"] == 3


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_two_hundred_random_lives_of_a_cascade(stage: Stage) -> None:
    _run(stage, 200, 30, same=False)
