"""Validation of row conditions by PostgreSQL, and the columns that they read.

The condition is used in four statements: COPY on the source, writes and COPY on this node, and
compare.  It must mean the same in all of them and at all times, so the rules are those of a partial
index: one boolean expression over the columns of one row, without subqueries, aggregates and
functions that are not immutable.  PostgreSQL checks that by creating such an index on an empty
temporary table with the same columns, which is rolled back.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

import psycopg
from psycopg import sql

from londiste.db import catalog
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName, quote
from londiste.db.queries import query, run_one, try_condition
from londiste.error_values import server_text
from londiste.errors import BadOption, UnknownTable, from_database
from londiste.handlers.base import TableRules

_TRY = "londiste_condition"


def check(conn: Connection, table: TableName, wants: TableRules, *, created: bool = False) -> None:
    """Refuses a condition or columns that are invalid for a table.  Changes nothing.

    created -- the table is the provider's, and the local one will be created like it.

    Raises BadOption, and UnknownTable when the table is not there.
    """
    columns = {column.name: column for column in catalog.columns(conn, table)}
    if not columns:
        raise UnknownTable(f"table {table} does not exist in {describe_dsn(conn.info.dsn)}")
    key = catalog.key(conn, table)
    here = dict(wants.renamed)
    for name in sorted(here.get(name, name) for name in wants.columns or ()):
        if name not in columns:
            raise BadOption(
                f"--columns {name}: table {table} has no such column here",
                hint=f"add the column, or omit it; the table has {', '.join(columns)}",
            )
    renamed = set(here.values())
    for name in key:
        if not wants.keeps(name) and name not in renamed:
            raise BadOption(
                f"table {table}: column {name} cannot be excluded",
                detail=f"it is in the primary key ({', '.join(key)}), which identifies the rows"
                " of events",
                hint="include the columns of the key",
            )
    for name, column in columns.items():
        given = column.default is not None or column.identity or column.generated
        kept = wants.keeps(name) or name in renamed
        if not kept and column.not_null and not given:
            raise BadOption(
                f"table {table}: column {name} cannot be excluded",
                detail="it is NOT NULL and has no default"
                + (", as in the table that would be created" if created else " on this node"),
                hint="create the table without this column, and add it without --create"
                if created
                else f"alter table {table.quoted} alter {quote(name)} drop not null",
            )
    for name, example in wants.examples:
        target = columns.get(here.get(name, name))
        if target is not None:
            _require_type(conn, table, target, example)
    if not wants.where:
        return
    for name in _columns_read(conn, table, wants, if_allowed=created):
        if not wants.keeps(name):
            raise BadOption(
                f"--where reads column {name}, which is excluded from table {table}",
                detail="without its value an event does not show whether the row matches",
                hint="include the column",
            )
        if name in wants.changed:
            raise BadOption(
                f"--where reads column {name}, whose values the handler changes",
                detail="the condition applies to the changed row",
                hint="use columns that the handler does not change",
            )
        if columns[name].generated:
            raise _generated(name)


def check_source(conn: Connection, table: TableName, wants: TableRules) -> None:
    """Refuses a condition or columns that are invalid for the source's table.  Changes nothing.

    The copy evaluates the condition there: it must have the same result at all times there, too.
    Without rights on temporary tables there, only its syntax and names are checked.

    Raises BadOption.
    """
    columns = {column.name: column for column in catalog.columns(conn, table)}
    for name in sorted((wants.columns or frozenset()) - columns.keys()):
        raise BadOption(
            f"--columns {name}: table {table} of the provider has no such column",
            hint=f"it has {', '.join(columns)}",
        )
    if not wants.where:
        return
    try:
        try_condition(conn, f"only {table.quoted}", wants.where)
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            for name in _read(conn, table, wants.where):
                if columns[name].generated:
                    raise _generated(name, " on the provider")
    except psycopg.Error as error:
        raise _refused(error, wants, f"{table} on {describe_dsn(conn.info.dsn)}") from error


def _require_type(conn: Connection, table: TableName, column: catalog.Column, example: str) -> None:
    """Refuses a column whose type does not take a value that the handler makes."""
    text = sql.SQL("select cast({} as ").format(example).as_string(conn)
    try:
        with conn.transaction(force_rollback=True):
            # The type without domains: a cast runs no code of its owner.
            row = conn.execute(f"{text}{column.read_as})::text".encode()).fetchone()
        if row is not None and fits(example, row[0]):
            return
        why = f"it takes only {row[0]}" if row is not None else ""
    except psycopg.DataError as error:
        why = server_text(error)
    raise BadOption(
        f"table {table}: column {column.name} is {column.type}, which cannot store the values"
        f" that the handler makes, as {example}",
        detail=why,
        hint="use another rule for the column, or give it another type on this node",
    )


def fits(value: str, stored: str) -> bool:
    """Pure: whether a text was stored whole, as a cast to a type that is too short cuts it."""
    return value == stored or not value.startswith(stored)


def _generated(name: str, where: str = "") -> BadOption:
    return BadOption(
        f"--where reads column {name}, which is generated{where}",
        detail="the server computes it, and events do not contain it",
        hint="write its expression instead of the column",
    )


def check_types(
    origin: Connection,
    source: TableName,
    conn: Connection,
    table: TableName,
    wants: TableRules,
    *,
    created: bool = False,
) -> None:
    """Refuses a condition over columns whose types differ: it would choose other rows.

    The copy evaluates it with the types of the source, events are read with those of this node.

    origin, source -- the source and its table; conn, table -- the local ones.
    created -- the latter are those of the provider, and the local table will be created like it.

    Raises BadOption.
    """
    if not wants.where:
        return
    there = {column.name: column.read_as for column in catalog.columns(origin, source)}
    here = {column.name: column.read_as for column in catalog.columns(conn, table)}
    for name in _columns_read(conn, table, wants, if_allowed=created):
        if name in there and not means_the_same(there[name], here[name]):
            place = f"at {describe_dsn(conn.info.dsn)}" if created else "here"
            raise BadOption(
                f"the filter of table {table} reads column {name}, which is {here[name]} {place}"
                f" and {there[name]} at {describe_dsn(origin.info.dsn)}",
                detail="the copy evaluates the filter with one type and events with the other:"
                " rows would be missing, or too many",
                hint=f"alter table {table.quoted} alter {quote(name)} type {there[name]}; or filter"
                " by another column",
            )


#: Types of which an expression makes the same, whichever of them a column has.
_ALIKE = ({"smallint", "integer", "bigint"}, {"text", "character varying"})


def means_the_same(one: str, other: str) -> bool:
    """Pure: whether a condition chooses the same rows with columns of these types.

    Both as format_type prints them.  A value that does not fit one of them stops the worker.
    """
    if one == other:
        return True
    names, scales = zip(*(_parts(text) for text in (one, other)), strict=True)
    if names == ("numeric", "numeric"):
        return bool(scales[0] == scales[1])
    return any(set(names) <= alike for alike in _ALIKE)


_WORD = re.compile(r"'(?:[^']|'')*'|\"((?:[^\"]|\"\")+)\"|([^\W\d][\w$]*)")


def may_read(where: str, names: Iterable[str]) -> list[str]:
    """Pure: those of these columns whose names are words of a condition.

    For checks that ask no server; a word may also be the name of a function.
    """
    words = set()
    for quoted, plain in _WORD.findall(where):
        words.add(quoted.replace('""', '"') if quoted else plain.lower())
    return [name for name in names if name in words]


def _parts(type_name: str) -> tuple[str, str]:
    """The name of a type without its length; of numeric also its scale, '' for none."""
    name, bracket, rest = type_name.partition("(")
    modifier, _, tail = rest.partition(")")
    if name == "numeric" and bracket and not tail:
        return name, modifier.partition(",")[2] or "0"
    if name == "character varying" and not tail:
        return name, ""
    return type_name, ""


def _columns_read(
    conn: Connection, table: TableName, wants: TableRules, *, if_allowed: bool = False
) -> list[str]:
    """As ``_read``, with errors for the user.

    if_allowed -- none without rights on temporary tables.
    """
    try:
        with contextlib.suppress(*([psycopg.errors.InsufficientPrivilege] if if_allowed else [])):
            return _read(conn, table, wants.where)
        return []
    except psycopg.Error as error:
        raise _refused(error, wants, str(table)) from error


def _read(conn: Connection, table: TableName, where: str) -> list[str]:
    """The columns that a condition reads.  Raises the server's error if it is invalid."""
    with conn.transaction(force_rollback=True):
        conn.execute(
            sql.SQL("create temp table {} (like {}) on commit drop").format(
                sql.Identifier(_TRY), table.sql
            )
        )
        # Only what is an expression in brackets and without them is one expression.
        for number, form in enumerate(("({})", "{}")):
            text = f"create index {_TRY}_{number} on pg_temp.{_TRY} ((1)) where "
            run_one(conn, text + form.format(where))
        rows = conn.execute(query("condition_columns"), [f"{_TRY}_1"]).fetchall()
    return [str(row[0]) for row in rows]


def _refused(error: psycopg.Error, wants: TableRules, table: str) -> Exception:
    known = from_database(error)
    if (error.sqlstate or "")[:2] not in {"42", "22", "0A"} or error.sqlstate == "42501":
        return known
    said = server_text(error)
    if error.sqlstate == "42P17" and wants.text_of:
        return BadOption(
            f"handler shard: the text of column {wants.text_of} depends on settings of the session",
            detail=f"table {table}: a row would be in another part in each session",
            hint="use another column; or set hash_expr to an expression of it that has always the"
            " same result: docs/howto/handlers.md",
        )
    if error.sqlstate == "42P17":
        hint = "remove now(), random() and the like: a condition must always have the same result"
    elif error.sqlstate in {"42883", "42704"}:
        hint = "add the schema to functions, operators and types outside of pg_catalog"
    else:
        hint = (
            "write one boolean expression over the columns of the table: --where \"region = 'eu'\""
        )
    return BadOption(f"--where {wants.where}: {said}", detail=f"table {table}", hint=hint)
