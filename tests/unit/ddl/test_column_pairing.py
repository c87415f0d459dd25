"""Which columns a comparison reads."""

from __future__ import annotations

from dataclasses import replace

from londiste.compare.column_pairing import computed_otherwise, shared_columns
from londiste.db.catalog import Column


def columns(*names: str) -> list[Column]:
    return [replace(TEMPLATE, name=name) for name in names]


TEMPLATE = Column(
    name="",
    type="integer",
    not_null=False,
    default=None,
    identity="",
    generated="",
    builtin=True,
)


def test_the_roots_order_is_taken_whatever_the_order_here() -> None:
    assert shared_columns(columns("a", "b", "c"), columns("c", "a", "b")) == (("a", "b", "c"), ())


def test_columns_of_one_side_are_named_and_left_out() -> None:
    assert shared_columns(columns("a", "b"), columns("a", "z")) == (("a",), ("b", "z"))


def test_generated_columns_are_left_out() -> None:
    here = [*columns("a"), replace(TEMPLATE, name="g", generated="s")]
    assert shared_columns([*columns("a"), replace(TEMPLATE, name="g", generated="s")], here) == (
        ("a",),
        (),
    )


def test_generated_columns_of_other_expressions_or_types_are_named() -> None:
    there = replace(TEMPLATE, name="g", generated="s", default="(v * 2)")
    for same in (there, replace(there, generated="v"), replace(there, name="other")):
        assert computed_otherwise([there], [same]) == ()
    for other in (replace(there, default="(v * 3)"), replace(there, type="numeric(10,2)")):
        assert computed_otherwise([there], [other]) == ("g",)
    # Columns of one side that is not generated are named as those that one side has.
    assert computed_otherwise([there], [replace(there, generated="")]) == ()
