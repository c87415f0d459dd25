"""Structure of the two databases of a move that differs: pure."""

from __future__ import annotations

from dataclasses import replace

from londiste.db.names import TableName
from londiste.migrate import drift
from londiste.monitor.doctor import facts as collect
from londiste.monitor.queues.model import Severity
from londiste.replication.model import SequenceValue

S = TableName("public", "s")
KIND = collect.SequenceKind(S)
NAMES = ("old", "new")


def behind(
    root: tuple[int, bool], other: tuple[int, bool], kind: collect.SequenceKind = KIND
) -> bool:
    return bool(drift.behind([SequenceValue(S, *root)], [SequenceValue(S, *other)], (kind,)))


def test_a_sequence_is_behind_when_its_next_value_was_returned_already() -> None:
    assert behind((5, False), (4, False))
    assert behind((1, False), (1, True))
    assert not behind((1, True), (1, False))
    assert not behind((1, True), (1, True))
    assert not behind((5, False), (30005, False))


def test_direction_and_cycle_of_a_sequence_count() -> None:
    assert behind((-5, False), (-4, False), replace(KIND, increment=-1))
    assert not behind((-5, False), (-6, False), replace(KIND, increment=-1))
    assert not behind((5, False), (4, False), replace(KIND, cycle=True))


def test_a_sequence_that_is_missing_stops_and_one_that_ends_earlier_warns() -> None:
    found = drift.differences(drift.ObservedTable(sequences=(KIND,)), drift.ObservedTable(), NAMES)
    assert [(one.severity, one.what) for one in found] == [
        (Severity.CRITICAL, "sequence public.s does not exist in the new database")
    ]
    shorter = drift.ObservedTable(sequences=(replace(KIND, high=100),))
    (found,) = drift.differences(drift.ObservedTable(sequences=(KIND,)), shorter, NAMES)
    assert found.severity is Severity.WARNING
    assert "to 100 by 1" in found.what


def test_a_key_that_is_not_restored_warns() -> None:
    other = drift.ObservedTable(pending=frozenset({("public.cart", "cart_order_id_fkey")}))
    (found,) = drift.differences(drift.ObservedTable(), other, NAMES)
    assert found.severity is Severity.WARNING
    assert "public.cart: foreign key cart_order_id_fkey" in found.what


def test_a_column_of_one_side_stops() -> None:
    table = collect.Table(TableName("public", "t"))
    more = replace(table, columns=(*table.columns, collect.ColumnFacts("note", "text")))
    root, other = drift.ObservedTable(tables=(more,)), drift.ObservedTable(tables=(table,))
    (found,) = drift.differences(root, other, ("new", "old"))
    assert found.severity is Severity.CRITICAL
    assert found.what == "table public.t has no column note in the old database"


def test_what_a_copy_has_dropped_is_no_difference() -> None:
    table = collect.Table(TableName("public", "t"), columns=(collect.ColumnFacts("id", key=1),))
    bare = replace(table, keyed=False, columns=(collect.ColumnFacts("id"),))
    root = drift.ObservedTable(tables=(table,))
    (found,) = drift.differences(root, drift.ObservedTable(tables=(bare,)), NAMES)
    assert "has the primary key (id) in the old database, none in the new one" in found.what
    copying = drift.ObservedTable(tables=(bare,), copying=frozenset({table.name}))
    assert not drift.differences(root, copying, NAMES)
