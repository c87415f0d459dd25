"""A row that is set aside follows its events as one in its table would."""

from __future__ import annotations

import random

import pytest

from londiste.applier.deferred_rows import Contradiction, DeferredRows, Image, Row, follow
from londiste.changes.types import Op, RowChange
from londiste.db.names import TableName
from londiste.db.relation import Folding, Relation, RelationColumn

TABLE = TableName("public", "t")


def shape(folding: Folding = Folding.TEXT) -> Relation:
    columns = (
        RelationColumn("id", "text", folding=folding),
        RelationColumn("u", "text", folding=Folding.TEXT),
        RelationColumn("own", "text", folding=Folding.TEXT),
    )
    return Relation(TABLE, 1, False, columns, ("id",))


def change(op: str, key: str, u: str | None = None) -> RowChange:
    """I, U, D as usual, S the row is so now, N there is none."""
    plain = {"S": "I", "N": "D"}.get(op, op)
    image: Image = {"id": key} if plain == "D" else {"id": key, "u": u}
    return RowChange(1, 1, TABLE, Op(plain), ("id",), image, state=plain != op)


def never(keys: object) -> int | None:
    raise AssertionError("the text tells")


def test_an_update_and_a_state_keep_what_they_do_not_name() -> None:
    row: Image = {"id": "1", "u": "x", "own": "mine"}
    for op in "US":
        assert follow(row, change(op, "1", "y")) == {"id": "1", "u": "y", "own": "mine"}


def test_a_delete_and_the_state_that_there_is_no_row_end_it() -> None:
    assert follow({"id": "1"}, change("D", "1")) is None
    assert follow({"id": "1"}, change("N", "1")) is None


def test_an_insert_of_a_row_that_is_there_is_a_contradiction() -> None:
    with pytest.raises(Contradiction):
        follow({"id": "1"}, change("I", "1"))


def test_rows_are_found_by_what_is_equal_to_their_key() -> None:
    aside = DeferredRows()
    zeros = shape(Folding.ZEROS)
    row = Row(zeros, {"id": "1.0", "u": "x"}, change("S", "1.0", "x"))
    aside.add(row)
    assert aside.find(change("U", "1.00", "y"), zeros, never) is row
    assert aside.find(change("U", "2", "y"), zeros, never) is None
    assert aside.find(change("I", "1.0")._replace(key=()), zeros, never) is row


def test_rows_are_found_by_the_server_where_no_text_tells() -> None:
    aside = DeferredRows()
    inexact = shape(Folding.NEVER)
    rows = [Row(inexact, {"id": key}, change("S", key)) for key in ("24:00:00", "3 days")]
    for row in rows:
        aside.add(row)
    assert aside.find(change("D", "72:00:00"), inexact, lambda keys: 1) is rows[1]
    assert aside.find(change("D", "9"), inexact, lambda keys: None) is None


def test_an_emptied_table_has_no_rows_aside() -> None:
    aside = DeferredRows()
    aside.add(Row(shape(), {"id": "1"}, change("S", "1")))
    aside.empty(TABLE)
    assert len(aside) == 0
    assert aside.find(change("S", "1"), shape(), never) is None


class Table:
    """What ``rows.RowWriter`` does, with a table in memory that has a unique column."""

    def __init__(self, rows: dict[str, Image]) -> None:
        self.rows = rows
        self.aside = DeferredRows()
        self.shape = shape()

    def free(self, key: str, image: Image) -> bool:
        taken = {row["u"] for other, row in self.rows.items() if other != key}
        return image["u"] is None or image["u"] not in taken

    def write(self, change: RowChange) -> None:
        key = str(change.image["id"])
        row = self.aside.find(change, self.shape, never)
        now = row.image if row else self.rows.get(key)
        if now is None:
            then = None if change.op is Op.DELETE else {"own": None, **change.image}
        else:
            then = follow(now, change)
        if row is not None:
            self.aside.remove(row)
        self.rows.pop(key, None)
        if then is not None:
            self.put(Row(self.shape, then, change))

    def put(self, row: Row) -> bool:
        key = str(row.image["id"])
        if not self.free(key, row.image):
            self.aside.add(row)
            return False
        assert key not in self.rows
        self.rows[key] = row.image
        return True

    def put_back(self) -> None:
        for row in self.aside.rows():
            self.aside.remove(row)
            self.put(row)


@pytest.mark.parametrize("cases", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_states_told_in_any_order_end_as_the_table_they_are_of(cases: int) -> None:
    for seed in range(cases):
        pick = random.Random(seed)
        keys = [str(n) for n in range(pick.choice([2, 3, 6]))]

        def some(pick: random.Random = pick, keys: list[str] = keys) -> dict[str, Image]:
            values = pick.sample([*keys, "8", "9"], len(keys))
            return {
                key: {"id": key, "u": pick.choice([value, value, None])}
                for key, value in zip(keys, values, strict=True)
                if pick.random() < 0.8
            }

        tables = [some() for _ in range(pick.randint(2, 4))]
        target = Table({key: {**row, "own": "o" + key} for key, row in tables[0].items()})
        there = set(tables[0])
        for table in tables[1:]:
            touched = pick.choices(keys, k=len(keys)) + pick.sample(keys, len(keys))
            for key in touched:
                now = table.get(key)
                event = change("N", key) if now is None else change("S", key, now["u"])
                target.write(event)
                there = there & {k for k in keys if k != key or now is not None}
                if pick.random() < 0.2:
                    target.put_back()
        target.put_back()
        assert len(target.aside) == 0, seed
        assert {k: row["u"] for k, row in target.rows.items()} == {
            k: row["u"] for k, row in tables[-1].items()
        }, seed
        for key in there:
            assert target.rows[key]["own"] == "o" + key, (seed, key)
