"""Which columns a comparison reads."""

from __future__ import annotations

from dataclasses import replace

from londiste.compare.column_pairing import shared_columns
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
