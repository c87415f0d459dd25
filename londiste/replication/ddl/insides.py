"""Analysis of the bodies of user functions: calls, writes, values that differ between nodes.

A function that calls ``now()`` returns different values on each node, however it is declared.
Bodies in SQL and PL/pgSQL are analysed, and those of the functions that they call.  Dynamic SQL and
functions in other languages are not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.errors import BadOption
from londiste.replication.ddl.split import Word, words_of

#: Keywords that are a function without parentheses.
KEYWORDS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
)
#: Words before a parenthesis that are no function.
_NO_CALLS = frozenset({"values", "in", "using", "default", "and", "or", "not", "set", "on", "as"})
_WRITES = ("insert", "update", "delete", "merge")


def called(words: Sequence[Word]) -> set[str]:
    """Names of called functions, as far as they can be found without a parser."""
    found = {word.text for word in words if word.kind == "word" and word.text in KEYWORDS}
    for name, sign in itertools.pairwise(words):
        if sign.text == "(" and name.names and not name.is_(*_NO_CALLS):
            found.add(name.text)
    return found


@dataclass(frozen=True)
class Inside:
    """What some functions do.

    varies -- by function: what it calls, itself or through others, that varies between nodes.
    writes -- one of them, or one that they call, writes rows.
    words -- the names in them, and in those that they call.
    """

    varies: dict[str, str]
    writes: bool
    words: frozenset[str]


def look(conn: Connection, names: Iterable[str], texts: Iterable[str] = ()) -> Inside:
    """Looks into functions, and into texts as those of DO, which count as function ``do``."""
    varies: dict[str, str] = {}
    writes = False
    names_in: set[str] = set()
    came = {name: name for name in names}
    seen = set(came)
    sources = [("do", text) for text in texts]
    while came or sources:
        inside: dict[str, str] = {}
        if came:
            rows = tuples(conn, "function_sources", names=sorted(came))
            for name, readable, volatile, source in rows:
                if readable:
                    sources.append((came[name], source))
                elif volatile and came[name] != name:
                    varies.setdefault(came[name], name)
        for origin, source in sources:
            words = _words(source)
            writes = writes or any(word.is_(*_WRITES) for word in words)
            names_in |= {word.text for word in words if word.names}
            for name in called(words):
                inside.setdefault(name, origin)
        asked = tuples(conn, "volatile_inside", names=sorted(inside))
        for name in sorted({row[0] for row in asked} | (inside.keys() & KEYWORDS)):
            varies.setdefault(inside[name], name)
        came = {name: origin for name, origin in inside.items() if name not in seen}
        seen |= came.keys()
        sources = []
    return Inside(varies, writes, frozenset(names_in))


def _words(source: str) -> Sequence[Word]:
    try:
        return words_of(source)
    except BadOption:
        # The server knows it, the tokenizer does not.
        return ()
