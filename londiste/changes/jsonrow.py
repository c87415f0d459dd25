"""Decoder of JSON rows, written by ``pgq.jsontriga`` and the native capture.

Numbers keep the text they were written with, because a Python float would lose digits;
true and false become ``t`` and ``f``, as everywhere else in events.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any, NamedTuple, NoReturn

from londiste.changes.types import Malformed, Op

_OPS: dict[str, Op | None] = {
    "INSERT": Op.INSERT,
    "UPDATE": Op.UPDATE,
    "DELETE": Op.DELETE,
    "TRUNCATE": None,
}
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_ISO = re.compile(r"(\d+-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)(?:([+-]\d\d)(:\d\d)?)?( BC)?")
_DIGEST = re.compile("[0-9a-f]{8}")

#: No type of the known formats comes near it, names of 1600 key columns included.
MAX_TYPE_LENGTH = 200_000


class Header(NamedTuple):
    """``ev_type`` of the JSON format; op None is a TRUNCATE.

    row, state, pack -- only the native capture writes them; see ``keyed``.
    """

    op: Op | None
    table: str
    key: tuple[str, ...]
    row: str | None = None
    state: bool = False
    pack: bool = False


@functools.lru_cache(maxsize=4096)
def header(text: str) -> Header:
    """Reads an ``ev_type`` like ``{"op":"INSERT","table":["public","fruit"],"pkey":["id"]}``.

    Raises Malformed.
    """
    value = _parse(json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse), text)
    op, table, key = value.get("op"), value.get("table"), value.get("pkey")
    if not isinstance(op, str) or op not in _OPS:
        raise Malformed('"op" in its type is not INSERT, UPDATE, DELETE or TRUNCATE')
    if not isinstance(table, list) or not _are_names(table) or len(table) != 2:
        raise Malformed('"table" in its type is not [schema, table]')
    if not isinstance(key, list) or not _are_names(key):
        raise Malformed('"pkey" in its type is not a list of names')
    digest, state, pack = value.get("row"), value.get("state", False), value.get("pack", False)
    if digest is not None and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise Malformed('"row" in its type is not a digest of eight digits')
    if not isinstance(state, bool) or not isinstance(pack, bool):
        raise Malformed('"state" or "pack" in its type is neither true nor false')
    if (state and (op not in {"INSERT", "DELETE"} or not key)) or (pack and op == "TRUNCATE"):
        raise Malformed(f'"state" or "pack" in its type does not go with {op}')
    # Our own capture tells the whole row that is gone from a table without a key.
    if not key and (op == "UPDATE" or (op == "DELETE" and digest is None)):
        raise Malformed("it names no key columns")
    return Header(_OPS[op], ".".join(table), tuple(key), digest, state, pack)


def row(what: Header, text: str) -> dict[str, str | None]:
    """The row image in ``ev_data``; it holds at least the key columns.

    Raises Malformed.
    """
    found = image(text)
    for name in what.key:
        if name not in found:
            raise Malformed("key column {} is not in its data", quoted=name[:80])
    return found


def image(text: str) -> dict[str, str | None]:
    """A row image, whatever its key.  Raises Malformed."""
    image = _parse(_ROW, text)
    for name, value in image.items():
        if value is True:
            image[name] = "t"
        elif value is False:
            image[name] = "f"
        elif value is not None and type(value) is not str:
            raise Malformed("column {} holds nested JSON", quoted=name[:80])
    if "\\u" in text:
        for name, value in image.items():
            if _UNSTORABLE.search(name) or (value is not None and _UNSTORABLE.search(value)):
                raise Malformed(
                    "column {} has a character that text values cannot contain", quoted=name[:80]
                )
    return image


def plain_time(text: str) -> str:
    """A date with a time as PostgreSQL prints it; JSON has it in another form."""
    found = _ISO.fullmatch(text)
    if found is None:
        return text
    day, time, hours, minutes, era = found.groups(default="")
    return f"{day} {time}{hours}{'' if minutes == ':00' else minutes}{era}"


def _parse(decoder: json.JSONDecoder, text: str) -> dict[str, Any]:
    try:
        value = decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {str(error)[:120]}") from error
    if not isinstance(value, dict):
        raise Malformed("not a JSON object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Malformed("a name occurs twice in its JSON")
    return value


def _are_names(values: list[Any]) -> bool:
    return all(isinstance(name, str) and name and not _UNSTORABLE.search(name) for name in values)


def _refuse(constant: str) -> NoReturn:
    raise Malformed("{} is not valid JSON", quoted=constant)


_ROW = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=str, parse_int=str, parse_constant=_refuse
)
