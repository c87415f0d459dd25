"""Decoder of url-encoded rows, written by ``pgq.logutriga``.

A name without ``=`` is NULL, ``name=`` is the empty string.
"""

from __future__ import annotations

import re
import urllib.parse

from londiste.changes.types import Malformed, Op

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
