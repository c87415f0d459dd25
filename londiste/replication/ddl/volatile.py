"""Finds statements of a script that give different values on each node.

A script runs on every node, and its changes are not captured.  So UPDATE, INSERT, DELETE, MERGE and
an ALTER TABLE that computes values must not call functions such as ``now()``, ``random()`` or
``nextval()``: rows would differ without an error.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import tuples
from londiste.errors import BadOption
from londiste.replication.ddl.classify import ScriptPart
from londiste.replication.ddl.insides import KEYWORDS, Inside, called, look
from londiste.replication.ddl.split import Statement, Word

#: Statements that write rows; the parameters of EXECUTE are values for one.
_WRITES = ("insert", "update", "delete", "merge", "with", "execute")
#: Statements in which COPY, which evaluates them, writes rows.
_COPIED = ("insert", "update", "delete", "merge")
#: Columns that every table has and no user can add, and a view of settings.
_SYSTEM = ("ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", "pg_settings")
#: Statements that write rows only if a function of theirs does.
_CALLS = ("select", "call", "do", "values")


def require_same_everywhere(conn: Connection, parts: Sequence[ScriptPart]) -> None:
    """Raises BadOption for the first statement whose values depend on the node.

    conn -- knows which functions are volatile, and the defaults of columns.
    """
    for part in parts:
        for given in part.statements:
            statement = inner(given)
            if evaluates(statement):
                found = sorted(
                    {
                        *_volatile(conn, calls(statement)),
                        *_defaults(conn, statement),
                        *_triggers(conn, statement),
                        *_of_the_server(statement),
                        *_files(statement),
                    }
                )
            else:
                found = _called_alone(conn, statement)
            if found:
                raise BadOption(
                    f"script {part.name}, line {given.line}: different values on each node:"
                    f" {', '.join(found)}",
                    detail=f"{statement.shown}: every node computes them; nothing was executed",
                    hint="run the statement on the root with psql, which captures its rows; for"
                    " ADD COLUMN set the default afterwards (alter column … set default …)"
                    " and update the rows with psql; or allow different values: --volatile",
                )


def _of_the_server(statement: Statement) -> list[str]:
    """Columns of the system and object numbers that a statement reads: they differ per database.

    A name that the statement gives itself (``min(x) as xmin``) is none of them.
    """
    words = statement.words
    given = {two.text for one, two in itertools.pairwise(words) if one.is_("as")}
    found = {word.text for word in words if word.is_(*_SYSTEM)} - given
    for number in range(len(words) - 3):
        one, kind, two, oid = words[number : number + 4]
        if one.text == two.text == "::" and kind.text.startswith("reg") and oid.is_("oid"):
            found.add(f"{kind.text}::oid")
    return sorted(found)


def inner(statement: Statement) -> Statement:
    """The statement that EXPLAIN ANALYZE, PREPARE or parentheses carry; any other one as it is.

    EXPLAIN without ANALYZE executes nothing, and stays what it is.
    """
    words = statement.words
    at = 0
    if statement.begins("explain"):
        at = 1
        if at < len(words) and words[at].text == "(":
            at = _closed(words, at)
        else:
            while at < len(words) and words[at].is_("analyze", "analyse", "verbose"):
                at += 1
        if not any(word.is_("analyze", "analyse") for word in words[:at]):
            return statement
    elif statement.begins("prepare"):
        at = 2
        if at < len(words) and words[at].text == "(":
            at = _closed(words, at)
        at += 1
    while at < len(words) - 1 and words[at].text == "(":
        at += 1
    return dataclasses.replace(statement, words=words[at:]) if 0 < at < len(words) else statement


def _closed(words: Sequence[Word], at: int) -> int:
    """The place after the parenthesis that closes the one at a place."""
    depth = 0
    for number in range(at, len(words)):
        depth += {"(": 1, ")": -1}.get(words[number].text, 0)
        if not depth:
            return number + 1
    return len(words)


def _files(statement: Statement) -> list[str]:
    """The file or program from which COPY reads rows: each node has its own."""
    if not statement.begins("copy"):
        return []
    found = [
        "copy from a program" if two.is_("program") else "copy from a file"
        for one, two in itertools.pairwise(statement.words)
        if one.is_("from") and (two.kind == "string" or two.is_("program"))
    ]
    return found[:1]


def evaluates(statement: Statement) -> bool:
    """Whether it writes values into rows that are there, or new ones."""
    words = statement.words
    if any(statement.begins(word) for word in _WRITES):
        return True
    if statement.begins("copy"):
        return bool(_files(statement)) or any(word.is_(*_COPIED) for word in words)
    if statement.begins("select"):
        return any(word.is_("into") for word in words)
    if statement.begins("create"):
        return any(a.is_("table") for a in words[1:4]) and _as_query(words)
    if not statement.begins("alter", "table"):
        return False
    return _adds_column(words) or any(word.is_("using") for word in words)


def _as_query(words: Sequence[Word]) -> bool:
    """Whether a query tells the rows of a table that is made: AS outside of parentheses."""
    depth = 0
    for word in words:
        depth += {"(": 1, ")": -1}.get(word.text, 0) if word.kind == "sign" else 0
        if word.is_("as") and not depth:
            return True
    return False


def _adds_column(words: Sequence[Word]) -> bool:
    return any(
        one.is_("add") and not two.is_("constraint", "check", "primary", "unique", "foreign")
        for one, two in itertools.pairwise(words)
    )


def calls(statement: Statement) -> set[str]:
    """Names of the functions that it calls, as far as its words show."""
    words = _computing(statement)
    found = called(words)
    if statement.begins("alter") and _adds_column(words):
        # The rows that are there are numbered in the order of each node's file.
        numbered = ("serial", "bigserial", "smallserial", "identity")
        found |= {"nextval" for word in words if word.is_(*numbered)}
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
    rows = tuples(conn, "volatile_functions", names=sorted(names))
    plain = {row[0] for row in rows}
    # One that is declared as stable or immutable.
    inside = look(conn, names - plain).varies
    return [*(f"{name}()" for name in plain), *_told(inside), *(names & KEYWORDS)]


def _told(varies: Mapping[str, str]) -> list[str]:
    """Functions, and what each calls."""
    return [f"{name}(), which calls {inner}" + _brackets(inner) for name, inner in varies.items()]


def _brackets(name: str) -> str:
    return "" if name in KEYWORDS else "()"


def _called_alone(conn: Connection, statement: Statement) -> list[str]:
    """Functions that write rows, called by a statement that writes none itself."""
    if not calls_alone(statement):
        return []
    inside = look_into(conn, statement)
    return sorted(_told(inside.varies)) if inside.writes else []


def calls_alone(statement: Statement) -> bool:
    """Whether it writes rows only if a function of it, or the text of a DO, does."""
    return any(statement.begins(word) for word in _CALLS)


def look_into(conn: Connection, statement: Statement, more: Iterable[str] = ()) -> Inside:
    """Looks into the functions that a statement calls, further ones, and the text of a DO."""
    texts = [word.text for word in statement.words if word.kind == "string"]
    return look(conn, {*calls(statement), *more}, texts if statement.begins("do") else ())


def _targets(statement: Statement) -> list[tuple[str, TableName, int]]:
    """The tables that a statement writes to: what is done, which, where the words go on."""
    words = statement.words
    found: list[tuple[str, TableName, int]] = []
    for number, word in enumerate(words):
        into = {"insert": "into", "merge": "into", "delete": "from"}.get(word.text)
        if word.kind != "word" or (into is None and word.text != "update"):
            continue
        if number and words[number - 1].is_("do") and found:
            found.append((word.text, found[-1][1], number + 1))
            continue
        if number and words[number - 1].is_("for", "key", "on", "then"):
            continue
        at = number + 1
        if into is not None:
            if at >= len(words) or not words[at].is_(into):
                continue
            at += 1
        if at < len(words) and words[at].is_("only"):
            at += 1
        if at >= len(words) or not words[at].names:
            continue
        name, at = [words[at].text], at + 1
        while at + 1 < len(words) and words[at].text == "." and words[at + 1].names:
            name.append(words[at + 1].text)
            at += 2
        table = TableName(*name) if len(name) == 2 else TableName("public", name[-1])
        found.append((word.text, table, at))
    return found


def fired(conn: Connection, statement: Statement) -> set[str]:
    """The functions of triggers of the tables that a statement writes to."""
    return {function for rows in _fired(conn, statement) for _, function in rows}


def _fired(conn: Connection, statement: Statement) -> list[list[tuple[str, str]]]:
    return [
        tuples(conn, "fired_triggers", schema=table.schema, name=table.name, op=op)
        for op, table, _ in _targets(statement)
    ]


def _triggers(conn: Connection, statement: Statement) -> list[str]:
    """Triggers of the written tables that give other values on each node."""
    found = []
    for rows in _fired(conn, statement):
        varies = look(conn, {row[1] for row in rows}).varies
        found += [
            f"trigger {name}, which calls {varies[function]}{_brackets(varies[function])}"
            for name, function in rows
            if function in varies
        ]
    return found


def _defaults(conn: Connection, statement: Statement) -> list[str]:
    """Volatile defaults of columns that an INSERT leaves out."""
    found: list[str] = []
    for op, table, at in _targets(statement):
        given = _given(statement.words, at) if op == "insert" else None
        if given is None:
            continue
        rows = tuples(conn, "volatile_defaults", schema=table.schema, name=table.name, given=given)
        found += [
            f"the default of column {name}"
            for name, function, certain in rows
            if certain or (function is not None and _volatile(conn, {function}))
        ]
    return found


def _given(words: Sequence[Word], at: int) -> list[str] | None:
    """The columns that an INSERT names behind its table; None when it names none.

    Without names all columns are given, or the last ones are left out: not known here.
    """
    if at < len(words) and words[at].is_("as"):
        at += 2
    if at < len(words) and words[at].is_("default"):
        return []
    if at >= len(words) or words[at].text != "(" or words[at + 1].is_("select", "with", "values"):
        return None
    given: list[str] = []
    for word in words[at + 1 :]:
        if word.text == ")":
            break
        if word.names:
            given.append(word.text)
    return given
