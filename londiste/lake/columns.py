"""Columns of a lake table, as the database's columns change.

A column is never removed here: what is dropped there is NULL in rows that are written later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from londiste.db import catalog
from londiste.db.names import argument
from londiste.engine.spark.stream.types import StreamColumn, StreamShape
from londiste.errors import StateError


@dataclass(frozen=True)
class LakeColumn:
    """A column.

    type -- of PostgreSQL; kind, digits, scale -- of Spark, see ``values.Column``.
    number -- of PostgreSQL, see ``catalog.Column``.
    since -- the newest tick when it was first seen; 0: it was there from the start.
    dropped -- the newest tick when it was found to be gone or excluded; None: it is read.
    """

    name: str
    type: str
    kind: str
    digits: int = 0
    scale: int = 0
    number: int = 0
    since: int = 0
    dropped: int | None = None

    @property
    def column(self) -> StreamColumn:
        """As readers of events know it."""
        return StreamColumn(self.name, self.type, self.kind, self.digits, self.scale)


@dataclass(frozen=True)
class Evolved:
    """What became of the columns.

    excluded -- those that the lake reads no longer, though the table has them.
    filled -- those that can have values in rows whose change no event tells: they have a default,
        or were there under another name.
    """

    columns: tuple[LakeColumn, ...]
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()


def first(
    found: Sequence[StreamColumn], details: Sequence[catalog.Column], tick: int = 0
) -> tuple[LakeColumn, ...]:
    """Columns that are new in the lake; the rest is as in ``evolve``."""
    numbers = {column.name: column.number for column in details}
    return tuple(
        LakeColumn(c.name, c.type, c.kind, c.digits, c.scale, numbers[c.name], tick) for c in found
    )


def evolve(
    table: object,
    known: Sequence[LakeColumn],
    found: Sequence[StreamColumn],
    details: Sequence[catalog.Column],
    tick: int,
) -> Evolved:
    """The columns from now on.  Pure.

    found -- those of the table; details -- what else the database says of them.
    tick -- the newest, made before the columns were looked at.

    Raises StateError for a column whose values do not go into its files any more.
    """
    there = {column.name: column for column in first(found, details, tick)}
    numbers = {column.number for column in known}
    present = {(column.name, column.number) for column in details}
    made: list[LakeColumn] = []
    added: list[str] = []
    dropped: list[str] = []
    excluded: list[str] = []
    filled: list[str] = []
    for column in known:
        now = there.pop(column.name, None)
        if now is None:
            if column.dropped is None:
                gone = excluded if (column.name, column.number) in present else dropped
                gone.append(column.name)
                column = replace(column, dropped=tick)
            made.append(column)
            continue
        if now.column.shown != column.column.shown:
            raise _retyped(table, column, now)
        if column.dropped is None and now.number == column.number:
            now = replace(now, since=column.since)
        else:
            # Another one of the same name: its values have nothing to do with those before.
            added.append(now.name)
            filled.append(now.name)
        made.append(now)
    by_name = {column.name: column for column in details}
    lower = {column.name.lower(): column.name for column in known}
    for column in there.values():
        if column.name.lower() in lower:
            raise StateError(
                f"table {table}: column {column.name} conflicts with {lower[column.name.lower()]}"
                " of the lake",
                detail="Spark ignores case in names, and older files are not rewritten",
                hint="restore the column's name, or start with another lake_path; or exclude it:"
                f" skip_columns = {table}.{column.name}",
            )
        one = by_name[column.name]
        added.append(column.name)
        if column.number in numbers or one.default is not None or one.identity or one.not_null:
            filled.append(column.name)
        made.append(column)
    return Evolved(tuple(made), tuple(added), tuple(dropped), tuple(excluded), tuple(filled))


def retyped(
    known: Sequence[LakeColumn], now: Sequence[LakeColumn], *, rewritten: bool = False
) -> tuple[LakeColumn, LakeColumn] | None:
    """The first column whose change of type may have changed values: before and now.  Pure.

    rewritten -- so was the table: by ``USING``, any new type has other values.
    """
    found = {column.name: column for column in now}
    for column in known:
        other = found[column.name]
        same = column.dropped is other.dropped is None and column.number == other.number
        kept = keeps_values(column.type, other.type) and not rewritten
        if same and column.type != other.type and not kept:
            return column, other
    return None


def keeps_values(old: str, new: str) -> bool:
    """Whether values of a type are the same in another one, with the same texts.  Pure."""
    if old == new:
        return True
    one, other = _TYPE.fullmatch(old), _TYPE.fullmatch(new)
    if one is None or other is None:
        return False
    if _base(one) != _base(other):
        return False
    if other["size"] is None:
        return True
    wider = one["size"] is not None and int(one["size"]) <= int(other["size"])
    return wider and int(one["scale"] or 0) == int(other["scale"] or 0)


#: Types that restrict their values by a length or precision; without it they take every value.
_TYPE = re.compile(
    r"(?P<name>text|character varying|bit varying|numeric|time|timestamp|interval)"
    r"(?:\((?P<size>\d+)(?:,(?P<scale>-?\d+))?\))?(?P<rest>(?: with(?:out)? time zone)?(?:\[\])?)"
)


def _base(type: re.Match[str]) -> tuple[str, str]:
    name = "text" if type["name"] == "character varying" else type["name"]
    return name, type["rest"]


def shape(columns: Sequence[LakeColumn], tick: int, unread: frozenset[str]) -> StreamShape:
    """What events behind a tick are read as: without columns that none of them has."""
    return StreamShape(
        tuple(c.column for c in columns if c.dropped is None or c.dropped >= tick), unread
    )


def complete(columns: Sequence[LakeColumn], tick: int) -> bool:
    """Whether every event behind a tick has all columns of ``shape``.

    ALTER TABLE waits for all who have written: whoever wrote without the column has committed
    before it could be seen, so behind the next tick there is nothing of his.
    """
    return all(c.since < tick for c in columns if c.since and c.dropped is None) and all(
        c.dropped is None or c.dropped < tick for c in columns
    )


def _retyped(table: object, before: LakeColumn, now: LakeColumn) -> StateError:
    others = (
        f"mode state: londiste lake resync {argument(str(table))}; otherwise start with another"
        " lake_path"
    )
    if before.type == now.type:
        return StateError(
            f"table {table}: column {now.name} ({now.type}) is {now.column.shown} by these"
            f" settings, and {before.column.shown} in the lake",
            detail="string_columns or unsupported_values has changed; existing files have the old"
            " type",
            hint=f"restore the setting; or, {others}",
        )
    return StateError(
        f"table {table}: column {now.name} changed its type: {now.type} is {now.column.shown} in"
        f" the lake, {before.type} was {before.column.shown}",
        detail="existing files have the old type",
        hint=f"{others} (string_columns stores it as text, which accepts every type)",
    )
