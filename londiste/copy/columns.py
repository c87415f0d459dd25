"""Which columns of a table are copied, and whether the binary format may carry them.

Pure: columns of both sides in, pairs and warnings out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from londiste.db.catalog import Column
from londiste.db.names import TableName, quote
from londiste.errors import UsageError
from londiste.handlers.base import ALL, TableRules

#: Built-in types whose binary form depends on the database or does not exist; an empty tsquery
#: is written but not read by the server.
_TEXT_ONLY = ("reg", "xml", "aclitem", "pg_", "tsquery")


@dataclass(frozen=True)
class Pairing:
    """What a copy moves.

    pairs -- (source column, target column), in the order of the target.
    binary -- both sides have the same built-in types and the same major version.
    warnings -- sentences about columns of this node's own.
    missing -- columns of the source that are not here.
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
    wants -- says which columns are left out on purpose.

    Raises UsageError naming every column that the target insists on and the source lacks.
    """
    other = dict(wants.renamed)
    there = {other.get(c.name, c.name): c for c in source if wants.keeps(c.name)}
    here = {column.name: column for column in target}
    needed = [
        column.name
        for column in target
        if column.name not in there
        and column.not_null
        and column.default is None
        and not column.identity
        and not column.generated
    ]
    if needed:
        names = ", ".join(needed)
        raise UsageError(
            f"table {table}: the source has no column {names}",
            detail="here it is NOT NULL and has no default",
            hint=f"add the column on the source, or give it a default here: alter table"
            f" {(dest or table).quoted} alter column {quote(needed[0])} set default …;"
            " the copy begins by itself then",
        )
    both = [c for c in target if c.name in there and not c.generated]
    return Pairing(
        pairs=tuple((there[column.name].name, column.name) for column in both),
        binary=same_version and all(_binary(there[c.name], c) for c in both),
        warnings=tuple(_warnings(table, there, {n: c for n, c in here.items() if wants.keeps(n)})),
        missing=tuple(c for name, c in there.items() if name not in here),
    )


def require_here(
    queue: str,
    table: TableName,
    source: TableName,
    dest: TableName,
    missing: Sequence[Column],
    told: Collection[str] | None,
) -> str:
    """A warning about columns of the source that are not here, '' if there is nothing to say.

    missing -- those columns; told -- those that events tell, None when nobody knows.

    Raises UsageError when events tell them: the first one would stop the table after all its rows
    were copied, and rows without the column would be here already.
    """
    names = ", ".join(column.name for column in missing)
    if told is None:
        if not missing:
            return ""
        return (
            f"{table}: columns missing here are not copied: {names};"
            f" events that have them will stop the table: {_add(dest, missing)}"
        )
    wrong = [column for column in missing if column.name in told]
    if not wrong:
        return f"{table}: columns missing here are not copied: {names}" if missing else ""
    names = ", ".join(column.name for column in wrong)
    raise UsageError(
        f"table {table}: column {names} of the source is missing here",
        detail="events tell it, and the first of them would stop the table after its copy",
        hint=f"add it here: {_add(dest, wrong)}; or leave it out, on the root: select"
        f" londiste.create_capture('{queue}', '{source}',"
        f" '{{\"ignore={','.join(column.name for column in wrong)}\"}}');"
        " the copy begins by itself then",
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


def _warnings(table: TableName, there: dict[str, Column], here: dict[str, Column]) -> list[str]:
    result = []
    own = [name for name, column in here.items() if name not in there and not column.generated]
    if own:
        result.append(f"{table}: columns missing on the source get defaults: {', '.join(own)}")
    return result
