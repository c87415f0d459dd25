"""Why a copy in many snapshots is right in the end: it is simulated, with writers and ticks.

The source has transactions that overlap, keys that move across the ranges, rows that are deleted
and inserted again, and TRUNCATE.  Events are applied as states of rows.  At the tick at which the
rules say that the table is consistent it has to be what that tick has seen.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from londiste.copy.resumable_copy import newest
from londiste.copy.sqlapi.attempts import CopiedRange
from londiste.db.snapshot import Snapshot
from londiste.replication.tablesync import states

KEYS = 12
#: A key, its value, and the transactions that made and ended this version.
Version = tuple[int, int, int, int | None]


@dataclass
class Source:
    """A table, its events and its ticks."""

    rand: random.Random
    next_txid: int = 100
    open: dict[int, set[int]] = field(default_factory=dict)
    versions: list[Version] = field(default_factory=list)
    events: list[tuple[int, int | None, int | None]] = field(default_factory=list)
    ticks: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.versions = [(key, key, 1, None) for key in range(0, KEYS, 2)]
        self.tick()

    def snapshot(self) -> Snapshot:
        """What a transaction that begins now sees."""
        return Snapshot(min([*self.open, self.next_txid]), self.next_txid, frozenset(self.open))

    def tick(self) -> None:
        """Records it."""
        self.ticks.append(self.snapshot())

    def read(self, snapshot: Snapshot) -> dict[int, int]:
        """The rows that a snapshot sees; each key once."""
        found = [
            (key, value)
            for key, value, made, ended in self.versions
            if snapshot.sees(made) and (ended is None or not snapshot.sees(ended))
        ]
        assert len(found) == len(dict(found))
        return dict(found)

    def batch(self, after: int, upto: int) -> list[tuple[int, int | None, int | None]]:
        """Events of the transactions that one tick sees and the other not."""
        return [
            event
            for event in self.events
            if self.ticks[upto].sees(event[0]) and not self.ticks[after].sees(event[0])
        ]

    def step(self) -> None:
        """Something happens."""
        what = self.rand.randrange(12)
        if what == 0:
            self.open[self.next_txid] = set()
            self.next_txid += 1
        elif what <= 2 and self.open:
            self.open.pop(self.rand.choice(list(self.open)))
        elif what == 3:
            self.tick()
        elif what == 4 and not self.open and self.rand.random() < 0.2:
            self._truncate()
        else:
            self._change()

    def _truncate(self) -> None:
        # Nobody else is in the table.
        txid, self.next_txid = self.next_txid, self.next_txid + 1
        for key in {v[0] for v in self.versions if v[3] is None}:
            self._end(txid, key)
        self.events.append((txid, None, None))

    def _change(self) -> None:
        """A transaction, open or of its own, changes a key that no other one has locked."""
        txid = self.rand.choice([*self.open, 0]) if self.open else 0
        alone = txid == 0
        if alone:
            txid, self.next_txid = self.next_txid, self.next_txid + 1
        mine = self.open.get(txid, set())
        locked = set().union(*self.open.values()) - mine
        for key in self.rand.sample(range(KEYS), 2):
            if key in locked:
                return
        one, other = self.rand.sample(range(KEYS), 2)
        if {one, other} & locked:
            return
        mine |= {one, other}
        value = self.rand.randrange(1000)
        there = {v[0] for v in self.versions if v[3] is None}
        if one not in there:
            self._set(txid, one, value)
        elif self.rand.random() < 0.4:
            self._end(txid, one)
            self.events.append((txid, one, None))
        elif other not in there and self.rand.random() < 0.6:
            # The key moves: our capture tells the states of both.
            self._end(txid, one)
            self.events.append((txid, one, None))
            self._set(txid, other, value)
        else:
            self._end(txid, one)
            self._set(txid, one, value)

    def _set(self, txid: int, key: int, value: int) -> None:
        self.versions.append((key, value, txid, None))
        self.events.append((txid, key, value))

    def _end(self, txid: int, key: int) -> None:
        self.versions = [
            (k, v, made, txid if k == key and ended is None else ended)
            for k, v, made, ended in self.versions
        ]


@dataclass(frozen=True)
class Rules:
    """What a copy does; the defaults are right."""

    #: Which snapshot's events are not replayed, of that before the first chunk and the last one's.
    skip: Callable[[Snapshot, Snapshot], Snapshot | None] = lambda first, last: first
    #: At which snapshot the table is consistent.
    until: Callable[[Snapshot, Snapshot], Snapshot] = lambda first, last: last
    #: Whether the consumer is registered before the first chunk.
    early: bool = True
    #: Whether the change of a row that is not there makes it.
    upsert: bool = True


class Wrong(Exception):
    """The table is not what the source was."""


def simulate(seed: int, rules: Rules) -> None:
    """One copy; raises Wrong."""
    rand = random.Random(seed)
    source = Source(rand)

    def time_passes() -> None:
        for _ in range(rand.randrange(25)):
            source.step()

    time_passes()
    at = len(source.ticks) - 1
    first = source.snapshot()
    bounds = sorted(rand.sample(range(1, KEYS), rand.randrange(4)))
    ranges = list(zip([0, *bounds], [*bounds, KEYS], strict=True))
    rand.shuffle(ranges)
    # Two rows may have one value of the key only if ranges overlap: pairs, not a dict.
    rows: list[tuple[int, int]] = []
    seen = []
    for number, (lower, upper) in enumerate(ranges):
        time_passes()
        snapshot = source.snapshot()
        found = source.read(snapshot)
        rows += [(key, value) for key, value in found.items() if lower <= key < upper]
        seen.append(CopiedRange(number, "", 0, 0, True, str(snapshot)))
    table = dict(rows)
    if len(table) != len(rows):
        raise Wrong("a key is there twice")
    if not rules.early:
        at = len(source.ticks) - 1
    last = newest(seen)
    while not states.snapshot_spent(rules.until(first, last), source.ticks[at]):
        time_passes()
        source.tick()
        upto = rand.randrange(at + 1, len(source.ticks))
        for txid, key, value in source.batch(at, upto):
            if states.in_copy(txid, rules.skip(first, last)):
                continue
            if key is None:
                table = {}
            elif value is None:
                table.pop(key, None)
            elif rules.upsert or key in table:
                table[key] = value
        at = upto
    if table != source.read(source.ticks[at]):
        raise Wrong(f"{table} instead of {source.read(source.ticks[at])}")


@given(st.integers(0, 1_000_000))
def test_the_table_is_what_the_source_was_at_the_tick(seed: int) -> None:
    simulate(seed, Rules())


@pytest.mark.parametrize(
    "rules",
    [
        Rules(skip=lambda first, last: last),
        Rules(until=lambda first, last: first),
        Rules(early=False),
        Rules(upsert=False),
    ],
    ids=["skips what the last chunk sees", "ends early", "registers late", "only updates"],
)
def test_a_wrong_rule_is_caught(rules: Rules) -> None:
    caught = 0
    for seed in range(400):
        try:
            simulate(seed, rules)
        except Wrong:
            caught += 1
    assert caught
    for seed in range(400):
        simulate(seed, Rules())


def test_the_newest_snapshot_sees_what_the_others_do() -> None:
    texts = ["5:9:5,7", "5:9:5", "5:8:5,7", "4:6:4,5"]
    found = newest([CopiedRange(n, "", 0, 0, True, text) for n, text in enumerate(texts)])
    assert str(found) == "5:9:5"
    assert all(found.covers(Snapshot.parse(text)) for text in texts)
