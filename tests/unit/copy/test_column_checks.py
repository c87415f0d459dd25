"""Which columns do not take every value of their source."""

from __future__ import annotations

import pytest

from londiste.db.catalog import Column
from londiste.db.names import TableName
from londiste.handlers.base import ALL
from londiste.replication.commands.column_checks import loses, narrower, notes, tells_apart

STOPS, ROUNDS, TEXTS = "blocks the worker", "rounded", "other texts"


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ("character varying(10)", "character varying(20)", STOPS),
        ("character varying(10)", "text", STOPS),
        ("character(3)", "character varying", STOPS),
        ("character varying(3)[]", "text[]", STOPS),
        ("bit varying(3)", "bit varying(9)", STOPS),
        ("integer", "bigint", STOPS),
        ("smallint", "integer", STOPS),
        ("bigint", "numeric", STOPS),
        ("bigint", "numeric(12,2)", ROUNDS),
        ("numeric(4,0)", "integer", STOPS),
        ("numeric(10,2)", "numeric", ROUNDS),
        ("numeric(10,2)", "numeric(12,4)", ROUNDS),
        ("numeric(5)", "numeric(7)", STOPS),
        ("real", "double precision", ROUNDS),
        ("double precision", "numeric", ROUNDS),
        ("double precision", "bigint", ROUNDS),
        ("real", "integer", ROUNDS),
        ("timestamp(0) without time zone", "timestamp without time zone", ROUNDS),
        ("timestamp(3) with time zone", "timestamp with time zone", ROUNDS),
        ("timestamp(0) without time zone", "timestamp with time zone", ROUNDS),
        ("time(0) without time zone", "time(3) without time zone", ROUNDS),
        ("interval(0)", "interval", ROUNDS),
        ("text", "boolean", TEXTS),
        ("character varying(40)", "timestamp(3) without time zone", TEXTS),
        ("citext", "timestamp with time zone", TEXTS),
        # Room enough, or nothing to be said.
        ("text", "date", ""),
        ("text", "time with time zone", ""),
        ("text[]", "boolean[]", ""),
        ("text", "character varying(20)", ""),
        ("character varying(20)", "character varying(10)", ""),
        ("bigint", "integer", ""),
        ("numeric", "bigint", ""),
        ("double precision", "integer", ""),
        ("real", "smallint", ""),
        ("numeric(10,0)", "integer", ""),
        ("numeric(12,4)", "numeric(10,2)", ""),
        ("timestamp(6) with time zone", "timestamp with time zone", ""),
        ("timestamp without time zone", "timestamp with time zone", ""),
        ("app.kind", "text", ""),
        ('"Odd type"(3)', "text", ""),
        ("interval day to second(3)", "interval", ""),
        ("jsonb", "json", ""),
        ("uuid", "text", ""),
    ],
)
def test_what_a_column_has_no_room_for(ours: str, theirs: str, said: str) -> None:
    found = narrower(ours, theirs)
    assert (said in found) if said else (found == ""), found
    assert narrower(theirs, theirs) == ""


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ("name", "text", "63 bytes"),
        ("name", "character varying(99)", "63 bytes"),
        ('"char"', "text", "but the first"),
        ('"char"[]', "name[]", "but the first"),
        ("date", "timestamp without time zone", "time of day"),
        ("date", "timestamp(3) with time zone", "time of day"),
        ("time without time zone", "timestamp without time zone", "the date"),
        ("time(3) without time zone", "time with time zone", "the zone"),
        ("interval day", "interval", "smaller than a day"),
        ("interval year to month", "interval day", "smaller than a month"),
        ("jsonb", "json", "repeated key"),
        ("jsonb", "text", "repeated key"),
        ("money", "numeric", "rounded"),
        ("money", "numeric(9,3)", "rounded"),
        ("money", "double precision", "rounded"),
        # Nothing is lost.
        ("money", "numeric(9,2)", ""),
        ("money", "integer", ""),
        ("interval", "interval day", ""),
        ("interval day to second(3)", "interval", ""),
        ("interval hour to minute", "interval day", ""),
        ("time with time zone", "time without time zone", ""),
        ("timestamp with time zone", "date", ""),
        ("json", "jsonb", ""),
        ("text", "name", ""),
        ("name", "name", ""),
        ("app.kind", "text", ""),
    ],
)
def test_which_parts_of_values_a_column_drops(ours: str, theirs: str, said: str) -> None:
    found = loses(ours, theirs)
    assert (said in found) if said else (found == ""), found
    # These values are stored: they block no worker.
    assert narrower(ours, theirs) == "" or said == "rounded" or ours.startswith("interval")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("text", "json"),
        ("text", "integer[]"),
        ("text[]", "integer[]"),
        ("bpchar", "text"),
        ("character varying(5)", "text"),
        ("character(5)", "character(10)"),
        ("character(36)", "uuid"),
        ("bigint", "integer"),
        ("integer", "bigint"),
        ("numeric", "bigint"),
        ("numeric(10,2)", "integer"),
        ("numeric", "numeric(8,2)"),
        ("numeric(10,2)", "numeric(8,2)"),
        ("double precision", "real"),
        ("double precision", "integer"),
        ("timestamp without time zone", "date"),
        ("timestamp with time zone", "timestamp without time zone"),
        ("timestamp(6) with time zone", "timestamp with time zone"),
        ("time with time zone", "time without time zone"),
        ("interval", "interval day to second(3)"),
        ("bit varying(9)", "bit(10)"),
        ("json", "jsonb"),
        ("inet", "cidr"),
        ("money", "money"),
    ],
)
def test_types_in_which_different_values_stay_different(ours: str, theirs: str) -> None:
    assert tells_apart(ours, theirs)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        # Blanks at the end.
        ("character(8)", "text"),
        ("character(8)[]", "character varying(8)[]"),
        ("numeric(10,2)", "numeric"),
        ("numeric(10,2)", "numeric(12,4)"),
        ("numeric(10,2)[]", "numeric[]"),
        ("numeric(3,-2)", "integer"),
        ("real", "double precision"),
        ("real", "integer"),
        ("double precision", "bigint"),
        ("double precision", "numeric"),
        # -0 and 0.
        ("numeric", "double precision"),
        ("date", "timestamp with time zone"),
        ("timestamp(0) without time zone", "timestamp with time zone"),
        ("timestamp(3) with time zone", "timestamp with time zone"),
        ("time without time zone", "time with time zone"),
        ("interval(0)", "interval"),
        ("interval day to second(3)", "interval"),
        ("jsonb", "json"),
        ("integer", "text"),
        ("integer[]", "text"),
        ("uuid", "text"),
        ("name", "text"),
        ('"char"', "text"),
        ("money", "numeric"),
    ],
)
def test_types_in_which_different_values_may_be_one(ours: str, theirs: str) -> None:
    assert not tells_apart(ours, theirs)


def test_a_numeric_key_in_a_text_column() -> None:
    def said(theirs: str, ours: str, *key: str) -> tuple[str, ...]:
        there, here = (
            Column("id", kind, not_null=True, default=None, identity="", generated="", builtin=True)
            for kind in (theirs, ours)
        )
        return notes([there], [here], TableName("public", "t"), ALL, origin="root", key=key)

    (note,) = said("numeric", "text", "id")
    assert "a compatible trigger" in note
    assert said("numeric", "text") == said("numeric", "numeric", "id") == ()
    # With a scale each value has one text.
    assert said("numeric(5,2)", "text", "id") == ()


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        (("app.price", "numeric(5,2)"), ("numeric", "numeric"), "rounded"),
        (("app.code", "character(3)"), ("text", "text"), "blocks the worker"),
        (("app.day", "date"), ("app.moment", "timestamp without time zone"), "time of day"),
        (("app.code", "character(3)"), ("app.code", "character(4)"), "blocks the worker"),
        (("app.price", "numeric"), ("numeric(5,2)", "numeric(5,2)"), ""),
    ],
)
def test_a_domain_has_the_room_of_the_type_below_it(
    here: tuple[str, str], there: tuple[str, str], said: str
) -> None:
    mine, theirs = (
        Column("v", kind, False, None, "", "", builtin=False, plain=plain)
        for kind, plain in (here, there)
    )
    found = notes([theirs], [mine], TableName("public", "t"), ALL, origin="root")
    assert len(found) == bool(said)
    assert said in "".join(found)
    if said:
        assert f"column v is {here[0]} here and {there[0]} on node root" in found[0]
