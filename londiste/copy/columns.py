"""Which columns of a table are copied, and whether the binary format may carry them.

Pure: columns of both sides in, pairs and warnings out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.db.catalog import Column
from londiste.db.names import TableName
from londiste.errors import UsageError

#: Built-in types whose binary form depends on the database or does not exist; an empty tsquery
#: is written but not read by the server.
_TEXT_ONLY = ("reg", "xml", "aclitem", "pg_", "tsquery")


@dataclass(frozen=True)
class Pairing:
    """What a copy moves.

    pairs -- (source column, target column), in the order of the target.
    binary -- both sides have the same built-in types and the same major version.
    warnings -- sentences about columns that stay out.
    """

    pairs: tuple[tuple[str, str], ...]
    binary: bool
    warnings: tuple[str, ...]


def pair(
    table: TableName,
    source: Sequence[Column],
    target: Sequence[Column],
    *,
    same_version: bool,
) -> Pairing:
    """Pairs columns by name.  Columns that the target computes are never written.

    Raises UsageError naming every column that the target insists on and the source lacks.
    """
    there = {column.name: column for column in source}
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
            hint=f"add the column on the source, or give it a default here: {names}",
        )
    both = [c for c in target if c.name in there and not c.generated]
    return Pairing(
        pairs=tuple((column.name, column.name) for column in both),
        binary=same_version and all(_binary(there[c.name], c) for c in both),
        warnings=tuple(_warnings(table, there, here)),
    )


def _binary(source: Column, target: Column) -> bool:
    return (
        source.builtin
        and target.builtin
        and source.type == target.type
        and not source.type.startswith(_TEXT_ONLY)
    )


def _warnings(table: TableName, there: dict[str, Column], here: dict[str, Column]) -> list[str]:
    result = []
    not_here = [name for name in there if name not in here]
    if not_here:
        result.append(f"{table}: columns missing here are not copied: {', '.join(not_here)}")
    own = [name for name, column in here.items() if name not in there and not column.generated]
    if own:
        result.append(f"{table}: columns missing on the source get defaults: {', '.join(own)}")
    return result
