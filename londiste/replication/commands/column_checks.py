"""Checks for target columns that are narrower than those of the source.

PostgreSQL refuses a value that is too long or out of range, which blocks the worker at the first
such row.  It rounds a value with too many digits without a message.  Events of the native capture
contain booleans and times as JSON has them, so a text column gets other texts from them than from
the copy.

Other types drop parts of a value without a message: a date has no time of day.

``look`` asks both databases; all others are pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from londiste.db import catalog
from londiste.db.catalog import Column
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument, quote
from londiste.handlers.base import TableRules
from londiste.replication.tablesync.copy_source import CopySource

_TYPE = re.compile(r"(?P<name>[a-z][a-z0-9 ]*?)(?:\((?P<mod>-?[\d,-]+)\))?(?P<zone> with.*)?")
#: Families of types, each with its sizes; a smaller one takes not all that a larger one has.
_SIZES = (
    {"smallint": 2, "integer": 4, "bigint": 8, "numeric": 99},
    {"real": 4, "double precision": 8},
)
_FLOATS = {"real", "double precision"}
_STRINGS = ({"character varying", "character", "text", "bpchar"}, {"bit", "bit varying"})
_TEXTS = _STRINGS[0] | {"citext"}
_FRACTIONS = ("timestamp", "time", "interval")
_ALL = 1 << 30


def to_store(table: TableName, dest: TableName, columns: Sequence[tuple[str, str, str]]) -> str:
    """For a hint: commands after which generated columns of this node have the source's values.

    columns -- name, type and ``generated`` of each, as the catalog has them.
    """
    actions = ", ".join(
        f"alter column {quote(name)} drop expression"
        if generated == "s"
        else f"drop column {quote(name)}, add column {quote(name)} {type_}"
        for name, type_, generated in columns
    )
    return (
        f"in psql on this node: alter table {dest.quoted} {actions}; then: londiste resync"
        f" {argument(table)}"
    )


def look(
    origin: Connection, there: CopySource, local: Connection, dest: TableName, wants: TableRules
) -> tuple[str, ...]:
    """``notes`` of a table of two databases; none when it is missing in one of them.

    origin -- a session on the node that ``there`` names.
    """
    if catalog.info(origin, there.table) is None or catalog.info(local, dest) is None:
        return ()
    source, target = catalog.columns(origin, there.table), catalog.columns(local, dest)
    key = catalog.key(origin, there.table)
    return notes(source, target, dest, wants, origin=there.node, key=key)


def notes(
    source: Sequence[Column],
    target: Sequence[Column],
    table: TableName,
    wants: TableRules,
    *,
    origin: str,
    key: Sequence[str] = (),
) -> tuple[str, ...]:
    """A sentence for each column that cannot store every value of its source.

    source, target -- the columns there and here; columns that are not written are ignored.
    origin -- name of the node the rows come from; key -- the columns of the key there.
    """
    here = {column.name: column for column in target if not column.generated}
    names = dict(wants.renamed)
    found = []
    for column in source:
        name = names.get(column.name, column.name)
        mine = here.get(name)
        if mine is None or not wants.keeps(column.name) or column.name in wants.changed:
            continue
        # A domain stores what the type below it stores.
        types = mine.read_as, column.read_as
        what = narrower(*types) or loses(*types)
        if column.name in key and column.type == "numeric" and _is_text(mine.type):
            what = _ZEROS
        if what:
            found.append(
                f"table {table}: column {name} is {mine.type} here and {column.type} on node"
                f" {origin}: {what}"
            )
    return tuple(found)


def narrower(ours: str, theirs: str) -> str:
    """What becomes of values of type ``theirs`` that a column of type ``ours`` has no room for; ''
    if there are none, or the types say nothing about it.

    Both as format_type prints them.
    """
    if ours == theirs:
        return ""
    if _is_text(ours) and (theirs == "boolean" or theirs.startswith("timestamp")):
        # Arrays of them are text in events, too.
        return "" if theirs.endswith("[]") else _DIFFERS
    mine, their = _parsed(ours.removesuffix("[]")), _parsed(theirs.removesuffix("[]"))
    if mine is None or their is None:
        return ""
    (name, mods), (other, others) = mine, their
    if any(name in some and other in some for some in _STRINGS):
        return _STOPS if _length(mods) < _length(others) else ""
    if name == other == "numeric":
        return _numeric(mods, others)
    if name.startswith(_FRACTIONS) and (name == other or {name, other} <= _STAMPS):
        return _ROUNDS if (mods or (6,))[0] < (others or (6,))[0] else ""
    if name in _FLOATS and other in ("numeric", *_INTEGERS):
        return "" if other in _APART[name] else _ROUNDS
    for sizes in _SIZES:
        if name in sizes and other in sizes:
            if other == "numeric" and others and others[-1] > 0 and name != "numeric":
                return _ROUNDS
            if sizes[name] < sizes[other]:
                return _ROUNDS if name == "real" else _STOPS
            if name == "numeric" and mods and mods[0] - mods[-1] < _DIGITS[other]:
                return _STOPS
    return ""


def loses(ours: str, theirs: str) -> str:
    """Which parts of values of type ``theirs`` a column of another type ``ours`` drops without a
    message; '' for none.

    Both as format_type prints them.
    """
    mine, their = ours.removesuffix("[]"), theirs.removesuffix("[]")
    if mine == their:
        return ""
    name, other = (_name(text) for text in (mine, their))
    if name.startswith("interval") and other.startswith("interval"):
        last, finest = (_FIELDS.index(_last_field(text)) for text in (name, other))
        return f"parts smaller than a {_FIELDS[last]} are {_DROPPED}" if last < finest else ""
    if name == "money" and other == "numeric":
        digits = (_parsed(their) or ("", ()))[1]
        return _ROUNDS if not digits or digits[-1] > _CENTS else ""
    for (target, sources), what in _LOST.items():
        if name == target and other in sources:
            return what
    return ""


def tells_apart(ours: str, theirs: str) -> bool:
    """Whether texts of different values of type ``theirs`` are different values of type ``ours``,
    or are refused; False if nothing is known about the types.

    Both are types of PostgreSQL, as format_type prints them.
    """
    if ours == theirs:
        return True
    mine, their = ours.removesuffix("[]"), theirs.removesuffix("[]")
    (name, mods), (other, others) = (_parsed(text) or (text, ()) for text in (mine, their))
    if name in _STRINGS[0] - {"character"} and (mine == ours or their != theirs):
        return True
    if (mine == ours) != (their == theirs):
        return False
    if mine == "interval" and other.startswith("interval"):
        return True
    if other not in _APART.get(name, ()):
        return False
    if name == "numeric" and mods:
        return mods[-1] >= (others or (0 if other in _INTEGERS else _ALL,))[-1]
    if name.startswith("time") and other != "date":
        return (mods or (6,))[0] >= (others or (6,))[0]
    return True


def _last_field(name: str) -> str:
    word = name.rpartition(" ")[2]
    return word if word in _FIELDS else _FIELDS[-1]


def _name(text: str) -> str:
    found = _parsed(text)
    return text if found is None else found[0]


_DROPPED = "dropped without a message"
#: Fields of an interval, the largest first; a column that ends with one has all before it.
_FIELDS = ("year", "month", "day", "hour", "minute", "second")
_CENTS = 2
_STAMPS = {"timestamp without time zone", "timestamp with time zone"}
#: A type, those whose values it takes in part, and what becomes of the rest.
_LOST = {
    ("name", frozenset(_TEXTS)): "texts are cut at 63 bytes without a message",
    ('"char"', frozenset({*_TEXTS, "name"})): f"all bytes but the first are {_DROPPED}",
    ("date", frozenset(_STAMPS)): f"the time of day is {_DROPPED}",
    ("time without time zone", frozenset(_STAMPS)): f"the date is {_DROPPED}",
    ("time without time zone", frozenset({"time with time zone"})): f"the zone is {_DROPPED}",
    (
        "jsonb",
        frozenset({*_TEXTS, "json"}),
    ): "of a repeated key only the last value is kept",
    ("money", frozenset(_FLOATS)): "values are rounded without a message",
}
_INTEGERS = frozenset({"smallint", "integer", "bigint"})
#: A type, and types of which it stores each value, or refuses it.
_APART: dict[str, Collection[str]] = {
    **dict.fromkeys(_INTEGERS, _INTEGERS),
    **dict.fromkeys(_STRINGS[1], _STRINGS[1]),
    **{name: {"date", *_STAMPS} for name in _STAMPS},
    "numeric": {"numeric", *_INTEGERS},
    "real": {"smallint"},
    "double precision": {"real", "smallint", "integer"},
    # Without blanks at the end, which it drops.
    "character": {"character", "uuid", "date", "boolean", "numeric", *_INTEGERS},
    "json": {"jsonb", *_STRINGS[0]},
    "time without time zone": {"time without time zone"},
    "time with time zone": {"time without time zone", "time with time zone"},
    "inet": {"cidr"},
}
_STOPS = "a value that is too large blocks the worker"
_ROUNDS = "values are rounded without a message"
_DIFFERS = "rows that are copied have other texts (t, a blank) than replayed ones (true, T)"
_ZEROS = "1 and 1.0 are one key there and two here; a compatible trigger then blocks the worker"
_DIGITS = {"smallint": 5, "integer": 10, "bigint": 19}


def _numeric(mods: tuple[int, ...], others: tuple[int, ...]) -> str:
    """For numeric(p, s): digits before the point block the worker, those after it are rounded."""
    if not mods:
        return ""
    if not others or mods[-1] < others[-1]:
        return _ROUNDS
    return _STOPS if mods[0] - mods[-1] < others[0] - others[-1] else ""


def _length(mods: tuple[int, ...]) -> int:
    return mods[0] if mods else _ALL


def _is_text(ours: str) -> bool:
    found = _parsed(ours)
    return found is not None and found[0] in _TEXTS


def _parsed(text: str) -> tuple[str, tuple[int, ...]] | None:
    """Name and modifiers of a built-in type; of numeric always both, or none."""
    found = _TYPE.fullmatch(text)
    if found is None:
        return None
    name, mods = found["name"] + (found["zone"] or ""), found["mod"]
    numbers = tuple(map(int, mods.split(","))) if mods else ()
    if name == "numeric" and len(numbers) == 1:
        numbers = (*numbers, 0)
    return name, numbers
