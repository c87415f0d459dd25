"""Spark values as PostgreSQL text and as JSON.

Nothing is rounded: decimals keep their digits, floats are written so that they are read as the
same number, times with a zone are written in UTC.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from pyspark.sql import types as t

from londiste.errors import BadOption

_dump = partial(json.dumps, ensure_ascii=False)

_WHOLE = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)


def kind_of(kind: Any) -> str:
    """Category of a Spark type, which determines the columns that accept its values.

    Empty for a type whose values have no text format.
    """
    if isinstance(kind, (t.StringType, t.CharType, t.VarcharType)):
        return "string"
    if isinstance(kind, _WHOLE):
        return "whole"
    for known, word in (
        (t.BooleanType, "boolean"),
        (t.FloatType, "float"),
        (t.DoubleType, "double"),
        (t.DecimalType, "decimal"),
        (t.DateType, "date"),
        (t.TimestampType, "timestamp"),
        (t.TimestampNTZType, "timestamp_ntz"),
        (t.BinaryType, "binary"),
        (t.NullType, "null"),
    ):
        if isinstance(kind, known):
            return word
    if isinstance(kind, t.ArrayType):
        return "array" if kind_of(kind.elementType) else ""
    if isinstance(kind, t.MapType):
        return "document" if kind_of(kind.keyType) and kind_of(kind.valueType) else ""
    if isinstance(kind, t.StructType):
        return "document" if all(kind_of(field.dataType) for field in kind.fields) else ""
    return ""


def require_text(field: Any) -> None:
    """Raises BadOption for a column whose values have no text format."""
    if not kind_of(field.dataType):
        raise BadOption(
            f"column {field.name}: type {field.dataType.simpleString()} is not supported",
            hint=f"convert it to text with .withColumn('{field.name}', …cast('string')), or exclude"
            f" it: .drop('{field.name}')",
        )


def plain(value: Any) -> str:
    """The text that PostgreSQL reads; arrays, maps and structs as JSON."""
    if isinstance(value, str):
        return value
    # True is an int, too.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return "\\x" + value.hex()
    return document(value)


def document(value: Any) -> str:
    """The value as JSON; what JSON has no number for comes as a text."""
    if value is None:
        return "null"
    if isinstance(value, (int, Decimal)) or (isinstance(value, float) and math.isfinite(value)):
        return plain(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dump(str(k))}:{document(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(document, value)) + "]"
    return _dump(plain(value))


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(" ")
    return value.astimezone(UTC).isoformat(" ")


def nested(kind: Any) -> Callable[[Any], Any] | None:
    """What makes a value of Arrow plain dictionaries and lists; None: it is so already."""
    if isinstance(kind, t.MapType):
        inner = nested(kind.valueType) or _same
        return lambda value: (
            None if value is None else {plain(key): inner(one) for key, one in value}
        )
    if isinstance(kind, t.ArrayType):
        each = nested(kind.elementType)
        if each is None:
            return None
        return lambda value: None if value is None else [each(one) for one in value]
    if isinstance(kind, t.StructType):
        fields = {f.name: nested(f.dataType) for f in kind.fields}
        if not any(fields.values()):
            return None
        return lambda value: (
            None
            if value is None
            else {name: (fields[name] or _same)(one) for name, one in value.items()}
        )
    return None


def _same(value: Any) -> Any:
    return value
