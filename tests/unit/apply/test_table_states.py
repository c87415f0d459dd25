"""The table states, and the hand-over simulated with transactions, ticks, kills and restarts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from londiste.db.names import TableName
from londiste.db.snapshot import Snapshot
from londiste.errors import LondisteError, StateError
from londiste.replication.failover import readiness
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import states
from londiste.replication.tablesync.states import (
    By,
    CatchingUp,
    DoSync,
    InCopy,
    Missing,
    Ok,
    SyncState,
    TableSyncSnapshot,
    WannaSync,
)

STATES: list[SyncState] = [Missing(), InCopy(), CatchingUp(), WannaSync(7), DoSync(8), Ok()]


@pytest.mark.parametrize("state", STATES, ids=str)
def test_a_state_survives_being_stored(state: SyncState) -> None:
    assert states.from_text(states.to_text(state)) == state


def test_the_stored_texts_are_those_of_other_workers() -> None:
    assert [states.to_text(state) for state in STATES] == [
        None,
        "in-copy",
        "catching-up",
        "wanna-sync:7",
        "do-sync:8",
        "ok",
    ]
    assert states.from_text("ok?") == Ok()
    assert states.from_text("in-copy?") == InCopy()


@pytest.mark.parametrize("text", ["", "wanna-sync", "do-sync:x", "ok:1", "in-copy:3", "synced"])
def test_a_text_that_is_no_state_is_refused(text: str) -> None:
    with pytest.raises(StateError, match="not a table state"):
        states.from_text(text)


@pytest.mark.parametrize("state", STATES, ids=str)
def test_at_most_one_process_applies_a_table(state: SyncState) -> None:
    assert sum(states.interesting(by, state) for by in By) <= 1


def test_the_copy_process_past_the_hand_over_tick_is_an_error() -> None:
    with pytest.raises(StateError, match="past the hand-over tick 8"):
        states.next_state(DoSync(8), TableSyncSnapshot(By.COPY, tick=9))


def test_a_snapshot_covers_every_earlier_one() -> None:
    early, late = Snapshot.parse("10:20:12,15"), Snapshot.parse("12:22:12,21")
    assert late.covers(early)
    assert not early.covers(late)
    assert Snapshot.parse("10:12:").covers(Snapshot.parse("10:20:12,13,14,15,16,17,18,19"))


@given(st.data())
def test_covers_is_the_same_as_seeing_every_transaction_that_the_other_sees(
    data: st.DataObject,
) -> None:
    def snapshot() -> Snapshot:
        xmin = data.draw(st.integers(1, 8))
        xmax = data.draw(st.integers(xmin, 12))
        running = data.draw(st.sets(st.sampled_from(range(xmin, xmax)))) if xmax > xmin else set()
        return Snapshot(xmin, xmax, frozenset(running))

    one, other = snapshot(), snapshot()
    assert one.covers(other) == all(one.sees(x) for x in range(1, 14) if other.sees(x))


# -- the simulation -------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """What is under test, replaceable one by one."""

    next_state: Callable[[SyncState, TableSyncSnapshot], SyncState] = states.next_state
    interesting: Callable[[By, SyncState], bool] = states.interesting
    may_take_batch: Callable[[By, SyncState], bool] = states.may_take_batch
    in_copy: Callable[[int, Snapshot | None], bool] = states.in_copy
    snapshot_spent: Callable[[Snapshot | None, Snapshot], bool] = states.snapshot_spent


@dataclass
class World:
    """Everything that survives a kill: the provider, and the target's committed data."""

    random: random.Random
    next_txid: int = 5
    running: set[int] = field(default_factory=set)
    committed: set[int] = field(default_factory=set)
    ticks: list[Snapshot] = field(default_factory=list)
    rows: Counter[int] = field(default_factory=Counter)
    state: str | None = None
    snapshot: Snapshot | None = None
    main_tick: int = 0
    copy_tick: int | None = None

    def __post_init__(self) -> None:
        self.tick()

    def take_snapshot(self) -> Snapshot:
        xmin = min(self.running, default=self.next_txid)
        return Snapshot(xmin, self.next_txid, frozenset(self.running))

    def begin(self) -> None:
        self.running.add(self.next_txid)
        self.next_txid += 1

    def commit(self) -> None:
        if self.running:
            txid = self.random.choice(sorted(self.running))
            self.running.discard(txid)
            self.committed.add(txid)

    def tick(self) -> None:
        self.ticks.append(self.take_snapshot())

    def batch(self, after: int, upto: int) -> list[int]:
        old, new = self.ticks[after], self.ticks[upto]
        return [x for x in sorted(self.committed) if new.sees(x) and not old.sees(x)]

    def apply(self, rules: Rules, by: By, state: SyncState, after: int, upto: int) -> None:
        if rules.interesting(by, state):
            self.rows.update(
                x for x in self.batch(after, upto) if not rules.in_copy(x, self.snapshot)
            )


def main_worker(world: World, rules: Rules) -> Iterator[None]:
    """Every ``yield`` is a place where the process may be killed or put to sleep."""
    while True:
        state = states.from_text(world.state)
        new = rules.next_state(
            state,
            TableSyncSnapshot(
                By.MAIN, tick=world.main_tick, copy_slot_free=True, ok_on_provider=True
            ),
        )
        yield
        if new != state:
            world.state = states.to_text(new)
            yield
        if not rules.may_take_batch(By.MAIN, new) or world.main_tick + 1 >= len(world.ticks):
            yield
            continue
        joined = 1 if isinstance(new, WannaSync) else world.random.randint(1, 3)
        upto = min(world.main_tick + joined, len(world.ticks) - 1)
        yield
        world.apply(rules, By.MAIN, new, world.main_tick, upto)
        world.main_tick = upto
        yield


def copy_process(world: World, rules: Rules) -> Iterator[None]:
    while True:
        state = states.from_text(world.state)
        if not isinstance(state, states.COPYING):
            world.copy_tick = None if isinstance(state, Ok) else world.copy_tick
            yield
            continue
        if isinstance(state, InCopy):
            if world.copy_tick is None:
                world.copy_tick = len(world.ticks) - 1
                yield
            world.rows.clear()
            yield
            snapshot = world.take_snapshot()
            visible = [x for x in world.committed if snapshot.sees(x)]
            yield
            for txid in visible:
                world.rows[txid] += 1
            yield
            world.snapshot = snapshot
            world.state = states.to_text(
                rules.next_state(state, TableSyncSnapshot(By.COPY, copied=True))
            )
            yield
            continue
        assert world.copy_tick is not None
        available = world.copy_tick + 1 < len(world.ticks)
        spent = rules.snapshot_spent(world.snapshot, world.ticks[world.copy_tick])
        new = rules.next_state(
            state,
            TableSyncSnapshot(By.COPY, tick=world.copy_tick, caught_up=not available and spent),
        )
        yield
        if new != state:
            if isinstance(new, Ok):
                world.snapshot = None
            world.state = states.to_text(new)
            yield
        elif rules.may_take_batch(By.COPY, state) and available:
            world.apply(rules, By.COPY, state, world.copy_tick, world.copy_tick + 1)
            world.copy_tick += 1
            yield


class Diverged(Exception):
    """A row is missing or there twice, or the table never became ok."""


def simulate(rules: Rules, actions: list[str], seed: int) -> None:
    world = World(random.Random(seed))
    processes = {"main": main_worker(world, rules), "copy": copy_process(world, rules)}
    starts = {"main": main_worker, "copy": copy_process}

    def act(action: str) -> None:
        if action in processes:
            next(processes[action])
        elif action.startswith("kill "):
            name = action.removeprefix("kill ")
            processes[name] = starts[name](world, rules)
        else:
            getattr(world, action)()

    for action in actions:
        act(action)
    while world.running:
        world.commit()
    for _ in range(400):
        if world.state == "ok" and world.main_tick == len(world.ticks) - 1:
            break
        if world.random.random() < 0.05:
            world.tick()
        act(world.random.choice(["main", "copy"]))
    world.tick()
    for _ in range(400):
        act("main")
        act("copy")
        if world.state == "ok" and world.main_tick == len(world.ticks) - 1:
            break
    if world.state != "ok" or world.snapshot is not None:
        raise Diverged(f"state {world.state}, snapshot {world.snapshot}")
    if world.rows != Counter(world.committed):
        raise Diverged(f"{world.rows} instead of {sorted(world.committed)}")


ACTIONS = ["main"] * 6 + ["copy"] * 6 + ["begin", "begin", "commit", "commit", "tick", "tick"]
ACTIONS += ["kill main", "kill copy"]


@settings(max_examples=400)
@given(st.lists(st.sampled_from(ACTIONS), max_size=250), st.integers(0, 1 << 30))
def test_every_row_reaches_the_table_once_and_the_table_becomes_ok(
    actions: list[str], seed: int
) -> None:
    simulate(Rules(), actions, seed)


def _past_the_hand_over(by: By, state: SyncState) -> bool:
    return True if isinstance(state, DoSync) else states.may_take_batch(by, state)


def _copy_goes_on_while_it_waits(by: By, state: SyncState) -> bool:
    return True if isinstance(state, WannaSync) else states.may_take_batch(by, state)


def _hand_over_at_the_copys_tick(now: SyncState, seen: TableSyncSnapshot) -> SyncState:
    new = states.next_state(now, seen)
    return DoSync(now.tick) if isinstance(now, WannaSync) and isinstance(new, DoSync) else new


def _hand_over_early(now: SyncState, seen: TableSyncSnapshot) -> SyncState:
    if isinstance(now, WannaSync) and seen.by is By.MAIN:
        return DoSync(max(seen.tick, now.tick))
    return states.next_state(now, seen)


def _ok_too_early(now: SyncState, seen: TableSyncSnapshot) -> SyncState:
    if isinstance(now, DoSync) and seen.by is By.COPY:
        return Ok()
    return states.next_state(now, seen)


def _main_joins_in(by: By, state: SyncState) -> bool:
    return isinstance(state, Ok | WannaSync) if by is By.MAIN else states.interesting(by, state)


MUTANTS = {
    "main does not wait in front of the hand-over": Rules(may_take_batch=_past_the_hand_over),
    "copy goes on while it waits": Rules(may_take_batch=_copy_goes_on_while_it_waits),
    "hand-over at the copy's tick": Rules(next_state=_hand_over_at_the_copys_tick),
    "hand-over before main is there": Rules(next_state=_hand_over_early),
    "ok before the hand-over tick": Rules(next_state=_ok_too_early),
    "main applies in wanna-sync": Rules(interesting=_main_joins_in),
    "copied rows are applied again": Rules(in_copy=lambda txid, snapshot: False),
    "snapshot dropped too early": Rules(snapshot_spent=lambda copy, tick: True),
}


def _schedule(seed: int) -> list[str]:
    chooser = random.Random(seed)
    return [chooser.choice(ACTIONS) for _ in range(chooser.randint(20, 250))]


@pytest.mark.parametrize("rules", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_wrong_rule_is_caught(rules: Rules) -> None:
    caught = 0
    for seed in range(300):
        try:
            simulate(rules, _schedule(seed), seed)
        except (Diverged, LondisteError):
            caught += 1
    assert caught > 0


def test_the_right_rules_pass_the_schedules_that_catch_wrong_ones() -> None:
    for seed in range(300):
        simulate(replace(Rules()), _schedule(seed), seed)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, "waits for its copy"),
        ("in-copy", "is being copied"),
        ("catching-up", "catches up"),
        ("do-sync:8", "catches up"),
    ],
)
def test_a_node_that_is_no_root_yet_says_what_its_table_waits_for(
    state: str | None, words: str
) -> None:
    name = TableName("public", "orders")
    old = ReplicatedTable(name, name, local=True, state="ok")
    new = ReplicatedTable(name, name, local=True, state=state)
    [blocker] = readiness.findings("leaf", [old], [new], None, (), {}, {})
    assert blocker.problem == f"table public.orders is not in sync: it {words}"


def test_a_node_with_a_table_in_partitions_is_not_ready_to_be_the_root() -> None:
    name = TableName("public", "orders")
    attrs = {"handler": "monthly_field(part_field=made)"}
    new = ReplicatedTable(name, name, local=True, state="ok", attrs=attrs)
    for old in (replace(new, attrs={}), new):
        [blocker] = readiness.findings("branch", [old], [new], None, (), {}, {})
        assert "has its rows in partitions" in blocker.problem
        assert blocker.mend == "change-handler public.orders"


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ("direct(skip_fields=secret)", "branch replicates only a subset of table public.orders"),
        (
            "direct(event_types=I,U)",
            "table public.orders of branch does not have the rows of the root: it writes I, U"
            " events only",
        ),
        (
            "applyfn(func_name=public.f)",
            "table public.orders of branch does not have the rows of the root: a function applies"
            " its events",
        ),
        ("qsplitter(queue=other)", "branch replicates only a subset of table public.orders"),
        ("direct(row_mode=keep_latest)", ""),
        ("multimaster(timefield=at)", ""),
        ("nop", ""),
    ],
)
def test_a_handler_whose_rows_are_others_is_no_root(handler: str, problem: str) -> None:
    name = TableName("public", "orders")
    new = ReplicatedTable(name, name, local=True, state="ok", attrs={"handler": handler})
    # With the same handler, which has no effect on the root, it is not another.
    found = readiness.findings("branch", [new], [new], None, (), {}, {})
    assert [one.problem for one in found] == [problem] * bool(problem)
    if problem:
        other = readiness.findings("branch", [replace(new, attrs={})], [new], None, (), {}, {})
        assert other == found
        assert found[0].mend == "change-handler public.orders"
