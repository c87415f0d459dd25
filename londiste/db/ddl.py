"""Statements that drop and restore the indexes and constraints of a table.

A copy into a table without indexes costs about half, and an index built at the end is
smaller.  Dropped: every index, and the primary key, unique and exclusion
constraints.  Kept: NOT NULL, check constraints, triggers, rules, inheritance, indexes
that belong to a partitioned parent, and invalid indexes.

The statements to restore them are plain SQL text, because they are stored in the database
(``table_info.dropped_ddl``) where other programs can run them too.  Comments between them tell
where an index to build begins and ends, so that several can be built at once.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from londiste.db.catalog import Constraint, Index
from londiste.db.connection import Connection
from londiste.db.names import TableName, quote
from londiste.db.queries import query
from londiste.db.sessions.settings import TEXT_SETTINGS
from londiste.errors import LondisteError
from londiste.wording import escaped

#: Duplicate rows, or rows that an exclusion constraint does not admit together.
NOT_UNIQUE = {"23505", "23P01"}


@contextlib.contextmanager
def restoring() -> Iterator[None]:
    """Around a command that restores indexes: the error of rows that do not fit says what to do."""
    try:
        yield
    except LondisteError as error:
        if error.sqlstate in NOT_UNIQUE:
            error.hint = (
                "correct the rows of this table in a session with: set"
                " session_replication_role = replica; then repeat the command"
            )
        raise


@dataclass(frozen=True)
class Removable:
    """One index or constraint: how to drop and how to create it.

    build -- creates the index; other sessions may read the table and build other indexes on it
        at the same time.
    finish -- what follows: keys, comments, marks; needs an exclusive lock, and takes no time, but
        for an exclusion constraint.
    index -- name of the index.
    """

    name: str
    drop: str
    build: tuple[str, ...]
    finish: tuple[str, ...]
    index: str = ""

    @property
    def restore(self) -> tuple[str, ...]:
        """All of it, in order."""
        return (*self.build, *self.finish)


@dataclass(frozen=True)
class Piece:
    """A part of a stored text that can run separately, in the order of the parts.

    name -- of the index that it builds; None for a part that needs an exclusive lock.
    text -- exactly the part.
    marked -- ``script`` wrote it: names without schema in it are the server's.
    """

    name: str | None
    text: str
    marked: bool = True


def removable(
    table: TableName, indexes: Sequence[Index], constraints: Sequence[Constraint]
) -> list[Removable]:
    """The indexes and constraints to drop for a copy, in an order in which they can be restored."""
    by_name = {c.name: c for c in constraints}
    result = []
    for index in indexes:
        constraint = by_name.get(index.constraint) if index.constraint else None
        if index.attached or not index.valid or (constraint is not None and constraint.inherited):
            continue
        result.append(
            _plain(table, index)
            if constraint is None
            else _behind_constraint(table, index, constraint)
        )
    return result


def comment(text: str) -> str:
    """One line of comment in a script, whatever the text contains: a name may have lines."""
    return "-- " + escaped(text)


def script(items: Sequence[Removable]) -> str:
    """The text to store; run in one transaction it restores everything."""
    return "".join(
        _marked(kind, item.name, "".join(f"{statement};\n" for statement in statements))
        for item in items
        for kind, statements in (("build", item.build), ("finish", item.finish))
        if statements
    )


def _marked(kind: str, name: str, text: str) -> str:
    # The length, because a string constant in a statement may hold a line that looks like this.
    return f"-- {len(text)} characters: {kind} {json.dumps(name, ensure_ascii=False)}\n{text}"


_MARK = re.compile(r'-- ([0-9]+) characters: (build|finish) ("[^\n]*")\n')


def pieces(text: str) -> list[Piece]:
    """The parts of a stored text.  Unmarked text (of other programs) is one part."""
    result = []
    at = 0
    while at < len(text):
        found = _MARK.match(text, at)
        end = len(text) if found is None else found.end() + int(found[1])
        name = json.loads(found[3]) if found is not None and found[2] == "build" else None
        result.append(Piece(name, text[at:end], found is not None))
        at = end
    return result


def run_stored(conn: Connection, text: str) -> None:
    """Runs statements that are stored in the database, inside a transaction.

    The owner of the database chooses its path.  Only unmarked text needs it: Londiste 3 stores
    names without the schemas that were in the path of its session.  There names of the server come
    first.
    """
    for piece in pieces(text):
        if not piece.marked:
            conn.execute(query("path_of_stored"))
        # As bytes: the text may hold percent signs, and there are no parameters.
        conn.execute(piece.text.encode())
        if not piece.marked:
            conn.execute(f"set local search_path = {TEXT_SETTINGS['search_path']}".encode())


def named(text: str, name: str) -> list[str]:
    """The parts of a stored text that build and finish one index or constraint.

    Empty for one that is not in it, for a primary key, and in text of other programs.
    """
    parts = []
    for piece in pieces(text):
        found = _MARK.match(piece.text)
        if found is not None and json.loads(found[3]) == name:
            parts.append(piece.text)
    return [] if any(" primary key using index " in part for part in parts) else parts


def _plain(table: TableName, index: Index) -> Removable:
    name = f"{quote(index.schema)}.{quote(index.name)}"
    return Removable(
        index.name,
        f"drop index {name}",
        _in_tablespace(index, index.definition),
        _attributes(table, index),
        index.name,
    )


def _behind_constraint(table: TableName, index: Index, constraint: Constraint) -> Removable:
    alter = f"alter table only {table.quoted}"
    name = quote(constraint.name)
    build: tuple[str, ...] = ()
    if constraint.by_index:
        # Through its index: a constraint's own definition does not show fillfactor and the like.
        kind = "primary key" if constraint.kind == "p" else "unique"
        timing = ""
        if constraint.deferrable:
            timing = " deferrable initially " + ("deferred" if constraint.deferred else "immediate")
        build = _in_tablespace(index, index.definition)
        finish: tuple[str, ...] = (
            f"{alter} add constraint {name} {kind} using index {quote(index.name)}{timing}",
        )
    else:
        finish = _in_tablespace(index, f"{alter} add constraint {name} {constraint.definition}")
        if index.options:
            finish += (_set_options(index),)
    if constraint.comment is not None:
        finish += (
            f"comment on constraint {name} on {table.quoted} is {literal(constraint.comment)}",
        )
    return Removable(
        constraint.name,
        f"{alter} drop constraint {name}",
        build,
        (*finish, *_attributes(table, index)),
        index.name,
    )


def _in_tablespace(index: Index, statement: str) -> tuple[str, ...]:
    if index.tablespace is None:
        return (statement,)
    return (
        f"set local default_tablespace = {quote(index.tablespace)}",
        statement,
        "set local default_tablespace = ''",
    )


def _set_options(index: Index) -> str:
    pairs = []
    for option in index.options:
        key, _, value = option.partition("=")
        pairs.append(f"{quote(key)} = {literal(value)}")
    return f"alter index {quote(index.schema)}.{quote(index.name)} set ({', '.join(pairs)})"


def _attributes(table: TableName, index: Index) -> tuple[str, ...]:
    name = f"{quote(index.schema)}.{quote(index.name)}"
    result = []
    for number, target in index.statistics:
        result.append(f"alter index {name} alter column {number} set statistics {target}")
    if index.comment is not None:
        result.append(f"comment on index {name} is {literal(index.comment)}")
    if index.clustered:
        result.append(f"alter table only {table.quoted} cluster on {quote(index.name)}")
    if index.replica_identity:
        result.append(
            f"alter table only {table.quoted} replica identity using index {quote(index.name)}"
        )
    return tuple(result)


def literal(text: str) -> str:
    """A string constant for any standard_conforming_strings, backslash_quote and encoding."""
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{doubled}'"


#: What would end a line for somebody who reads it.
LINE_BREAKS = re.compile("[\\x00-\\x1f\\x7f\\x85\\u2028\\u2029]")


def line_literal(text: str) -> str:
    """A string constant without line breaks."""
    return LINE_BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", literal(text))


def line_name(identifier: str) -> str:
    """An identifier without line breaks."""
    if not LINE_BREAKS.search(identifier):
        return quote(identifier)
    text = identifier.replace("\\", "\\\\").replace('"', '""')
    return 'U&"' + LINE_BREAKS.sub(lambda found: f"\\{ord(found[0]):04x}", text) + '"'


def line_type(type_name: str) -> str:
    """A type's name without line breaks; only its quoted parts may have some."""
    if not LINE_BREAKS.search(type_name):
        return type_name
    parts = re.split(r'("(?:[^"]|"")*")', type_name)
    return "".join(line_name(p[1:-1].replace('""', '"')) if p.startswith('"') else p for p in parts)


def typed(value: str | None, type_name: str) -> str:
    """A constant of a type, without line breaks; the type's input function reads the value."""
    return f"{'null' if value is None else line_literal(value)}::{line_type(type_name)}"
