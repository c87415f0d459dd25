"""Rewrites row events with other rows, for branches that forward a subset.

The format stays the same: JSON with its numbers as written, or url-encoded.  Other fields of an
event (the old row, expressions of the trigger) may contain any value of the row, so they are
removed; the key text of the native capture is rebuilt when keys change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_from_bytes

from londiste.changes import jsonrow, urlencoded
from londiste.changes.keyed import columns_digest
from londiste.changes.types import Malformed, Op

Image = dict[str, str | None]

_OPS = {"I": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE}
_NAMES = {Op.INSERT: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}


class _Number(str):
    """A number, as it was written."""

    __slots__ = ()


@dataclass(frozen=True)
class Row:
    """One row of an event.

    image -- texts by column; raw -- the same as the event's own values where nothing has changed.
    key -- its key text in an event of the native capture.
    """

    image: Image
    raw: Mapping[str, Any]
    key: str | None = None


@dataclass(frozen=True)
class Rows:
    """A parsed row event.

    table -- schema and name in its type; empty for the url-encoded form.
    digest -- the type has one of its columns: the event is of the native capture.
    """

    op: Op
    key: tuple[str, ...]
    rows: Sequence[Row]
    table: tuple[str, ...] = ()
    digest: bool = False
    state: bool = False
    pack: bool = False

    @property
    def is_json(self) -> bool:
        """Its type is a JSON object."""
        return bool(self.table)


def is_fragment(kind: str) -> bool:
    """Whether events of this type are fragments of SQL, which have no full rows."""
    return kind in _OPS


def read(kind: str, data: str, key_text: str | None) -> Rows | None:
    """The rows of an event; None for one that has none (TRUNCATE).

    Raises Malformed, whose text contains nothing of the data.
    """
    op = _OPS.get(kind[:1])
    if op is not None and kind[1:2] == ":":
        key, image = urlencoded.row(kind[2:], op, data)
        return Rows(op, key, [Row(image, image)])
    if not kind.startswith("{"):
        return None
    what = jsonrow.header(kind)
    if what.op is None:
        return None
    texts = data.split("\n") if what.pack else [data]
    keys: Sequence[str | None] = [None] * len(texts)
    if key_text is not None:
        keys = key_text.split("\n") if what.pack else [key_text]
    if len(keys) != len(texts):
        raise Malformed("its fields have different numbers of rows")
    # The name of a schema may hold a dot, which the header joins: the type says it in full.
    table = tuple(json.loads(kind)["table"])
    rows = [
        Row(jsonrow.row(what, text), _RAW.decode(text), key)
        for text, key in zip(texts, keys, strict=True)
    ]
    return Rows(what.op, what.key, rows, table, what.row is not None, what.state, what.pack)


def changed(row: Row, keeps: Callable[[str], bool], change: Callable[[Image], Image] | None) -> Row:
    """The row without excluded columns, changed by the function."""
    image = {name: value for name, value in row.image.items() if keeps(name)}
    if change is not None:
        image = change(image)
    raw = {
        name: row.raw[name] if value == row.image.get(name) else value
        for name, value in image.items()
    }
    return Row(image, raw, row.key)


def key_text(row: Row, key: Sequence[str]) -> str:
    """The key text of a row with a changed key, unlike any other capture's."""
    return _dump([row.image.get(name) for name in key])


def write(event: Rows, op: Op, rows: Sequence[Row], *, state: bool) -> tuple[str, str, str | None]:
    """Type, data and key text of an event with these rows; a url-encoded one has no state.

    rows -- all with the same columns; more than one for a packed event only.
    """
    if not event.is_json and not state:
        (row,) = rows
        return f"{op.value}:{','.join(event.key)}", _encoded(row.image), None
    return _written(event, op, rows, state, event.table or ("", ""))


def as_state(
    event: Rows, op: Op, rows: Sequence[Row], table: tuple[str, str]
) -> tuple[str, str, str | None]:
    """The same as a state of the table; for a DELETE the key is enough.

    table -- schema and name, for events that do not have them in their type.
    """
    if op is Op.DELETE:
        rows = [
            Row({n: r.image.get(n) for n in event.key}, {n: r.raw.get(n) for n in event.key}, r.key)
            for r in rows
        ]
    return _written(event, op, rows, True, event.table or table)


def _written(
    event: Rows, op: Op, rows: Sequence[Row], state: bool, table: Sequence[str]
) -> tuple[str, str, str | None]:
    kind: dict[str, Any] = {"op": _NAMES[op], "table": list(table), "pkey": list(event.key)}
    keyed = event.digest
    if keyed:
        kind["row"] = columns_digest(rows[0].image)
    if state:
        kind["state"] = True
    if event.pack:
        kind["pack"] = True
    keys = None
    if keyed and event.key:
        keys = "\n".join(row.key or "" for row in rows)
    return _dump(kind), "\n".join(_dump(row.raw) for row in rows), keys


def _encoded(image: Image) -> str:
    return "&".join(
        _plus(name) if value is None else f"{_plus(name)}={_plus(value)}"
        for name, value in image.items()
    )


def _plus(text: str) -> str:
    quoted = quote_from_bytes(text.encode(), safe=" ").replace("~", "%7e").replace(" ", "+")
    return _HEX.sub(lambda found: found[0].lower(), quoted)


_HEX = re.compile("%[0-9A-F]{2}")


def _dump(value: Any) -> str:
    """JSON on one line, with numbers as they were written."""
    if isinstance(value, _Number):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_TEXT(k)}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return _TEXT(value)


_TEXT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_RAW = json.JSONDecoder(parse_float=_Number, parse_int=_Number)
