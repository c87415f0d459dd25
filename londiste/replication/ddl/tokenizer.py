"""Tokens of a script, by sqlglot; imported with the first script, because sqlglot loads slowly."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from sqlglot import TokenType
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError


class Token(NamedTuple):
    """One token.

    text -- a quoted name or a string without its quotes; anything else unchanged.
    kind -- name (a quoted one), string, or empty: a word or a sign.
    start, end -- its place in the script, in characters; ``end`` is behind it.
    """

    text: str
    kind: str
    start: int
    end: int


class _Tokenizer(Postgres.Tokenizer):
    """Tokens of every statement, also of those that sqlglot does not split itself."""

    COMMANDS: ClassVar[Any] = set()
    #: A comment is a comment, whatever it begins with.
    KEYWORDS: ClassVar[Any] = {
        word: kind for word, kind in Postgres.Tokenizer.KEYWORDS.items() if word != "/*+"
    }


_KINDS = {
    TokenType.IDENTIFIER: "name",
    TokenType.STRING: "string",
    TokenType.HEREDOC_STRING: "string",
    TokenType.BYTE_STRING: "string",
    TokenType.BIT_STRING: "string",
    TokenType.HEX_STRING: "string",
    TokenType.NATIONAL_STRING: "string",
    TokenType.UNICODE_STRING: "string",
    TokenType.RAW_STRING: "string",
}


def tokenize(script: str) -> list[Token]:
    """The tokens of a script.  Raises ValueError for text that has none."""
    try:
        found = _Tokenizer().tokenize(script)
    except SqlglotError as error:
        raise ValueError(*str(error).splitlines()[:1]) from error
    return [Token(t.text, _KINDS.get(t.token_type, ""), t.start, t.end + 1) for t in found]
