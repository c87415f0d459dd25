"""Net changes from decoded events have the effect of the single changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from londiste.applier.plan import Net, TableChange
from londiste.changes.types import Op, RowChange, Truncate
from londiste.db.names import TableName
from londiste.db.relation import Folding, Relation, RelationColumn
from londiste.replication.apply.net_changes.decoded import NotFoldable, fold

TABLE = TableName("public", "t")
Row = dict[str, str | None]
Model = dict[str, Row]
NOTHING = Net(False, [], [], [], [], [])


def shape(key: str = "id", folding: Folding = Folding.TEXT) -> Relation:
    columns = (
        RelationColumn("id", "integer", folding=folding),
        RelationColumn("a", "text", folding=Folding.TEXT),
        RelationColumn("b", "text", folding=Folding.TEXT),
    )
    return Relation(TABLE, 1, False, columns, (key,) if key else ())


def change(number: int, op: str, key: str, a: str | None = None, **more: str | None) -> RowChange:
    """One event; S says that the row is so now, N that there is none."""
    plain = {"S": "I", "N": "D"}.get(op, op)
    image: Row = {"id": key} if plain == "D" else {"id": key, "a": a, **more}
    return RowChange(number, 1, TABLE, Op(plain), ("id",), image, state=plain != op)


def one_by_one(rows: Model, changes: list[TableChange]) -> Model:
    """What the row-by-row way leaves; KeyError or ValueError where it would stop."""
    rows = {key: dict(row) for key, row in rows.items()}
    for item in changes:
        if isinstance(item, Truncate):
            rows.clear()
            continue
        key = str(item.image["id"])
        if item.state:
            if item.op is Op.DELETE:
                rows.pop(key, None)
            else:
                rows[key] = {"a": None, "b": None, **rows.get(key, {}), **item.image}
        elif item.op is Op.INSERT:
            if key in rows:
                raise ValueError(key)
            rows[key] = {"a": None, "b": None, **item.image}
        elif item.op is Op.UPDATE:
            rows[key].update(item.image)
        else:
            del rows[key]
    return rows


def as_sets(rows: Model, net: Net) -> Model:
    """What the quick way leaves; each list may name a key once only."""
    rows = {} if net.truncated else {key: dict(row) for key, row in rows.items()}
    for groups in (
        (net.deletes, net.unsets, net.updates, net.sets),
        (net.updates, net.sets, net.inserts),
    ):
        keys = [item.image["id"] for group in groups for item in group]
        assert len(keys) == len(set(keys))
    for item in net.deletes:
        del rows[str(item.image["id"])]
    for item in net.unsets:
        rows.pop(str(item.image["id"]), None)
    for item in net.updates:
        rows[str(item.image["id"])].update(item.image)
    for item in net.sets:
        key = str(item.image["id"])
        rows[key] = {"a": None, "b": None, **rows.get(key, {}), **item.image}
    for item in net.inserts:
        key = str(item.image["id"])
        assert key not in rows
        rows[key] = {"a": None, "b": None, **item.image}
    return rows


keys = st.sampled_from(["1", "2", "3"])
operations = st.lists(
    st.tuples(
        st.sampled_from("IIUUUDDTSN"), keys, st.sampled_from([None, "x", "y", ""]), st.booleans()
    ),
    max_size=25,
)


@pytest.mark.parametrize("examples", [400, pytest.param(5000, marks=pytest.mark.slow)])
def test_folded_changes_leave_what_the_changes_leave(examples: int) -> None:
    starts = st.dictionaries(keys, st.just({"a": "old", "b": "old"}))
    settings(max_examples=examples)(given(starts, operations, st.booleans())(_leave_the_same))()


def _leave_the_same(
    start: dict[str, Row], chosen: list[tuple[str, str, str | None, bool]], possible_only: bool
) -> None:
    rows: Model = {key: {"id": key, **row} for key, row in start.items()}
    changes: list[TableChange] = []
    there = set(rows)
    for number, (op, key, value, wide) in enumerate(chosen):
        if op == "T":
            changes.append(Truncate(number, 1, TABLE))
            there.clear()
            continue
        if possible_only and op not in "SN" and (op == "I") == (key in there):
            continue
        there = there | {key} if op not in "DN" else there - {key}
        more: Row = {"b": value} if wide else {}
        changes.append(change(number, op, key, value, **(more if op not in "DN" else {})))
    try:
        expected: Model | None = one_by_one(rows, changes)
    except (KeyError, ValueError):
        expected = None
    try:
        net = fold(changes, shape())
    except NotFoldable:
        # only what cannot follow each other may be left to the slow way
        assert expected is None
        return
    if expected is not None:
        assert as_sets(rows, net) == expected
    elif not net.truncated:
        # a row that comes and goes is not looked at; all else that cannot be is noticed
        touched = {item.image["id"] for item in (*net.deletes, *net.updates, *net.inserts)}
        touched -= {item.image["id"] for item in (*net.unsets, *net.sets)}
        strange = {item.image["id"] for item in changes if isinstance(item, RowChange)} - touched
        if not strange:
            with pytest.raises((KeyError, AssertionError)):
                as_sets(rows, net)


def test_a_hot_row_becomes_one_update() -> None:
    net = fold([change(n, "U", "1", str(n)) for n in range(1000)], shape())
    assert [item.image["a"] for item in net.updates] == ["999"]
    assert not net.deletes and not net.inserts


def test_a_row_that_comes_and_goes_costs_nothing() -> None:
    net = fold([change(1, "I", "1"), change(2, "U", "1", "x"), change(3, "D", "1")], shape())
    assert net == NOTHING


@pytest.mark.parametrize(
    "ops, left",
    [
        ("S", "sets"),
        ("N", "unsets"),
        ("SUU", "sets"),
        ("IS", "sets"),
        ("IN", "unsets"),
        ("INS", "unsets inserts"),
        ("ISD", "unsets"),
        ("IDS", "inserts"),
        ("US", "updates"),
        ("DN", "deletes"),
        ("UN", "deletes"),
        ("SD", "unsets"),
        ("NS", "unsets inserts"),
        ("DS", "deletes inserts"),
    ],
)
def test_what_is_known_of_the_row_before_decides_over_what_is_only_known_of_now(
    ops: str, left: str
) -> None:
    net = fold([change(n, op, "1", str(n)) for n, op in enumerate(ops)], shape())
    found = [n for n in ("deletes", "unsets", "updates", "sets", "inserts") if getattr(net, n)]
    assert " ".join(found) == left


def test_what_was_before_truncate_does_not_matter() -> None:
    changes = [change(1, "U", "7", "x"), Truncate(2, 1, TABLE), change(3, "I", "7", "y")]
    net = fold(changes, shape())
    assert net.truncated
    assert [item.image["a"] for item in net.inserts] == ["y"]
    assert not net.updates and not net.deletes


def test_a_replaced_row_starts_anew() -> None:
    net = fold([change(1, "D", "1"), change(2, "I", "1", "x")], shape())
    assert len(net.deletes) == len(net.inserts) == 1
    assert not net.updates


def test_numbers_with_zeros_behind_the_point_are_one_key() -> None:
    changes = [change(1, "I", "1.0"), change(2, "U", "1.00", "x"), change(3, "D", "1")]
    assert fold(changes, shape(folding=Folding.ZEROS)) == NOTHING
    assert Folding.ZEROS.canonical("100") == "100"
    assert Folding.ZEROS.canonical("0.00") == "0"


def test_blanks_at_the_end_of_a_char_key_do_not_count() -> None:
    changes = [change(1, "I", "de "), change(2, "D", "de")]
    assert fold(changes, shape(folding=Folding.BLANKS)) == NOTHING


def test_inserts_of_a_table_without_key_keep_their_order() -> None:
    changes = [change(n, "I", "1", str(n))._replace(key=()) for n in (1, 2, 3)]
    net = fold(changes, shape(key=""))
    assert [item.event_id for item in net.inserts] == [1, 2, 3]


@pytest.mark.parametrize(
    "changes, folding, reason",
    [
        ([change(1, "U", "1", "x")], Folding.NEVER, "does not identify a row"),
        ([change(1, "U", "1", "x")._replace(partial=True)], Folding.TEXT, "only the changed"),
        ([change(1, "U", "1", "x")._replace(key=())], Folding.TEXT, "no key"),
        ([change(1, "I", "1"), change(2, "I", "1")], Folding.TEXT, "inserted twice"),
        ([change(1, "D", "1"), change(2, "U", "1")], Folding.TEXT, "after it was deleted"),
        ([Truncate(1, 1, TABLE), change(2, "D", "1")], Folding.TEXT, "was emptied"),
        (
            [change(1, "U", "1", "x"), change(2, "U", "1", "x")._replace(key=("id", "a"))],
            Folding.TEXT,
            "key changes",
        ),
        ([change(1, "D", "1")._replace(image={"id": None})], Folding.TEXT, "NULL"),
    ],
)
def test_what_only_order_can_do_is_left_to_the_slow_way(
    changes: list[TableChange], folding: Folding, reason: str
) -> None:
    with pytest.raises(NotFoldable, match=reason):
        fold(changes, shape(folding=folding))
