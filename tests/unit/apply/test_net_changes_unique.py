"""Net changes fit a table with a unique column and end with the rows of the single changes.

Transactions of a model hand values on, swap them, and tell what they did as it happened, or key by
key as it is in the end.  A row set is written row by row in any order, and each row must find its
value free, as the server demands it of one that is not deferrable.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence

import pytest

from londiste.applier.plan import RowSet, TableChange, Verb
from londiste.changes.types import RowChange
from londiste.db.relation import Folding, Relation, RelationColumn
from londiste.replication.apply.routing import plan, plan_folded
from tests.unit.apply import test_deferred_rows
from tests.unit.apply.test_encoded_net_changes import TABLE, Model, Said, taken

SHAPE = Relation(
    TABLE,
    1,
    False,
    (RelationColumn("id", "text", folding=Folding.TEXT), RelationColumn("v", "text")),
    ("id",),
)
#: More than a table has rows, so that some are free.
VALUES = [f"v{n}" for n in range(9)]


class Conflict(Exception):
    """A value is another row's."""


class Writer:
    """A source: ``rows`` is what its transactions have committed, ``said`` their events."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick
        self.keys = [str(n) for n in range(pick.choice([2, 4, 7]))]
        values = pick.sample(VALUES, len(self.keys))
        pairs = zip(self.keys, values, strict=True)
        self.rows: Model = {k: v for k, v in pairs if pick.random() < 0.7}
        self.said: list[Said] = []

    def transaction(self) -> None:
        kinds = [self.plain] * 3 + [self.swap, self.hand_on, self.states]
        for _ in range(self.pick.randint(1, 4)):
            self.pick.choice(kinds)()
        if self.pick.random() < 0.03:
            self.said.append(Said("T"))
            self.rows.clear()

    def free(self) -> str:
        return self.pick.choice([v for v in VALUES if v not in self.rows.values()])

    def tell(self, op: str, *rows: tuple[str, str]) -> None:
        if len(rows) > 1 and self.pick.random() < 0.5:
            self.said.append(Said(op, rows, pack=True))
        else:
            self.said += [Said(op, (row,)) for row in rows]

    def plain(self) -> None:
        key = self.pick.choice(self.keys)
        if key not in self.rows:
            self.rows[key] = self.free()
            self.tell("I", (key, self.rows[key]))
        elif self.pick.random() < 0.4:
            self.tell("D", (key, self.rows.pop(key)))
        else:
            self.rows[key] = self.pick.choice([self.free(), self.rows[key]])
            self.tell("U", (key, self.rows[key]))

    def swap(self) -> None:
        """Two rows by way of a third value, which nobody sees afterwards."""
        if len(self.rows) < 2:
            return
        one, other = self.pick.sample(sorted(self.rows), 2)
        a, b = self.rows[one], self.rows[other]
        for key, value in ((one, self.free()), (other, a), (one, b)):
            self.rows[key] = value
            self.tell("U", (key, value))

    def hand_on(self) -> None:
        """Values move one row further along a chain, whose last one gets a new one or goes."""
        chain = self.pick.sample(self.keys, self.pick.randint(2, len(self.keys)))
        for key, other in itertools.pairwise(chain):
            value = self.rows.get(key)
            if value is None:
                continue
            if self.pick.random() < 0.5:
                self.tell("D", (key, self.rows.pop(key)))
            else:
                self.rows[key] = self.free()
                self.tell("U", (key, self.rows[key]))
            op = "U" if other in self.rows else "I"
            self.rows[other] = value
            self.tell(op, (other, value))

    def states(self) -> None:
        """Something happens to many rows at once, and is told as it is in the end."""
        touched = self.pick.sample(self.keys, self.pick.randint(1, len(self.keys)))
        values = [self.rows.pop(k) for k in touched if k in self.rows]
        values += [v for v in VALUES if v not in (*values, *self.rows.values())][:2]
        for key, value in zip(touched, self.pick.sample(values, len(values)), strict=False):
            if self.pick.random() < 0.8:
                self.rows[key] = value
        again = self.pick.choices(touched, k=self.pick.choice([0, 0, 2]))
        for key in (*again, *self.pick.sample(touched, len(touched))):
            if key in self.rows:
                self.tell("S", (key, self.rows[key]))
            else:
                self.tell("N", (key, ""))


def put(rows: Model, key: str, value: str) -> None:
    if any(v == value for k, v in rows.items() if k != key):
        raise Conflict
    rows[key] = value


def written(start: Model, truncated: bool, sets: Sequence[RowSet], pick: random.Random) -> Model:
    """The table after the sets; raises Conflict with the verb of the row that met one."""
    rows: Model = {} if truncated else dict(start)
    for verb in Verb:
        for group in sets:
            if group.verb is not verb:
                continue
            lines = [*group.lines, *"\n".join(group.packs).splitlines()]
            for line in pick.sample(lines, len(lines)):
                image = json.loads(line)
                key = image["id"]
                if verb not in {Verb.SET, Verb.UNSET}:
                    assert (verb is Verb.INSERT) != (key in rows)
                if verb in {Verb.DELETE, Verb.UNSET}:
                    rows.pop(key, None)
                    continue
                try:
                    put(rows, key, image["v"])
                except Conflict:
                    raise Conflict(verb) from None
    return rows


def rewritten(sets: Sequence[RowSet]) -> list[RowSet]:
    """All rows that are touched deleted, and then all images inserted."""
    found = []
    for rows in sets:
        first = {Verb.UPDATE: Verb.DELETE, Verb.SET: Verb.UNSET}.get(rows.verb)
        for verb in (first, Verb.INSERT) if first else (rows.verb,):
            found.append(RowSet(verb, rows.key, rows.columns, rows.lines, rows.packs, rows.count))
    return found


def one_by_one(start: Model, changes: Sequence[TableChange]) -> Model:
    """What the events leave in their order, rows waiting for their values."""
    table = test_deferred_rows.Table({k: {"id": k, "u": v} for k, v in start.items()})
    for change in changes:
        if isinstance(change, RowChange):
            image = dict(change.image)
            if "v" in image:
                image["u"] = image.pop("v")
            table.write(change._replace(image=image))
        else:
            table.rows.clear()
            table.aside.empty(TABLE)
    table.put_back()
    assert len(table.aside) == 0
    return {k: str(row["u"]) for k, row in table.rows.items()}


def check(seed: int) -> list[str]:
    """How the sets of both folds were written: as they are, or rewritten."""
    pick = random.Random(seed)
    source = Writer(pick)
    start = dict(source.rows)
    for _ in range(pick.randint(1, 4)):
        source.transaction()
    if not source.said:
        return []
    part = taken(source.said)
    changes = [change for _, change in part.changes({TABLE})]
    assert one_by_one(start, changes) == source.rows, seed
    (decoded,) = plan({TABLE: changes}, {TABLE: SHAPE}, node="leaf")
    by_text = plan_folded(part.folds[TABLE], SHAPE)
    assert by_text is not None, (seed, part.folds[TABLE].reason)
    ways = []
    for one in (by_text, decoded):
        assert one.sets is not None, (seed, one.reason)
        try:
            found = written(start, one.truncated, one.sets, pick)
            ways.append("as they are")
        except Conflict as met:
            assert met.args[0] in {Verb.UPDATE, Verb.SET}, seed
            found = written(start, one.truncated, rewritten(one.sets), pick)
            ways.append("rewritten")
        assert found == source.rows, seed
    return ways


@pytest.mark.parametrize(
    "cases", [800, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_a_fold_fits_into_a_table_with_a_unique_column(cases: int) -> None:
    ways = [way for seed in range(cases) for way in check(seed)]
    assert len(ways) > cases
    assert cases / 20 < ways.count("rewritten") < len(ways) * 0.8
