"""Partitions that a subscriber lacks: a copy would empty its table, and then fail at their rows.

Only tables that are partitioned by the same key as on the source are compared.  Partitions that
overlap, as those of a year and a month do, may take the same rows, and are not missing.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch, translated, tuples
from londiste.db.sessions.view_guard import reading
from londiste.errors import AccessDenied, StateError
from londiste.replication.model import ReplicatedTable

#: Bounds from a table down to one of its partitions.
Path = tuple[str, ...]

_VALUE = r"'(?:[^'\\]|'')*'|[\w.+-]+"
_LIST = re.compile(rf"FOR VALUES IN \(((?:{_VALUE})(?:, (?:{_VALUE}))*)\)")
_RANGE = re.compile(rf"FOR VALUES FROM \(({_VALUE})\) TO \(({_VALUE})\)")
_HASH = re.compile(r"FOR VALUES WITH \(modulus (\d+), remainder (\d+)\)")


@dataclass(frozen=True)
class TreeTable:
    """A partitioned table or a partition; fields as in ``partition_bounds``."""

    name: TableName
    key: str | None = None
    type: str | None = None
    list_type: str | None = None


def require(
    source: Connection, name: TableName, target: Connection, table: ReplicatedTable, then: str
) -> None:
    """Raises StateError where rows of the source have no partition on this node.

    name -- of the table on the source.  then -- what follows when the partitions are there.
    """
    wants = table.wants
    if not wants.stored or wants.rows is not None or wants.events is not None:
        # Its handler decides where rows go.
        return
    ours = _tree(target, table.dest)
    theirs = _tree(source, name) if ours else {}
    found = [
        path
        for path in lacking(
            theirs, ours, lambda kind, one, others: _meets(target, kind, one, others)
        )
        if _has_rows(source, theirs[path].name, wants.where)
    ]
    if not found:
        return
    names = ", ".join(str(theirs[path].name) for path in found)
    statements = "; ".join(
        text for path in found for text in _statements(target, path, theirs, ours, name, table.dest)
    )
    raise StateError(
        f"table {table.dest}: no partition on this node takes the rows of {names} of the source",
        detail="the copy would empty the table, and then fail at these rows; nothing was changed",
        hint=f"in the database of this node: {statements}; {then}",
    )


def lacking(
    theirs: Mapping[Path, TreeTable],
    ours: Mapping[Path, TreeTable],
    meets: Callable[[str, str, Sequence[str]], bool],
) -> list[Path]:
    """Pure: partitions of the source none of whose rows has a partition here; the uppermost ones.

    meets -- whether a range overlaps other ranges of a type; all are bounds.
    """
    bounds: dict[Path, list[str]] = defaultdict(list)
    for path in ours:
        if path:
            bounds[path[:-1]].append(path[-1])
    found = []
    for path in theirs:
        above = path[:-1]
        if not path or path in ours or above not in ours or path[-1] == "DEFAULT":
            continue
        parent, other, siblings = ours[above], theirs[above], bounds[above]
        if parent.key is None or parent.key != other.key or "DEFAULT" in siblings:
            continue
        # Values of two types may be equal in spite of other texts.
        listed = parent.list_type is not None and parent.list_type == other.list_type
        if not any(_may_meet(path[-1], one, listed=listed) for one in siblings) or (
            parent.type is not None
            and parent.type == other.type
            and all(_RANGE.fullmatch(one) for one in (path[-1], *siblings))
            and not meets(parent.type, path[-1], siblings)
        ):
            found.append(path)
    return found


def _may_meet(one: str, other: str, *, listed: bool) -> bool:
    """Pure: whether a row may fit both bounds, as far as their texts show it.

    listed -- equal values of lists have one text.
    """
    lists = _LIST.fullmatch(one), _LIST.fullmatch(other)
    if listed and lists[0] and lists[1]:
        first, second = (set(re.findall(_VALUE, found[1])) for found in lists if found)
        return bool(first & second)
    hashes = _HASH.fullmatch(one), _HASH.fullmatch(other)
    if hashes[0] and hashes[1]:
        (m, r), (n, s) = (map(int, found.groups()) for found in hashes if found)
        return (r - s) % math.gcd(m, n) == 0
    return True


def _ends(bound: str) -> list[str | None]:
    """Pure: the ends of a range as texts of their type; None: unlimited."""
    found = _RANGE.fullmatch(bound)
    assert found is not None
    return [
        None
        if value in {"MINVALUE", "MAXVALUE"}
        else value.removeprefix("'").removesuffix("'").replace("''", "'")
        for value in found.groups()
    ]


def _meets(conn: Connection, kind: str, one: str, others: Sequence[str]) -> bool:
    """Whether a range overlaps one of the others.  kind -- a type of PostgreSQL."""
    low, high = _ends(one)
    lows, highs = zip(*map(_ends, others), strict=True)
    query = (
        f"select exists (select from unnest(%s::text[]::{kind}[], %s::text[]::{kind}[])"  # noqa: S608
        f" as o (low, high) where coalesce(o.low < %s::{kind}, true)"
        f" and coalesce(o.high > %s::{kind}, true))"
    )
    with translated(conn):
        row = conn.execute(query.encode(), [list(lows), list(highs), high, low]).fetchone()
    assert row is not None
    return bool(row[0])


def _tree(conn: Connection, table: TableName) -> dict[Path, TreeTable]:
    """A table with its partitions; empty if it is not partitioned."""
    return {
        tuple(row["path"]): TreeTable(
            TableName(row["schema"], row["name"]), row["key"], row["type"], row["list_type"]
        )
        for row in fetch(conn, "partition_bounds", **table._asdict())
    }


def _has_rows(conn: Connection, table: TableName, where: str) -> bool:
    """Whether a partition has a row that is copied; False where the role may not look into it."""
    condition = f" where ({where}\n)" if where else ""
    try:
        with translated(conn), reading(conn, table, conditions=[where] if where else []):
            row = conn.execute(f"select from {table.quoted}{condition} limit 1".encode())
            return row.fetchone() is not None
    except AccessDenied:
        return False


def _statements(
    conn: Connection,
    missing: Path,
    theirs: Mapping[Path, TreeTable],
    ours: Mapping[Path, TreeTable],
    source: TableName,
    dest: TableName,
) -> Iterator[str]:
    """The statements that create a partition, with its own, or attach the table of its name."""

    def here(name: TableName) -> TableName:
        return TableName(dest.schema, name.name) if name.schema == source.schema else name

    for path, one in theirs.items():
        if path[: len(missing)] != missing:
            continue
        above = path[:-1]
        parent = ours[above].name if above in ours else here(theirs[above].name)
        name = here(one.name)
        ((taken, attachable),) = tuples(conn, "attachable", relation=name.quoted)
        if attachable:
            yield f"alter table {parent.quoted} attach partition {name.quoted} {path[-1]}"
        else:
            by = "" if one.key is None else f" partition by {one.key}"
            if taken:
                name = TableName(name.schema, f"{name.name}_of_source")
            yield f"create table {name.quoted} partition of {parent.quoted} {path[-1]}{by}"
