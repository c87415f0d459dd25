"""Which columns a copy moves."""

from __future__ import annotations

import pytest

from londiste.copy.columns import pair, require_char, require_here
from londiste.db.catalog import Column
from londiste.db.names import TableName
from londiste.errors import UsageError

TABLE = TableName("public", "t")


def column(name: str, type_name: str = "integer", **more: object) -> Column:
    values: dict[str, object] = {
        "not_null": False,
        "default": None,
        "identity": "",
        "generated": "",
        "builtin": True,
        **more,
    }
    return Column(name=name, type=type_name, **values)  # type: ignore[arg-type]


def test_columns_are_paired_by_name_in_the_order_of_the_target() -> None:
    found = pair(TABLE, [column("b"), column("a")], [column("a"), column("b")], same_version=True)
    assert found.pairs == (("a", "a"), ("b", "b"))
    assert found.warnings == ()


def test_a_generated_column_of_the_target_is_not_written() -> None:
    found = pair(
        TABLE,
        [column("a"), column("g", generated="s")],
        [column("a"), column("g", generated="s")],
        same_version=True,
    )
    assert found.pairs == (("a", "a"),)


def test_a_value_generated_on_the_source_is_copied_into_an_ordinary_column() -> None:
    found = pair(TABLE, [column("g", generated="s")], [column("g")], same_version=True)
    assert found.pairs == (("g", "g"),)


MISSING = (column("more"), column("A b", "text"))


def missing(told: set[str] | None) -> str:
    dest = TableName("other", "d")
    return require_here("q", TABLE, TableName("src", "t"), dest, MISSING, told)


def test_columns_missing_on_the_target_are_not_paired() -> None:
    found = pair(TABLE, [column("a"), column("more")], [column("a")], same_version=True)
    assert found.pairs == (("a", "a"),)
    assert found.missing == (column("more"),)


def test_a_missing_column_that_events_leave_out_is_only_said() -> None:
    assert (
        missing(set()) == "table public.t: columns missing on the target are not copied: more, A b"
    )
    assert require_here("q", TABLE, TABLE, TABLE, (), None) == ""


def test_a_missing_column_that_events_may_tell_comes_with_the_statement_to_type() -> None:
    assert missing(None).endswith(
        'alter table "other"."d" add column "more" integer, add column "A b" text'
    )


def test_a_missing_column_that_events_tell_is_refused_with_both_ways_out() -> None:
    with pytest.raises(
        UsageError, match="column A b of the source does not exist on the target"
    ) as caught:
        missing({"a", "A b"})
    assert 'alter table "other"."d" add column "A b" text;' in caught.value.hint
    assert "on the root, with the other options of its capture: select" in caught.value.hint
    assert "create_capture('q', 'src.t', '{\"ignore=A b\"}')" in caught.value.hint


def test_a_nullable_column_missing_on_the_source_gets_its_default_with_a_warning() -> None:
    found = pair(TABLE, [column("a")], [column("a"), column("own")], same_version=True)
    assert found.warnings == ("table public.t: columns missing on the source get defaults: own",)


def test_a_column_that_the_target_insists_on_is_named() -> None:
    with pytest.raises(UsageError, match="column own, too does not exist on the source") as caught:
        pair(
            TABLE,
            [column("a")],
            [column("a"), column("own", not_null=True), column("too", not_null=True)],
            same_version=True,
        )
    assert 'alter table "public"."t" alter column "own" set default' in caught.value.hint


def test_not_null_columns_with_default_or_identity_are_the_targets_own_business() -> None:
    pair(
        TABLE,
        [column("a")],
        [
            column("a"),
            column("d", not_null=True, default="1"),
            column("i", not_null=True, identity="a"),
        ],
        same_version=True,
    )


@pytest.mark.parametrize(
    ("source", "target", "same_version", "binary"),
    [
        (column("a"), column("a"), True, True),
        (column("a"), column("a"), False, False),
        (column("a"), column("a", "bigint"), True, False),
        (column("a", "text[]"), column("a", "text[]"), True, True),
        (column("a", "mood", builtin=False), column("a", "mood", builtin=False), True, False),
        (column("a", "regclass"), column("a", "regclass"), True, False),
        (column("a", "xml"), column("a", "xml"), True, False),
        (column("a", "tsquery"), column("a", "tsquery"), True, False),
    ],
)
def test_binary_needs_equal_builtin_types_and_versions(
    source: Column, target: Column, same_version: bool, binary: bool
) -> None:
    assert pair(TABLE, [source], [target], same_version=same_version).binary is binary


@pytest.mark.parametrize("kind", ['"char"', '"char"[]'])
def test_bytes_that_an_older_target_would_read_wrongly(kind: str) -> None:
    pairs, there = [("a", "b")], [column("a", kind)]

    def check(ours: str, source: int, target: int) -> None:
        require_char(TABLE, TABLE, pairs, (there, [column("b", ours)]), (source, target))

    with pytest.raises(UsageError, match=r"column b of type .* cannot be copied") as caught:
        check(kind, 180000, 140010)
    assert 'alter table "public"."t" alter column "b" type text' in caught.value.hint
    for ours, source, target in (
        ("text", 180000, 140010),
        (kind, 140010, 140005),
        (kind, 140010, 180000),
        (kind, 180000, 150000),
    ):
        check(ours, source, target)
