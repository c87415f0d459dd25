"""Statements of a script that give other values on each node.

A script runs on every node, and its changes are not captured.  So UPDATE, INSERT, DELETE, MERGE and
an ALTER TABLE that computes values must not call functions such as ``now()``, ``random()`` or
``nextval()``: rows would differ without an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.errors import BadOption
from londiste.replication.scripts.kinds import Part
from londiste.replication.scripts.split import Statement, Word

#: Keywords that are a function without parentheses.
_KEYWORDS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
)
#: Words before a parenthesis that are no function.
_NO_CALLS = frozenset({"values", "in", "using", "default", "and", "or", "not", "set", "on", "as"})
_WRITES = ("insert", "update", "delete", "merge", "with")


def require_same_everywhere(conn: Connection, parts: Sequence[Part]) -> None:
    """Raises BadOption for the first statement whose values depend on the node.

    conn -- knows which functions are volatile, and the defaults of columns.
    """
    for part in parts:
        for statement in part.statements:
            if not evaluates(statement):
                continue
            found = sorted({*_volatile(conn, calls(statement)), *_defaults(conn, statement)})
            if found:
                raise BadOption(
                    f"script {part.name}, line {statement.line}: other values on each node:"
                    f" {', '.join(found)}",
                    detail=f"{statement.shown}: every node computes them; nothing was done",
                    hint="run the statement on the root by psql, so that its rows are captured;"
                    " of ADD COLUMN give the default afterwards (alter column … set default …) and"
                    " update the rows by psql; or --volatile, if other values are fine",
                )


def evaluates(statement: Statement) -> bool:
    """Whether it writes values into rows that are there, or new ones."""
    words = statement.words
    if any(statement.begins(word) for word in _WRITES):
        return True
    if not statement.begins("alter", "table"):
        return False
    return _adds_column(words) or any(word.is_("using") for word in words)


def _adds_column(words: Sequence[Word]) -> bool:
    return any(
        one.is_("add") and not two.is_("constraint", "check", "primary", "unique", "foreign")
        for one, two in itertools.pairwise(words)
    )


def calls(statement: Statement) -> set[str]:
    """Names of functions that it calls, as far as they can be told without a parser."""
    words = _computing(statement)
    found = {word.text for word in words if word.kind == "word" and word.text in _KEYWORDS}
    if statement.begins("alter") and _adds_column(words):
        # The rows that are there are numbered in the order of each node's file.
        numbered = ("serial", "bigserial", "smallserial", "identity")
        found |= {"nextval" for word in words if word.is_(*numbered)}
    for name, sign in itertools.pairwise(words):
        if sign.text == "(" and name.names and not name.is_(*_NO_CALLS):
            found.add(name.text)
    return found


def _computing(statement: Statement) -> Sequence[Word]:
    """The words of an ALTER TABLE but those of SET DEFAULT, which changes no row."""
    words = statement.words
    if not statement.begins("alter"):
        return words
    kept: list[Word] = []
    for number, word in enumerate(words):
        if word.is_("default") and number and words[number - 1].is_("set"):
            rest = next(
                (i for i in range(number, len(words)) if _ends_action(words, i)), len(words)
            )
            return [*kept, *words[rest:]] if rest < len(words) else kept
        kept.append(word)
    return kept


def _ends_action(words: Sequence[Word], at: int) -> bool:
    """Whether a comma stands here outside of parentheses opened since ``set default``."""
    return (
        words[at].text == ","
        and at + 1 < len(words)
        and words[at + 1].is_("add", "alter", "drop", "set", "rename")
    )


def _volatile(conn: Connection, names: set[str]) -> list[str]:
    if not names:
        return []
    rows = conn.execute(query("volatile_functions"), {"names": sorted(names)})
    return [f"{row[0]}()" for row in rows] + sorted(names & _KEYWORDS)


def _defaults(conn: Connection, statement: Statement) -> list[str]:
    """Volatile defaults of columns that an INSERT leaves out."""
    words = statement.words
    if not statement.begins("insert", "into"):
        return []
    name, at = [words[2].text], 3
    while at + 1 < len(words) and words[at].text == "." and words[at + 1].names:
        name.append(words[at + 1].text)
        at += 2
    given: list[str] = []
    if at < len(words) and words[at].text == "(":
        for word in words[at + 1 :]:
            if word.text == ")":
                break
            if word.names:
                given.append(word.text)
    elif not (at < len(words) and words[at].is_("default")):
        # Without names all columns are given, or the last ones are left out: not known here.
        return []
    table = TableName(*name) if len(name) == 2 else TableName("public", name[-1])
    rows = conn.execute(
        query("volatile_defaults"),
        {"schema": table.schema, "name": table.name, "given": given},
    )
    return [f"the default of column {row[0]}" for row in rows]
