"""The release that a part of a table needs: an older one gets the table without that part; pure."""

from __future__ import annotations

import re

from londiste.db.structure.types import Column, Constraint, Index, Structure

# In the actions of a foreign key names are no columns, but in these two.
_SET_COLUMNS = re.compile(r" ON DELETE SET (NULL|DEFAULT) \(")


def of_not_null(column: Column) -> int:
    """``server_version_num`` of the release that has this NOT NULL; 0: all supported ones."""
    return 0 if column.not_null_valid else 180000


def of_constraint(table: Structure, one: Constraint) -> int:
    """The same for a constraint, which may be one of a partitioned table."""
    partitioned = table.kind == "p"
    if one.periods or not one.enforced:
        return 180000
    if one.kind == "f" and partitioned and not one.validated:
        return 180000
    if one.kind == "x" and partitioned:
        return 170000
    if one.kind == "f" and _SET_COLUMNS.search(one.definition):
        return 150000
    return 150000 if one.definition.startswith("UNIQUE NULLS NOT DISTINCT") else 0


def of_index(one: Index) -> int:
    """The same for an index that implements no constraint."""
    return 150000 if one.nulls_not_distinct else 0


def name(version: int) -> str:
    """A release for messages."""
    return f"PostgreSQL {version // 10000}"
