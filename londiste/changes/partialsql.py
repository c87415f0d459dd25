"""Decoder of SQL fragments, written by ``pgq.sqltriga``.

    I   (id,name) values ('1','kiwi')
    U   name='plum' where id='1'            only what has changed
    D   id='1'

They are a small subset of SQL, which is parsed completely into names and values, so that no text of
an event is ever executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from londiste.changes.types import Malformed, Op

# Possessive (++, *+): a literal may have 500 MB, and backtracking would need as much again.
_TOKEN = re.compile(
    r"""\s*+(?:
        (?P<text>'(?:[^']++|'')*+')
      | [Ee](?P<escaped>'(?:[^'\\]++|''|\\.)*+')
      | (?P<name>"(?:[^"]++|"")++")
      | (?P<word>[^\W\d][\w$]*+)
      | (?P<mark>[(),=])
    )\s*+""",
    re.VERBOSE | re.DOTALL,
)

#: How the server folds names without quotes.
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")

_Item = TypeVar("_Item")


def row(op: Op, data: str) -> tuple[tuple[str, ...], dict[str, str | None], bool]:
    """Key columns, image and whether the image is partial.

    An insert has no key columns: the format does not contain them.  The image of an update
    has the key and the changed columns, that of a delete the key.

    Raises Malformed.
    """
    reader = _Reader(data)
    if op is Op.INSERT:
        image = _insert(reader)
        reader.end()
        return (), image, False
    changed = _assignments(reader) if op is Op.UPDATE else {}
    where = _conditions(reader)
    reader.end()
    for name, value in where.items():
        if changed.get(name, value) != value:
            raise Malformed(
                "it changes the key column {}",
                hint="capture the table with the native trigger: londiste change-form TABLE"
                " --trigger capture",
                quoted=name[:80],
            )
    return tuple(where), {**where, **changed}, op is Op.UPDATE


def _insert(reader: _Reader) -> dict[str, str | None]:
    names = reader.list_of(reader.name)
    reader.word("values")
    values = reader.list_of(reader.value)
    if len(names) != len(values):
        raise Malformed(f"it has {len(names)} columns but {len(values)} values")
    image = dict(zip(names, values, strict=True))
    if len(image) != len(names):
        raise Malformed("a column occurs twice in its data")
    return image


def _assignments(reader: _Reader) -> dict[str, str | None]:
    changed: dict[str, str | None] = {}
    while True:
        name = reader.name()
        reader.mark("=")
        if name in changed:
            raise Malformed("column {} occurs twice in its data", quoted=name[:80])
        changed[name] = reader.value()
        if not reader.maybe_mark(","):
            break
    reader.word("where")
    return changed


def _conditions(reader: _Reader) -> dict[str, str | None]:
    where: dict[str, str | None] = {}
    while True:
        name = reader.name()
        if name in where:
            raise Malformed("column {} occurs twice in its data", quoted=name[:80])
        if reader.maybe_word("is"):
            reader.word("null")
            where[name] = None
        else:
            reader.mark("=")
            where[name] = reader.literal()
        if not reader.maybe_word("and"):
            return where


class _Reader:
    """The tokens of a fragment, one ahead.  Every method but ``maybe_…`` raises Malformed."""

    def __init__(self, data: str) -> None:
        self._data = data
        self._place = 0
        self._kind: str | None = None
        self._token = ""
        if "\0" in data:
            raise Malformed("its data contains a zero byte")
        self._next()

    def _next(self) -> None:
        if self._place >= len(self._data):
            self._kind, self._token = None, ""
            return
        match = _TOKEN.match(self._data, self._place)
        if match is None:
            raise self._wrong()
        self._place = match.end()
        self._kind = match.lastgroup
        self._token = match[match.lastgroup or 0]

    def _wrong(self) -> Malformed:
        return Malformed(f"not a fragment of sqltriga at character {self._place + 1} of its data")

    def end(self) -> None:
        if self._kind is not None:
            raise self._wrong()

    def maybe_mark(self, mark: str) -> bool:
        if self._kind == "mark" and self._token == mark:
            self._next()
            return True
        return False

    def mark(self, mark: str) -> None:
        if not self.maybe_mark(mark):
            raise self._wrong()

    def maybe_word(self, word: str) -> bool:
        if self._kind == "word" and self._token.lower() == word:
            self._next()
            return True
        return False

    def word(self, word: str) -> None:
        if not self.maybe_word(word):
            raise self._wrong()

    def name(self) -> str:
        """An identifier, as the server would read it."""
        if self._kind == "name":
            name = self._token[1:-1].replace('""', '"')
        elif self._kind == "word":
            name = self._token.translate(_LOWER)
        else:
            raise self._wrong()
        self._next()
        return name

    def literal(self) -> str:
        """The text between quotes."""
        if self._kind == "text":
            value = self._token[1:-1].replace("''", "'")
        elif self._kind == "escaped":
            inner = self._token[1:-1].replace("''", "'")
            plain = inner.split("\\\\")
            if any("\\" in part for part in plain):
                raise Malformed(
                    "a backslash in its data escapes a character other than a backslash"
                )
            value = "\\".join(plain)
        else:
            raise self._wrong()
        self._next()
        return value

    def value(self) -> str | None:
        """A literal or null."""
        return None if self.maybe_word("null") else self.literal()

    def list_of(self, item: Callable[[], _Item]) -> list[_Item]:
        """Items in parentheses, separated by commas."""
        self.mark("(")
        items = [item()]
        while self.maybe_mark(","):
            items.append(item())
        self.mark(")")
        return items
