"""Lexer of the queue shell: tokens, and statements separated by ``;``.

Knows SQL well enough for that: strings, quoted names, dollar quotes, nested comments,
parentheses, and bodies between BEGIN ATOMIC and END.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DOLLAR = re.compile(r"\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$")
_SPACE = re.compile(r"\s+")
# The names of queues and nodes may have dots and dashes, and hosts may be paths.
_WORD = re.compile(r"[^\s;,=()'\"*$]+")
_ROUTINE = re.compile(r"(?is)\A\s*create\s+(?:or\s+replace\s+)?(?:function|procedure)\b")


@dataclass(frozen=True)
class Token:
    """A piece of text.

    kind -- ``word``, ``name`` (in double quotes), ``text`` (in single quotes), ``dollar``,
        ``sign``; comments and white space are skipped.
    text -- without quotes; start, end -- its position.
    closed -- false for one whose closing quote is missing.
    """

    kind: str
    text: str
    start: int
    end: int
    closed: bool = True


def tokens(text: str) -> list[Token]:
    """All tokens of a text; the last one may not be closed."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        space = _SPACE.match(text, at)
        if space:
            at = space.end()
            continue
        one = _comment(text, at) or _quoted(text, at, found) or _plain(text, at)
        if one.kind != "comment" or not one.closed:
            found.append(one)
        at = one.end
    return found


def split(text: str) -> tuple[list[str], str]:
    """The statements before each ``;``, and the unfinished rest.

    Empty statements are skipped.
    """
    statements: list[str] = []
    begin, depth, blocks, words = 0, 0, 0, 0
    routine = False
    for one in tokens(text):
        if words == 0 and one.kind == "word":
            routine = _ROUTINE.match(text[one.start :]) is not None
        if one.kind == "word":
            word = one.text.lower()
            if routine and (word == "atomic" or (blocks and word in {"begin", "case"})):
                blocks += 1
            elif blocks and word == "end":
                blocks -= 1
        if one.kind == "sign" and one.text in "()":
            depth = max(0, depth + (1 if one.text == "(" else -1))
        if one.kind == "sign" and one.text == ";" and depth == 0 and blocks == 0:
            if words:
                statements.append(text[begin : one.start].strip())
            begin, words, routine = one.end, 0, False
        else:
            words += 1
    return statements, text[begin:] if words else ""


def _comment(text: str, at: int) -> Token | None:
    if text.startswith("--", at):
        end = text.find("\n", at)
        return Token("comment", "", at, len(text) if end < 0 else end)
    if not text.startswith("/*", at):
        return None
    depth, end = 1, at + 2
    while end < len(text) and depth:
        if text.startswith("/*", end):
            depth, end = depth + 1, end + 2
        elif text.startswith("*/", end):
            depth, end = depth - 1, end + 2
        else:
            end += 1
    return Token("comment", text[at:end], at, end, depth == 0)


def _quoted(text: str, at: int, before: list[Token]) -> Token | None:
    sign = text[at]
    if sign in "'\"":
        # A string behind E has backslashes that may hide its quotes.
        escapes = sign == "'" and bool(before) and before[-1].end == at and before[-1].text in "eE"
        return _until_quote(text, at, sign, escapes)
    dollar = _DOLLAR.match(text, at)
    if dollar is None:
        return None
    end = text.find(dollar.group(), dollar.end())
    if end < 0:
        return Token("dollar", text[dollar.end() :], at, len(text), False)
    return Token("dollar", text[dollar.end() : end], at, end + len(dollar.group()))


def _until_quote(text: str, at: int, sign: str, escapes: bool) -> Token:
    kind = "text" if sign == "'" else "name"
    value: list[str] = []
    end = at + 1
    while end < len(text):
        if escapes and text[end] == "\\" and end + 1 < len(text):
            value.append(text[end + 1])
            end += 2
        elif text.startswith(sign * 2, end):
            value.append(sign)
            end += 2
        elif text[end] == sign:
            return Token(kind, "".join(value), at, end + 1)
        else:
            value.append(text[end])
            end += 1
    return Token(kind, "".join(value), at, end, False)


def _plain(text: str, at: int) -> Token:
    word = _WORD.match(text, at)
    if word is None:
        return Token("sign", text[at], at, at + 1)
    end = word.end()
    for comment in ("--", "/*"):
        inside = text.find(comment, at + 1, end)
        end = end if inside < 0 else inside
    return Token("word", text[at:end], at, end)
