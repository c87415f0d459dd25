"""Columns of a lake: changes of a type that keep all values, and those that may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from londiste.db import catalog
from londiste.engine.spark.stream.types import StreamColumn
from londiste.errors import StateError
from londiste.lake.columns import LakeColumn, evolve, keeps_values, retyped


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("character varying(10)", "character varying(20)"),
        ("character varying(10)", "character varying"),
        ("character varying(10)", "text"),
        ("text", "character varying"),
        ("character varying(10)[]", "text[]"),
        ("numeric(10,2)", "numeric(12,2)"),
        ("numeric(10,2)", "numeric"),
        ("timestamp(3) with time zone", "timestamp with time zone"),
        ("public.mood", "public.mood"),
    ],
)
def test_wider_types_keep_values(old: str, new: str) -> None:
    assert keeps_values(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("character varying(20)", "character varying(10)"),
        ("text", "character varying(10)"),
        ("text", "text[]"),
        ("numeric(10,2)", "numeric(12,3)"),
        ("numeric", "numeric(12,3)"),
        ("timestamp with time zone", "timestamp(3) with time zone"),
        ("timestamp without time zone", "timestamp with time zone"),
        ("character(3)", "character(5)"),
        ("json", "jsonb"),
        ("uuid", "text"),
        ("public.mood", "public.other"),
    ],
)
def test_other_types_may_change_values(old: str, new: str) -> None:
    assert not keeps_values(old, new)


def test_a_column_that_was_replaced_has_no_other_type() -> None:
    known = LakeColumn("v", "text", "string", number=2)
    other = replace(known, type="json")
    assert retyped([known], [other]) == (known, other)
    assert retyped([known], [replace(other, number=3)]) is None
    assert retyped([known], [replace(other, dropped=7)]) is None
    assert retyped([replace(known, dropped=5)], [replace(other, dropped=5)]) is None


def test_a_type_that_keeps_values_keeps_them_unless_the_table_was_rewritten() -> None:
    known = LakeColumn("v", "character varying(5)", "string", number=2)
    text = replace(known, type="text")
    assert retyped([known], [text]) is None
    # alter column v type text using upper(v)
    assert retyped([known], [text], rewritten=True) == (known, text)
    # VACUUM FULL
    assert retyped([known], [known], rewritten=True) is None


def test_a_column_that_the_table_still_has_is_excluded_and_not_dropped() -> None:
    known = [
        LakeColumn("skipped", "text", "string", number=1),
        LakeColumn("dropped", "text", "string", number=2),
        LakeColumn("renamed", "text", "string", number=3),
    ]
    details = [_detail("skipped", 1), _detail("other", 3)]
    found = evolve("public.t", known, [], details, 9)
    assert found.excluded == ("skipped",)
    assert found.dropped == ("dropped", "renamed")
    assert [column.dropped for column in found.columns] == [9, 9, 9]
    again = evolve("public.t", found.columns, [], details, 10)
    assert (again.excluded, again.dropped) == ((), ())


@pytest.mark.parametrize(
    ("was", "said"),
    [
        ("numeric(12,2)", "amount (numeric(12,2)) is string by these settings, and decimal(12,2)"),
        ("numeric(9,2)", "amount changed its type: numeric(12,2) is string in the lake"),
    ],
)
def test_a_type_that_only_a_setting_has_changed_is_told_as_that(was: str, said: str) -> None:
    known = [LakeColumn("amount", was, "decimal", 12, 2, number=1)]
    found = [StreamColumn("amount", "numeric(12,2)", "string")]
    with pytest.raises(StateError) as caught:
        evolve("public.t", known, found, [_detail("amount", 1)], 9)
    assert said in caught.value.message


def _detail(name: str, number: int) -> catalog.Column:
    return catalog.Column(name, "text", False, None, "", "", True, number)
