"""Url-encoded rows, as ``pgq.logutriga`` writes them.

A name without ``=`` is NULL, ``name=`` is the empty string.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping

from londiste.changes.types import Malformed, Op

_HEX = re.compile("%[0-9A-F]{2}")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def row(key_text: str, op: Op, data: str) -> tuple[tuple[str, ...], dict[str, str | None]]:
    """Key columns and row image of one event.

    key_text -- the text after the colon in ``ev_type``.

    Raises Malformed.
    """
    image: dict[str, str | None] = {}
    if data:
        if _BROKEN_ESCAPE.search(data):
            raise Malformed("a % in its data is not followed by two hex digits")
        for field in data.split("&"):
            name, equals, value = field.partition("=")
            column = _plain(name)
            if not column:
                raise Malformed("a column in its data has no name")
            if column in image:
                raise Malformed("column {} occurs twice in its data", quoted=column)
            image[column] = _plain(value) if equals else None
    key = _key(key_text, image)
    if op is not Op.INSERT and not key:
        raise Malformed("it names no key columns")
    return key, image


def encoded(image: Mapping[str, str | None]) -> str:
    """The text of a row: column name -> text of the value, None for NULL."""
    return "&".join(
        _plus(name) if value is None else f"{_plus(name)}={_plus(value)}"
        for name, value in image.items()
    )


def _plus(text: str) -> str:
    quoted = urllib.parse.quote_from_bytes(text.encode(), safe=" ").replace("~", "%7e")
    return _HEX.sub(lambda found: found[0].lower(), quoted.replace(" ", "+"))


def _plain(text: str) -> str:
    if "%" not in text:
        return text.replace("+", " ")
    try:
        plain = urllib.parse.unquote_to_bytes(text.replace("+", " ")).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(
            "its data is not UTF-8",
            hint="use a JSON trigger for databases that are not UTF8: logutriga url-encodes in"
            " the encoding of the database",
        ) from error
    if "\0" in plain:
        raise Malformed("its data contains a zero byte")
    return plain


def _key(text: str, image: dict[str, str | None]) -> tuple[str, ...]:
    """The names in a list joined by commas or blanks; a name may have some, the row tells."""
    if not text:
        return ()
    names: list[str] = []
    start = ""
    for part in text.split(","):
        start = f"{start},{part}" if start else part
        found = [start] if start in image else start.split()
        if found and all(name in image for name in found):
            names += found
            start = ""
    if start:
        raise Malformed("key column {} is not in its data", quoted=start[:80])
    return tuple(names)
