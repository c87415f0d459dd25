"""What an error of the server shows: no value of a row, in whatever language the server writes.

Values are found by structure: by the kind of the statement, by the SQLSTATE and by what the server
tells beside its text.  A text that may contain one is shown without all that it quotes, and only
where it is English: else the name of its SQLSTATE and the names of the objects are.  The server
does not tell its language: in some, ERROR is the word for it, too.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from londiste.error_origin import (
    in_own_function,
    in_owner_code,
    raised_by_code,
    restricted_hint,
    server_hint,
)
from londiste.wording import QUOTED, bounded, detail_without_values, first_line

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
    *("08", "23", "25", "28", "40", "42501", "428C9", "44", "53", "54001", "54011", "54023", "55"),
    *("57", "58", "LD", "P0", "XX001", "XX002"),
)
#: Their details contain rows and keys.
_ROWS = ("22", "23", "44")
#: Their details contain the parameters of a query.
_PARAMETERS = ("P0002", "P0003")
#: Classes about definitions, whose messages quote each value in every language.
_DEFINITIONS = ("2B", "42")
#: Details about rows, as the server writes them in English; what they show of them.
_ROW_DETAILS = (
    (r"(Failing row contains) \(.*\)\.?", r"\1 (…)."),
    (r"(Partition key of the failing row contains \(.*?\) =) \(.*\)\.", r"\1 (…)."),
    (r"(Key \(.*?\))=\(.*\) conflicts with (?:existing )?key \(.*\)\.", r"\1=(…)."),
    (
        r"(Key \(.*?\))=\(.*\)( already exists\.| is duplicated\.|"
        r' is (?:not present in|still referenced from|referenced from) table "[^"\n]*"\.)',
        r"\1=(…)\2",
    ),
)
#: Words of most messages in English.  Other languages of the server have none of them, but in the
#: names of SQL, which are in capitals.
_ENGLISH = re.compile(
    r"(?<![^\s(])(?:already|and|are|at|before|but|by|can|cannot|could|did|do|does|ended|exceeded|"
    r"exceeds|expected|failed|for|found|from|has|have|in|incorrect|input|invalid|is|line|long|malformed|"
    r"may|missing|must|not|of|on|only|or|out|requires|should|than|the|to|too|unexpected|unexpectedly|"
    r"unrecognized|unsupported|unterminated|violates|was|were|with)(?!\w)"
    r"|^(?:parse error|division)\b"
)
_BYTES = re.compile(r"0x[0-9a-f]{2}(?: 0x[0-9a-f]{2})*")
_COLUMN = re.compile(r'(?m)^COPY [^\n]+?, line \d+, (column [^\n]+?)(?:: "|: null|$)')
_COPY = re.compile(r"(?a)\bCOPY\b")
#: A statement that a function contains, and that it does not put together.
_STATIC = re.compile(
    r"PL/pgSQL function .+ line \d+ at"
    r" (?:SQL statement|assignment|PERFORM|IF|CASE|WHILE|RETURN|FOR over SELECT rows)"
    r'|SQL function ".+" (?:statement \d+|during startup|during inlining)'
)
_QUOTES = re.compile("[\"'“”„«»‹›‚‘’「」『』]")
#: What is between two names.
_BETWEEN = re.compile(
    r"(?:[ ,]|\b(?:and|column|constraint|for|from|in|index|of|on|relation|table|to|type|view)\b)*"
)


#: Characters of a text of the server that are searched for values.
_SEARCHED = 20_000
#: Characters of a message, a detail and a hint.  PostgreSQL lists up to 100 objects in a detail.
_MOST = (2_000, 8_000, 2_000)


def server_text(error: psycopg.Error) -> str:
    """The message of the server or of the driver, as it is: a long one in part."""
    return bounded(_message(error))


def shown(error: psycopg.Error, values: Values = Values.NONE, text: str = "") -> Shown:
    """The message, detail and hint of an error of the server, without values of rows.

    A server may send texts of any length: each is shown in part.

    text -- the statement, if its author reads the error: names in it are shown.
    """
    whole = (_message(error), error.diag.message_detail or "", server_hint(error))
    parts = _without_values(error, Shown(*map(_searched, whole)), values, text)
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


def _without_values(error: psycopg.Error, texts: Shown, values: Values, text: str) -> Shown:
    state = error.sqlstate or ""
    message = texts.message
    hint = texts.hint or restricted_hint(error)
    raised = bool(_of(error, "severity_nonlocalized")) and raised_by_code(error)
    may = _may_quote(error, values)
    known = "" if state.startswith("22") else f"{text}\n{_objects(error)}"
    plain = _unquoted(message, known)
    translated = _is_translated(error, message)
    if may:
        readable = raised or not translated or (text and state.startswith(_DEFINITIONS))
        message = plain if readable else _name(error)
    if state.startswith(_PARAMETERS) and not raised:
        return Shown(message, "", hint)
    if not (may or state.startswith(_ROWS)):
        return Shown(message, texts.detail, hint)
    if translated and not raised:
        return Shown(message, _objects(error), "")
    detail = _detail(error, texts.detail, may=may, raised=raised, known=known)
    columns = _COLUMN.findall((error.diag.context or "")[:_SEARCHED])
    detail = "; ".join(filter(None, [detail, *columns[:1]]))
    return Shown(message, detail, "" if translated or _unquoted(hint) != hint else hint)


def _detail(error: psycopg.Error, text: str, *, may: bool, raised: bool, known: str) -> str:
    """The detail of an error that may contain values of rows, without these."""
    if raised:
        # Its author may repeat what the server has said, in any language.
        text = re.sub(r"(?s)\(.*\)", "(…)", detail_without_values(text, error.sqlstate or ""))
        return _unquoted(text, known) if may else text
    if not text:
        return ""
    if (error.sqlstate or "").startswith(("23", "44")):
        for pattern, told in _ROW_DETAILS:
            if found := re.fullmatch(pattern, text, re.DOTALL):
                return found.expand(told)
        return _objects(error)
    return _objects(error) if _is_translated(error, text) else _unquoted(text, known)


def _is_translated(error: psycopg.Error, text: str) -> bool:
    """Whether a text of the server is in another language than English, but for what it quotes."""
    severity = _of(error, "severity_nonlocalized")
    if not severity:
        # The driver has none.
        return False
    return _of(error, "severity") != severity or not _ENGLISH.search(_unquoted(text))


def _may_quote(error: psycopg.Error, values: Values) -> bool:
    """Pure: whether the message of an error may contain a value of a row."""
    state = error.sqlstate or ""
    if in_owner_code(error) or _COPY.search(error.diag.context or ""):
        values = Values.APART if values is Values.NONE else values
    if _of(error, "severity_nonlocalized") in {"FATAL", "PANIC"}:
        return False
    if not state:
        # The driver refuses a value by a DataError, which has the class of these.
        return any(one.__name__ == "DataError" for one in type(error).__mro__)
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
    # It is a statement of the function: code of a table may put it together from a row.
    inmost = (error.diag.context or "").split("\n", 1)[0]
    if in_own_function(inmost):
        return values is not Values.INSIDE or "londiste_apply." not in inmost
    return _STATIC.fullmatch(inmost) is not None


def _unquoted(text: str, known: str = "") -> str:
    """A text of the server without what it quotes, lists behind a colon, or shows as bytes.

    known -- names in it are shown.
    """
    text = QUOTED.sub(lambda one: _names(one[0], known) or "***", _BYTES.sub("***", text))
    return re.sub(r"(?s)(:|：) ?.*", ": ***", text)


def _names(quoted: str, known: str) -> str:
    """A part of a text from the first quote to the last; '' unless it consists of known names."""
    parts = _QUOTES.split(quoted)
    names = [part.strip() for part in parts[1::2]]
    are_known = all(name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", known) for name in names)
    between = all(_BETWEEN.fullmatch(part) for part in parts[::2])
    return quoted if are_known and between and len(parts) % 2 else ""


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
