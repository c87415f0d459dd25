"""Each conflict policy's decision about an event that does not fit, case by case."""

from __future__ import annotations

import pytest

from londiste.applier.conflict_policy import Action, decide, kind_of
from londiste.applier.event_errors import hint_for
from londiste.changes.types import Op, RowChange
from londiste.db.names import TableName

INSERT = RowChange(1, 1, TableName("public", "t"), Op.INSERT, ("id",), {"id": "1"})
UPDATE = INSERT._replace(op=Op.UPDATE)
DELETE = INSERT._replace(op=Op.DELETE)
ROW_KINDS = [
    ("exists", INSERT),
    ("missing", UPDATE),
    ("missing", DELETE),
    ("many", UPDATE),
    ("constraint", INSERT),
    ("value", UPDATE),
]


@pytest.mark.parametrize(("kind", "change"), ROW_KINDS)
def test_halt_halts_and_keep_and_log_leave_out(kind: str, change: RowChange) -> None:
    assert decide("halt", kind, change) is Action.HALT
    assert decide("keep", kind, change) is Action.LEAVE_OUT
    assert decide("log", kind, change) is Action.LEAVE_OUT


def test_overwrite_writes_what_the_event_says_where_only_its_own_row_is_concerned() -> None:
    found = {(kind, change.op): decide("overwrite", kind, change) for kind, change in ROW_KINDS}
    assert found == {
        ("exists", Op.INSERT): Action.WRITE,
        ("missing", Op.UPDATE): Action.WRITE,
        ("missing", Op.DELETE): Action.LEAVE_OUT,
        ("many", Op.UPDATE): Action.HALT,
        ("constraint", Op.INSERT): Action.HALT,
        ("value", Op.UPDATE): Action.HALT,
    }
    assert decide("overwrite", "missing", UPDATE._replace(partial=True)) is Action.HALT
    assert decide("overwrite", "missing", UPDATE._replace(state=True)) is Action.HALT


@pytest.mark.parametrize("policy", ["halt", "keep", "log", "overwrite"])
@pytest.mark.parametrize("kind", ["structure", "refused", "other"])
def test_what_says_nothing_about_rows_halts_under_every_policy(policy: str, kind: str) -> None:
    assert decide(policy, kind, INSERT) is Action.HALT


def test_sqlstates_are_told_apart() -> None:
    kinds = {state: kind_of(state) for state in ("23505", "22001", "42703", "42501", "P0001", "")}
    assert kinds == {
        "23505": "constraint",
        "22001": "value",
        "42703": "structure",
        "42501": "refused",
        "P0001": "refused",
        "": "refused",
    }


def test_a_copy_of_the_table_is_no_remedy_for_what_is_no_row() -> None:
    table = TableName("shop", "t")
    for state in ("54000", "55000", "428C9", "0A000", "44000", "22001"):
        assert hint_for(state, table, table).startswith("change the definition"), state
    for state in ("XX001", "XX002", "58P01"):
        hint = hint_for(state, table, table)
        assert hint.startswith("look into the log") and "reindex table" in hint, state
    assert hint_for("23503", table, table) == "copy the table again: londiste resync shop.t"
