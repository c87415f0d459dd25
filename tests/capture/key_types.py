"""Types of keys and columns for random tables, with forms of their values."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class KeyType:
    """Columns of a key.

    value -- makes the expressions of the key from the SQL text of a number.
    moves -- SET clauses that give every row another key.
    """

    columns: tuple[tuple[str, str], ...]
    value: Callable[[random.Random, str], tuple[str, ...]]
    moves: tuple[str, ...]


def _one(name: str, kind: str, *forms: str, moves: tuple[str, ...]) -> KeyType:
    return KeyType(
        ((name, kind),),
        lambda source, n: (source.choice(forms).replace("#", f"({n})"),),
        tuple(f"{name} = {move.replace('@', name)}" for move in moves),
    )


ODD = (
    "(case # % 4 when 0 then E'q\"\\\\\\n\\t' || # when 1 then ' ' || # || ' '"
    " when 2 then 'é' || # else 'k' || # end)"
)

KEYS: dict[str, KeyType] = {
    "int4": _one("id", "int4", "#::int4", moves=("-@", "9 - @", "@ + 1", "@ * 2")),
    "int8": _one("id", "int8", "(# + 9007199254740993)", moves=("18014398509481990 - @", "@ + 1")),
    "text": _one("id", "text", ODD, moves=("@ || 'x'", "reverse(@)", "upper(@)")),
    "odd name": _one('"K ""ey"', "text", ODD, moves=("@ || '\"'", "reverse(@)")),
    "numeric": _one(
        "id",
        "numeric",
        "#::numeric",
        "(# || '.0')::numeric",
        "(# || '.00')::numeric",
        moves=("@ * 1.0", "9 - @", "@ + 0.00", "trim_scale(@)"),
    ),
    "char": _one("id", "char(6)", "('k' || #)::char(6)", moves=("upper(@)::char(6)", "'x' || @")),
    "timestamptz": _one(
        "id",
        "timestamptz",
        "('2024-03-30 12:00+00'::timestamptz + # * interval '12:00:00.5')",
        moves=("@ + interval '1 day'", "@ - interval '0.5 s'"),
    ),
    "date": _one("id", "date", "(date '2024-02-27' + #::int4)", moves=("@ + 1", "@ - 3")),
    "float8": _one("id", "float8", "(#::float8 / 3)", moves=("-@", "@ * 2")),
    "interval": _one(
        "id",
        "interval",
        "make_interval(days => #::int4)",
        "make_interval(hours => 24 * #::int4)",
        moves=("justify_days(@)", "@ + interval '1 day'", "justify_interval(@)"),
    ),
    "bytea": _one(
        "id", "bytea", "decode(lpad(#::text, 4, '0'), 'hex')", moves=("@ || decode('00', 'hex')",)
    ),
    "inet": _one("id", "inet", "('10.0.0.0'::inet + #)", moves=("@ + 1", "set_masklen(@, 8)")),
    "int4 and text": KeyType(
        (("a", "int4"), ("b", "text")),
        lambda source, n: (f"(({n}) / 3)::int4", f"('b' || ({n}) % 3)"),
        ("a = 3 - a", "b = b || 'x'", "a = a + 1, b = upper(b)"),
    ),
    "uuid": _one("id", "uuid", "md5(#::text)::uuid", moves=("md5(@::text)::uuid",)),
    "any case": _one(
        "id",
        'text collate app."any case"',
        "('k' || #)",
        "('K' || #)",
        moves=("upper(@)", "'x' || @", "initcap(@)"),
    ),
    "domain": _one(
        "id", "app.amount", "#::numeric", "(# || '.0')::numeric", moves=("@ * 1.0", "9 - @")
    ),
    "array": _one("id", "int4[]", "array[(#)::int4, 7]", moves=("@ || 1", "array[9 - @[1], 7]")),
    "composite": _one(
        "id", "app.pair", "row((#)::int4, 'x')::app.pair", moves=("row(9 - (@).a, 'x')::app.pair",)
    ),
    "numeric and text": KeyType(
        (("b", "text"), ("a", "numeric")),
        lambda source, n: (
            f"chr((97 + ({n}) % 3)::int4)",
            f"((({n}) / 3)::int4 || '{source.choice(['', '.0', '.00'])}')::numeric",
        ),
        ("a = a * 1.0", "a = 3 - a", "b = case b when 'a' then 'b' else 'a' end"),
    ),
}

#: Types that the columns may have.
TYPES = (
    "create type app.pair as (a int4, b text)",
    "create domain app.amount as numeric check (value > -1000000)",
    # a server may be built without ICU: then letters differ
    "do $do$ begin create collation app.\"any case\" (provider = icu, locale = 'und-u-ks-level2',"
    " deterministic = false); exception when feature_not_supported then"
    ' create collation app."any case" from "C"; end $do$',
)

#: Columns besides the key, with values made from a number.
VALUES: dict[str, tuple[str, str]] = {
    "num": ("numeric", "(#::numeric / 8)"),
    "doc": ("json", "json_build_object('a', #, 'b', E'\\n')"),
    "docb": ("jsonb", "jsonb_build_object('a', #)"),
    "ok": ("bool", "(# % 2 = 0)"),
    "made": ("timestamptz", "('2024-10-27 00:30+00'::timestamptz + # * interval '1 hour')"),
    "list": ("text[]", "array['x', null, 'y\"' || #]"),
    "raw": ("bytea", "decode(md5(#::text), 'hex')"),
    "big": ("text", "repeat(md5(#::text), 90)"),
    "f": ("float8", "sqrt(abs(#::float8))"),
    "two": ("app.pair", "row(#, 'x \\\\y')::app.pair"),
    "amount": ("app.amount", "(#::numeric / 4)"),
    "twos": ("app.pair[]", "array[row(#, null)::app.pair]"),
    "span": ("int4range", "int4range(#::int4, #::int4 + 3)"),
    "Odd Col": ("text", "E'a\\\\b\\'\\n' || #"),
}
