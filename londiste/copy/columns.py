"""Column pairing of a copy: which columns are copied, and whether the binary format is safe.

Pure: columns of both sides in, pairs and warnings out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from londiste.db.catalog import CHAR_ESCAPES, Column
from londiste.db.names import TableName, quote
from londiste.errors import UsageError
from londiste.handlers.base import ALL, TableRules

#: Built-in types whose binary form depends on the database or does not exist; an empty tsquery
#: is written but not read by the server.
_TEXT_ONLY = ("reg", "xml", "aclitem", "pg_", "tsquery")


@dataclass(frozen=True)
class Pairing:
    """The columns that a copy moves.

    pairs -- (source column, target column), in the order of the target.
    binary -- both sides have the same built-in types and the same major version.
    warnings -- messages about columns that only the target has.
    missing -- columns of the source that the target does not have.
    """

    pairs: tuple[tuple[str, str], ...]
    binary: bool
    warnings: tuple[str, ...]
    missing: tuple[Column, ...] = ()


def pair(
    table: TableName,
    source: Sequence[Column],
    target: Sequence[Column],
    *,
    same_version: bool,
    dest: TableName | None = None,
    wants: TableRules = ALL,
) -> Pairing:
    """Pairs columns by name.  Columns that the target computes are never written.

    dest -- the table of the target, where it has another name.
    wants -- the table's rules; they exclude or rename columns.

    Raises UsageError naming every column that the target requires and the source lacks.
    """
    other = dict(wants.renamed)
    from_source = {other.get(c.name, c.name): c for c in source if wants.keeps(c.name)}
    in_target = {column.name: column for column in target}
    needed = [
        column.name
        for column in target
        if column.name not in from_source
        and column.not_null
        and column.default is None
        and not column.identity
        and not column.generated
    ]
    if needed:
        names = ", ".join(needed)
        raise UsageError(
            f"table {table}: column {names} does not exist on the source",
            detail="on the target it is NOT NULL and has no default",
            hint="add the column on the source, or give it a default on the target: alter table"
            f" {(dest or table).quoted} alter column {quote(needed[0])} set default …; the"
            " copy then restarts automatically",
        )
    both = [c for c in target if c.name in from_source and not c.generated]
    return Pairing(
        pairs=tuple((from_source[column.name].name, column.name) for column in both),
        binary=same_version and all(_binary(from_source[c.name], c) for c in both),
        warnings=tuple(
            _warnings(table, from_source, {n: c for n, c in in_target.items() if wants.keeps(n)})
        ),
        missing=tuple(c for name, c in from_source.items() if name not in in_target),
    )


def require_char(
    table: TableName,
    dest: TableName,
    pairs: Sequence[tuple[str, str]],
    columns: tuple[Sequence[Column], Sequence[Column]],
    versions: tuple[int, int],
) -> None:
    """Raises UsageError for a column that would get other values than the source has.

    Type "char" of PostgreSQL 15 and later writes bytes above 127 as three octal digits; that of
    earlier versions reads a backslash.

    pairs -- (source column, target column); columns, versions -- of the source and the target.
    """
    if not versions[1] < CHAR_ESCAPES <= versions[0]:
        return
    there, here = ({c.name: c for c in side} for side in columns)
    for name, own in pairs:
        if _is_char(there[name]) and _is_char(here[own]):
            raise UsageError(
                f"table {table}: column {own} of type {here[own].type} cannot be copied to"
                f" PostgreSQL {versions[1] // 10000}",
                detail="it would read values above 127 as a backslash",
                hint=f"make it a text column on the target: alter table {dest.quoted} alter column"
                f" {quote(own)} type text; the copy then restarts automatically",
            )


def _is_char(column: Column) -> bool:
    return column.read_as.removesuffix("[]") == '"char"'


def has_char(columns: Sequence[Column]) -> bool:
    """Whether a column has type "char", or an array or domain of it."""
    return any(map(_is_char, columns))


def require_here(
    queue: str,
    table: TableName,
    source: TableName,
    dest: TableName,
    missing: Sequence[Column],
    captured: Collection[str] | None,
) -> str:
    """A warning about columns that the target lacks, '' if there is none.

    missing -- those columns; captured -- the columns in events, None when unknown.

    Raises UsageError when events contain them: the first event would stop the table after all its
    rows were copied without the column.
    """
    names = ", ".join(column.name for column in missing)
    if captured is None:
        if not missing:
            return ""
        return (
            f"table {table}: columns missing on the target are not copied: {names}; events that"
            f" contain them will stop the table: {_add(dest, missing)}"
        )
    wrong = [column for column in missing if column.name in captured]
    if not wrong:
        return (
            f"table {table}: columns missing on the target are not copied: {names}"
            if missing
            else ""
        )
    names = ", ".join(column.name for column in wrong)
    raise UsageError(
        f"table {table}: column {names} of the source does not exist on the target",
        detail="events contain it, and the first of them would stop the table after its copy",
        hint=f"add it on the target: {_add(dest, wrong)}; or exclude it on the root, with the"
        f" other options of its capture: select londiste.create_capture('{queue}', '{source}',"
        f" '{{\"ignore={','.join(column.name for column in wrong)}\"}}'); the copy then"
        " restarts automatically",
    )


def _add(dest: TableName, columns: Sequence[Column]) -> str:
    """The statement that adds the columns."""
    added = ", ".join(f"add column {quote(column.name)} {column.type}" for column in columns)
    return f"alter table {dest.quoted} {added}"


def _binary(source: Column, target: Column) -> bool:
    return (
        source.builtin
        and target.builtin
        and source.type == target.type
        and not source.type.startswith(_TEXT_ONLY)
    )


def _warnings(table: TableName, source: dict[str, Column], target: dict[str, Column]) -> list[str]:
    result = []
    own = [name for name, column in target.items() if name not in source and not column.generated]
    if own:
        result.append(
            f"table {table}: columns missing on the source get defaults: {', '.join(own)}"
        )
    return result
