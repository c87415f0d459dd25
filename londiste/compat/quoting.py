"""Quoting of values and names in SQL, and the url-encoded rows of ``logutriga``."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote_plus, unquote_plus

from londiste.db.names import TableName, quote


def quote_literal(value: object) -> str:
    """A value as an SQL literal: ``'it''s'``, or ``null`` for None."""
    if value is None:
        return "null"
    text = str(value).replace("'", "''")
    return "E'" + text.replace("\\", "\\\\") + "'" if "\\" in text else f"'{text}'"


def quote_ident(name: str) -> str:
    """A name as an SQL identifier."""
    return quote(name)


def quote_fqident(name: str) -> str:
    """A qualified name as SQL: its first dot ends the schema, which is ``public`` without one."""
    return TableName.parse(name).quoted


def db_urlencode(row: Mapping[str, object]) -> str:
    """A row as url-encoded text; columns that are None have no value."""
    return "&".join(
        quote_plus(str(name))
        if value is None
        else f"{quote_plus(str(name))}={quote_plus(str(value))}"
        for name, value in row.items()
    )


def db_urldecode(text: str) -> dict[str, str | None]:
    """The row in a url-encoded text; a column without a value is None."""
    row: dict[str, str | None] = {}
    for part in filter(None, text.split("&")):
        name, equals, value = part.partition("=")
        row[unquote_plus(name)] = unquote_plus(value) if equals else None
    return row
