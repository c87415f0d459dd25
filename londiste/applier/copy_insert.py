r"""COPY of many new rows into a table, from JSON images that are not decoded.

An image is a line of JSON, and all images of a set have the same columns in the same order.
Without the names of the columns such a line is one of CSV: strings are in quotes, NULL is the word
``null`` outside of them, and a backslash protects quotes and backslashes::

    {"id":1,"name":"5\" \\ pipe","size":null}
    1,"5\" \\ pipe",null

A name with its quotes, behind a comma and before a colon, can be nothing else: quotes inside of
strings have a backslash before them.  COPY reads this in half the time that the server needs to
take JSON apart, and writes whole pages of new rows with one record in the log.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence

from londiste.applier.plan import RowSet, Verb
from londiste.db.names import quote
from londiste.db.relation import Relation

#: Rows from which on it gains more than the round trip that it takes.
FROM_ROWS = 500

#: Characters of a line or a pack up to which it may be held several times while it becomes CSV.
_LONGEST = 2 << 20

#: Characters that are turned into CSV at a time: the server works on some while others are made.
_CHARACTERS = 64 << 10

_NAME = re.compile(r"[A-Za-z0-9_]+")
_NAMES = re.compile(r',"[A-Za-z0-9_]+":')
#: What JSON writes with a backslash: the frequent ones, and all others; two halves of a character
#: outside of the first 65,536 belong together.
_BREAKS = {r"\n": "\n", r"\t": "\t", r"\r": "\r"}
_ESCAPE = re.compile(r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u[0-9a-fA-F]{4}|[^"])')


class NotAlike(Exception):
    """An image differs from its set: it has other columns, or another notation."""


def is_bulk(shape: Relation, rows: RowSet) -> bool:
    """Whether COPY can write the rows, and should."""
    return (
        rows.verb is Verb.INSERT
        and rows.count >= FROM_ROWS
        and rows.alike
        and shape.copied
        and bool(rows.columns)
        and all(map(_NAME.fullmatch, rows.columns))
        and not any(shape.by_name[name].generated for name in rows.columns)
        and max(map(len, itertools.chain(rows.lines, rows.packs))) <= _LONGEST
    )


def copy_sql(shape: Relation, columns: Sequence[str]) -> str:
    """The statement that reads what ``csv`` makes; identity columns get the values too."""
    names = ", ".join(map(quote, columns))
    where = f" where ({shape.where})" if shape.where else ""
    return (
        f"copy {shape.name.quoted} ({names}) from stdin"
        f" (format csv, null 'null', escape E'\\\\'){where}"
    )


def csv(rows: RowSet) -> Iterator[str]:
    """The rows as lines of CSV, some at a time.  Raises NotAlike."""
    columns = rows.columns
    first = '{"' + columns[0] + '":'
    for text in _pieces(rows):
        lines = text.replace("}\n" + first, "\n")
        if not (text.startswith(first) and text.endswith("}")):
            raise NotAlike
        count = text.count("\n") + 1
        if len(text) - len(lines) != (count - 1) * (len(first) + 1):
            raise NotAlike
        lines, names = _NAMES.subn(",", lines[len(first) : -1])
        if names != count * (len(columns) - 1):
            raise NotAlike
        if "\\" in lines:
            lines = _unescaped(lines)
        yield lines
        yield "\n"


def _pieces(rows: RowSet) -> Iterable[str]:
    texts: list[str] = []
    size = 0
    for line in rows.lines:
        texts.append(line)
        size += len(line)
        if size >= _CHARACTERS:
            yield "\n".join(texts)
            texts.clear()
            size = 0
    if texts:
        yield "\n".join(texts)
    yield from rows.packs


def _unescaped(text: str) -> str:
    """Only quotes and backslashes keep their backslash."""
    # The server's texts have no such character, so it can stand for a pair.
    text = text.replace("\\\\", "\0")
    for escape, sign in _BREAKS.items():
        text = text.replace(escape, sign)
    return _ESCAPE.sub(_sign, text).replace("\0", "\\\\")


def _sign(found: re.Match[str]) -> str:
    sign = str(json.loads(f'"{found[0]}"'))
    if sign == "\0":
        # No column can have it; the server says so where events are applied one by one.
        raise NotAlike
    return f"\\{sign}" if sign in {'"', "\\"} else sign
