"""Types of table columns in Spark, and conversion of their texts.

A column gets a type of Spark only where the two have the same values, or where a value that has no
place there can be distinguished from all others: numeric, date and the timestamps.  Every other
type is PostgreSQL's own text.  A value without a place raises ``Unfit``; it never becomes NULL
automatically.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from londiste.changes.jsonrow import plain_time
from londiste.db import catalog
from londiste.engine.spark.stream.options import GapPolicy
from londiste.errors import BadOption

#: Digits of a decimal in Spark, and fractional digits of a numeric without limits.
MAX_DIGITS = 38
OPEN_SCALE = 18


class Unfit(Exception):
    """A value has no place in its column; the message completes "… is …"."""


@dataclass(frozen=True)
class StreamColumn:
    """A column of the table in the result.

    type -- as PostgreSQL has it.
    kind -- a type of Spark, in lower case; digits and scale are those of a decimal.
    """

    name: str
    type: str
    kind: str
    digits: int = 0
    scale: int = 0

    @property
    def shown(self) -> str:
        """The type of Spark in words."""
        return f"decimal({self.digits},{self.scale})" if self.kind == "decimal" else self.kind

    @property
    def is_time(self) -> bool:
        """Whether JSON has its texts in another form than PostgreSQL prints."""
        return self.type == "date" or _STAMP.fullmatch(self.type) is not None


_EXACT = {
    "boolean": "boolean",
    "smallint": "short",
    "integer": "int",
    "bigint": "long",
    "oid": "long",
    "real": "float",
    "double precision": "double",
    "bytea": "binary",
}
_NUMERIC = re.compile(r"numeric(?:\((\d+)(?:,(-?\d+))?\))?")
_STAMP = re.compile(r"timestamp(?:\(\d\))? (with|without) time zone")


@dataclass(frozen=True)
class StreamShape:
    """What a table is in the result.

    unread -- generated columns: not all events have them, so the result has none.
    tables -- of several tables, by name; then there are no columns of its own.
    """

    columns: tuple[StreamColumn, ...] = ()
    unread: frozenset[str] = frozenset()
    tables: tuple[tuple[str, StreamShape], ...] = ()

    @property
    def types(self) -> tuple[tuple[str, str], ...]:
        """Names of all columns with their types in Spark."""
        inside = [
            (f"{table}.{name}", kind) for table, shape in self.tables for name, kind in shape.types
        ]
        return (*((c.name, c.shown) for c in self.columns), *inside)


def shape_of(
    found: Sequence[catalog.Column],
    *,
    strings: Iterable[str] = (),
    policy: GapPolicy = GapPolicy.FAIL,
) -> StreamShape:
    """Columns of a table in the result.

    strings -- columns to return as text.
    policy -- STRING: also return columns as text whose values may exceed their type in Spark.

    Raises BadOption for a name in ``strings`` that no column has.
    """
    wanted = set(strings)
    unknown = sorted(wanted - {column.name for column in found})
    if unknown:
        raise BadOption(
            f"stringColumns: unknown columns {', '.join(unknown)}",
            hint=f"use columns of the table: {', '.join(column.name for column in found)}",
        )
    made = []
    for column in found:
        if column.generated:
            continue
        one = _column(column.name, column.type)
        if column.name in wanted or (policy is GapPolicy.STRING and one.kind in _RISKY):
            one = StreamColumn(column.name, column.type, "string")
        made.append(one)
    return StreamShape(tuple(made), frozenset(c.name for c in found if c.generated))


_RISKY = frozenset({"decimal", "date", "timestamp", "timestamp_ntz"})


def _column(name: str, type: str) -> StreamColumn:
    kind = _EXACT.get(type)
    if kind is not None:
        return StreamColumn(name, type, kind)
    if type == "date":
        return StreamColumn(name, type, "date")
    if stamp := _STAMP.fullmatch(type):
        return StreamColumn(name, type, "timestamp" if stamp[1] == "with" else "timestamp_ntz")
    if number := _NUMERIC.fullmatch(type):
        if number[1] is None:
            return StreamColumn(name, type, "decimal", MAX_DIGITS, OPEN_SCALE)
        digits, scale = int(number[1]), int(number[2] or 0)
        # A negative scale is of digits in front of the point, one above the digits of zeros behind.
        digits, scale = (digits - scale, 0) if scale < 0 else (max(digits, scale), scale)
        if digits <= MAX_DIGITS:
            return StreamColumn(name, type, "decimal", digits, scale)
        return StreamColumn(name, type, "decimal", MAX_DIGITS, min(scale, OPEN_SCALE))
    return StreamColumn(name, type, "string")


def unlimited(shape: StreamShape) -> list[str]:
    """The columns whose numbers may have more digits than their type in Spark."""
    found = []
    for column in shape.columns:
        number = _NUMERIC.fullmatch(column.type) if column.kind == "decimal" else None
        if number is not None and _column(column.name, column.type) == column:
            digits, scale = int(number[1] or 0), int(number[2] or 0)
            if not digits or max(digits - min(scale, 0), scale) > MAX_DIGITS:
                found.append(column.name)
    return found


def converter(column: StreamColumn, policy: GapPolicy = GapPolicy.FAIL) -> Callable[[str], Any]:
    """What makes the value of Spark of PostgreSQL's text; raises Unfit.

    policy -- ROUND: digits after those of the column are rounded, half away from zero.
    """
    if column.kind == "decimal":
        digits, scale, rounded = column.digits, column.scale, policy is GapPolicy.ROUND
        return lambda text: _decimal(text, digits, scale, rounded)
    if column.kind == "string":
        if column.is_time:
            return plain_time
        return str
    return _CONVERTERS[column.kind]


def _boolean(text: str) -> bool:
    if text in ("t", "true"):
        return True
    if text in ("f", "false"):
        return False
    raise Unfit("not a boolean")


def _whole(bits: int) -> Callable[[str], int]:
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise Unfit("not an integer") from None
        if not low <= value < high:
            raise Unfit(f"out of range of {bits} bits")
        return value

    return convert


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Unfit("not a number") from None


def _decimal(text: str, digits: int, scale: int, rounded: bool) -> Decimal:
    # Spark has no NaN and no infinity among decimals.
    if not text or text[-1] not in "0123456789.":
        raise Unfit("not a decimal")
    try:
        value = Decimal(text)
        exact = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, Context(prec=digits))
    except InvalidOperation:
        raise Unfit(f"out of range of decimal({digits},{scale})") from None
    if exact != value and not rounded:
        raise Unfit(f"more precise than decimal({digits},{scale})")
    return exact


def _binary(text: str) -> bytes:
    try:
        if text.startswith("\\x"):
            return binascii.unhexlify(text[2:])
        return _ESCAPED.sub(_byte, text).encode("latin-1")
    except (binascii.Error, ValueError):
        raise Unfit("not a bytea literal") from None


#: The other form of bytea, in which captures of other programs may have written.
_ESCAPED = re.compile(r"\\([0-3][0-7]{2}|\\)")


def _byte(found: re.Match[str]) -> str:
    return "\\" if found[1] == "\\" else chr(int(found[1], 8))


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Unfit("not in the years 1 to 9999") from None


def _stamp(text: str) -> datetime:
    try:
        value = datetime.fromisoformat(text)
        return value if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unfit("not in the years 1 to 9999") from None


def _local(text: str) -> datetime:
    value = _stamp(text)
    if value.tzinfo is not None:
        raise Unfit("a time with a zone")
    return value


def _zoned(text: str) -> datetime:
    value = _stamp(text)
    if value.tzinfo is None:
        raise Unfit("a time without a zone")
    return value


_CONVERTERS: dict[str, Callable[[str], Any]] = {
    "boolean": _boolean,
    "short": _whole(16),
    "int": _whole(32),
    "long": _whole(64),
    "float": _real,
    "double": _real,
    "binary": _binary,
    "date": _date,
    "timestamp": _zoned,
    "timestamp_ntz": _local,
}
