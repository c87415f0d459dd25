"""What an error of the server shows: no value of a row, in whatever language the server writes.

Values are found by structure: by the kind of the statement, by the SQLSTATE and by what the server
tells beside its text.  A text that may contain one is shown without all that it quotes; a
translated text is not shown at all, but the name of its SQLSTATE and the names of the objects.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from londiste.error_origin import in_owner_code, raised_by_code, restricted_hint, server_hint
from londiste.wording import bounded, detail_without_values, first_line, without_value

if TYPE_CHECKING:
    import psycopg


class Values(Enum):
    """Where a statement has values of rows."""

    NONE = "it has none, or reads those of the server only"
    APART = "in its parameters, or in the stream of COPY"
    INSIDE = "in its text"


class Shown(NamedTuple):
    """Parts of an error of the server without values of rows."""

    message: str
    detail: str
    hint: str


#: Classes and SQLSTATEs whose messages name objects of the database and no values.  Those of class
#: P0 are written by the code of a table; docs/howto/logging.md says that it is shown.
_NAMES_ONLY = (
    *("08", "23", "25", "28", "40", "42501", "428C9", "44", "53", "54", "55", "57", "58", "LD"),
    *("P0", "XX001", "XX002"),
)
#: Their details contain rows and keys.
_ROWS = ("22", "23", "44")
_BYTES = re.compile(r"0x[0-9a-f]{2}(?: 0x[0-9a-f]{2})*")
_COLUMN = re.compile(r'(?m)^COPY [^\n]+?, line \d+, (column [^\n]+?)(?:: "|: null|$)')


#: Characters of a text of the server that are searched for values.
_SEARCHED = 20_000
#: Characters of a message, a detail and a hint.  PostgreSQL lists up to 100 objects in a detail.
_MOST = (2_000, 8_000, 2_000)


def server_text(error: psycopg.Error) -> str:
    """The message of the server or of the driver, as it is: a long one in part."""
    return bounded(_message(error))


def shown(error: psycopg.Error, values: Values = Values.NONE) -> Shown:
    """The message, detail and hint of an error of the server, without values of rows.

    A server may send texts of any length: each is shown in part.
    """
    whole = (_message(error), error.diag.message_detail or "", server_hint(error))
    parts = _without_values(error, Shown(*map(_searched, whole)), values)
    return Shown(
        *(
            bounded(part, most, of=len(text) if part and len(text) > _SEARCHED else 0)
            for part, text, most in zip(parts, whole, _MOST, strict=True)
        )
    )


def _message(error: psycopg.Error) -> str:
    text = error.diag.message_primary or first_line(str(error))
    return text.strip() or type(error).__name__


def _searched(text: str) -> str:
    """Pure: the beginning of a text; a value that it has cut off has an end, to be found by."""
    return text if len(text) <= _SEARCHED else f'{text[:_SEARCHED]}")'


def _without_values(error: psycopg.Error, texts: Shown, values: Values) -> Shown:
    state = error.sqlstate or ""
    message, detail = texts.message, texts.detail
    hint = texts.hint or restricted_hint(error)
    severity = _of(error, "severity_nonlocalized")
    translated = bool(severity) and _of(error, "severity") != severity
    may = _may_quote(error, values)
    if may and translated and not raised_by_code(error):
        message = _name(error)
    elif may:
        message = _unquoted(message, state)
    if not (may or state.startswith(_ROWS)):
        return Shown(message, detail, hint)
    if translated:
        detail = _objects(error)
    else:
        detail = detail_without_values(detail, state)
        detail = _unquoted(detail, state) if may else detail
        columns = _COLUMN.findall((error.diag.context or "")[:_SEARCHED])
        detail = "; ".join(filter(None, [detail, *columns[:1]]))
    return Shown(message, detail, "" if translated or _unquoted(hint, "22") != hint else hint)


def _may_quote(error: psycopg.Error, values: Values) -> bool:
    """Pure: whether the message of an error may contain a value of a row."""
    state = error.sqlstate or ""
    if in_owner_code(error) or re.search("(?m)^COPY ", error.diag.context or ""):
        values = Values.APART if values is Values.NONE else values
    if _of(error, "severity_nonlocalized") in {"FATAL", "PANIC"}:
        return False
    if not state:
        # The driver refuses a value by a DataError, which has the class of these.
        return values is not Values.NONE and any(
            one.__name__ == "DataError" for one in type(error).__mro__
        )
    if _is_about_text(error, values):
        return False
    if state.startswith("22"):
        return True
    return values is not Values.NONE and not state.startswith(_NAMES_ONLY)


def _is_about_text(error: psycopg.Error, values: Values) -> bool:
    """Whether the error is about the text of a statement that contains no values.

    The server tells a position in it; values have none.
    """
    if _of(error, "statement_position"):
        return values is not Values.INSIDE
    if not _of(error, "internal_position"):
        return False
    # Else it is of a function of a trigger, and not of our statement.
    inmost = (error.diag.context or "").split("\n", 1)[0]
    return values is not Values.INSIDE or "londiste_apply." not in inmost


def _unquoted(text: str, state: str) -> str:
    """A text of the server without what it quotes, lists behind a colon, or shows as bytes."""
    text = without_value(_BYTES.sub("***", text), state if state.startswith("22") else "22")
    return re.sub(r"(?s): .*", ": ***", text)


def _name(error: psycopg.Error) -> str:
    """The name of the SQLSTATE, as the server's manual has it."""
    import psycopg

    try:
        name = psycopg.errors.lookup(error.sqlstate or "").__name__
    except KeyError:
        name = type(error).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _objects(error: psycopg.Error) -> str:
    """The objects that the server names beside its text."""
    table = ".".join(filter(None, [_of(error, "schema_name"), _of(error, "table_name")]))
    named = (
        ("table", table if _of(error, "table_name") else ""),
        ("column", _of(error, "column_name")),
        ("type", _of(error, "datatype_name")),
        ("constraint", _of(error, "constraint_name")),
    )
    told = [f"{word} {name}" for word, name in named if name]
    return ", ".join([f"SQLSTATE {error.sqlstate}", *told])


def _of(error: psycopg.Error, field: str) -> str:
    return getattr(error.diag, field, None) or ""
