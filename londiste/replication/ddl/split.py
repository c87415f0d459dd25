"""Splits a script into statements, where the server's own parser would.

The tokens come from sqlglot, which knows strings, quoted names, dollar quotes and nested comments.
A semicolon ends a statement outside of parentheses (CREATE RULE has some inside) and outside of
``begin atomic … end``, where ``case … end`` nests.  Nothing is parsed: only the server validates a
statement.

Each statement is sent separately, in a form in which the server refuses two, so a missed cut is an
error of the server, never an unchecked statement.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from londiste.errors import BadOption


class Word(NamedTuple):
    """One token.

    text -- a keyword or plain name in lower case, as the server folds it; a quoted name and a
        string without their quotes; anything else unchanged.
    kind -- word, name (a quoted one), string or sign.
    start, end -- its place in the script, in characters; ``end`` is behind it.
    """

    text: str
    kind: str
    start: int
    end: int

    def is_(self, *words: str) -> bool:
        """Whether it is one of these keywords (or plain names)."""
        return self.kind == "word" and self.text in words

    @property
    def names(self) -> bool:
        """Whether it can be a name."""
        return self.kind in {"word", "name"}


@dataclass(frozen=True)
class Statement:
    """One statement of a script.

    text -- as it stands there, without the semicolon.
    number -- its place in the script, from 1.
    line -- of the script, from 1, where it begins.
    words -- its tokens, comments left out.
    """

    text: str
    number: int
    line: int
    words: tuple[Word, ...]

    def begins(self, *words: str) -> bool:
        """Whether it starts with these words."""
        return len(self.words) >= len(words) and all(
            found.is_(wanted) for found, wanted in zip(self.words, words, strict=False)
        )

    @property
    def shown(self) -> str:
        """The statement in one shortened line, for messages."""
        text = " ".join(self.text.split())
        return text if len(text) <= 100 else text[:99] + "…"


def split(script: str) -> list[Statement]:
    """The statements of a script, in order, without empty ones.

    Raises BadOption, with the line, for text that the server cannot run: a string or comment
    without end, commands of psql, rows behind COPY FROM stdin, strings without standard conforming
    escapes.
    """
    if "\0" in script:
        raise BadOption(
            f"line {_line(script, script.index(chr(0)))}: the script contains a zero byte",
            hint="save it as text in UTF-8",
        )
    statements: list[Statement] = []
    for words in _cut(words_of(script)):
        start, end = words[0].start, words[-1].end
        statement = Statement(
            script[start:end], len(statements) + 1, _line(script, start), tuple(words)
        )
        _check(statement)
        statements.append(statement)
    return statements


def words_of(script: str) -> list[Word]:
    """The tokens of a script.  Raises BadOption."""
    # sqlglot takes a tenth of a second, and most programs never read a script.
    from londiste.replication.ddl.tokenizer import tokenize

    try:
        tokens = tokenize(script)
    except ValueError as error:
        raise BadOption(
            f"the script cannot be read: {str(error) or 'unknown token'}",
            detail="a string, a quoted name or a comment is not closed",
            hint="test it with psql on a copy of the database",
        ) from error
    words = []
    for text, kind, start, end in tokens:
        raw = script[start:end]
        if kind:
            words.append(Word(text, kind, start, end))
        elif raw[:1].isalpha() or raw[:1] == "_":
            # Keywords of several words are one token of sqlglot.
            words += [
                Word(_folded(m.group()), "word", start + m.start(), start + m.end())
                for m in re.finditer(r"\S+", raw)
            ]
        else:
            words.append(Word(raw, "sign", start, end))
    return words


def _folded(text: str) -> str:
    """A name as the server folds it: ASCII only."""
    return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)


def _cut(words: Sequence[Word]) -> Iterator[list[Word]]:
    now: list[Word] = []
    parentheses = 0
    atomic = 0
    for word in words:
        if word.kind == "sign":
            if word.text == "(":
                parentheses += 1
            elif word.text == ")":
                parentheses = max(0, parentheses - 1)
            elif word.text == ";" and not parentheses and not atomic:
                if now:
                    yield now
                now = []
                continue
        elif word.kind == "word" and not parentheses and not _is_label(now):
            # As a label or behind a dot these are names, wherever they stand.
            if word.text == "atomic" and now and now[-1].is_("begin") and not atomic:
                atomic = 1
            elif atomic and word.text == "case":
                atomic += 1
            elif atomic and word.text == "end":
                atomic -= 1
        now.append(word)
    if now:
        yield now


def _is_label(before: Sequence[Word]) -> bool:
    if not before:
        return False
    last = before[-1]
    return last.is_("as") or (last.kind == "sign" and last.text == ".")


def _line(script: str, position: int) -> int:
    return script.count("\n", 0, position) + 1


def _check(statement: Statement) -> None:
    words = statement.words
    for word, following in zip(words, (*words[1:], None), strict=True):
        if word.kind == "sign" and "\\" in word.text:
            name = following.text if following is not None else ""
            raise BadOption(
                f"line {statement.line}: \\{name} is a psql command",
                hint="remove it: a script contains SQL only",
            )
    if words[0].is_("copy") and any(
        a.is_("from") and b.is_("stdin") for a, b in itertools.pairwise(words)
    ):
        raise BadOption(
            f"line {statement.line}: rows after COPY FROM stdin cannot be replicated",
            hint="write them as INSERT, or insert them on the root with psql",
        )
    if words[0].is_("copy") and any(w.is_("stdout") for w in words):
        raise BadOption(
            f"line {statement.line}: COPY TO stdout is not allowed in a script",
            hint="remove the statement",
        )
    if words[0].is_("set") and any(
        w.text.lower() in {"standard_conforming_strings", "backslash_quote"} for w in words
    ):
        raise BadOption(
            f"line {statement.line}: a script cannot change standard_conforming_strings",
            hint="remove the statement, and write strings with backslashes as E'…'",
        )


def words_after(words: Sequence[Word], keyword: str) -> Sequence[Word]:
    """The words after the first one that is this keyword; none without it."""
    for position, word in enumerate(words):
        if word.is_(keyword):
            return words[position + 1 :]
    return ()
