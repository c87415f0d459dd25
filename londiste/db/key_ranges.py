"""Key ranges: bounds from a sample of a table's blocks, and the conditions between them.

Only a small part of a large table is read.  The bounds need not be exact: ranges that leave no
value out hold every row once whatever the bounds are, and the first and the last have no end.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from londiste.db.catalog import TableInfo
from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import quote
from londiste.db.queries import translated

#: A value of the key, as texts.
Bound = tuple[str, ...]


def bounds(
    conn: Connection,
    info: TableInfo,
    key: Sequence[str],
    count: int,
    *,
    tree: bool,
    blocks: int,
    rows: int,
) -> list[Bound]:
    """Keys that divide the table into ``count`` about equal parts or fewer, ascending.

    tree -- with the rows of its partitions or children.
    blocks, rows -- of the sample, for each part.
    """
    share = min(1.0, count * blocks / max(1, info.pages))
    likely = info.rows_estimate * share
    keep = min(1.0, count * rows / likely) if likely else 1.0
    # Names of columns may be ours: n, total.
    own = [sql.Identifier(f"k{number}") for number in range(len(key))]
    columns = sql.SQL(", ").join(own)
    statement = sql.SQL(
        "select {texts} from ("
        " select {columns}, row_number() over (order by {columns}) as n, count(*) over () as total"
        " from (select {key} from {table} tablesample system ({percent})"
        " where pg_catalog.random() < {keep}) as s ({columns})) as t"
        # Where the number of the part changes; a row may be the end of more than one.
        " where n < total and n * {count} / total <> (n - 1) * {count} / total"
        " order by n"
    ).format(
        # A cast to text may be code of the table's owner.
        texts=sql.SQL(", ").join(sql.SQL("pg_catalog.format('%s', {})").format(k) for k in own),
        columns=columns,
        key=sql.SQL(", ").join(map(sql.Identifier, key)),
        table=info.name.own(tree),
        percent=sql.Literal(round(share * 100, 9)),
        keep=sql.Literal(keep if keep < 1.0 else 2.0),
        count=sql.Literal(count),
    )
    # TABLESAMPLE is not for views, so the server refuses one that has taken the name.
    with translated(conn):
        return [tuple(map(str, row)) for row in conn.execute(statement)]


def ranges(bounds: Sequence[Bound], names: Sequence[str], types: Sequence[str]) -> list[str]:
    """Conditions of which every row meets exactly one; '' is all rows.

    bounds -- ascending; one that comes twice is taken once.
    names, types -- of the columns of the key.
    """
    columns = _row([quote(name) for name in names])
    texts = [
        _row([f"{literal(value)}::{kind}" for value, kind in zip(bound, types, strict=True)])
        for bound in dict.fromkeys(bounds)
    ]
    result = []
    for lower, upper in zip([None, *texts], [*texts, None], strict=True):
        parts = [] if lower is None else [f"{columns} >= {lower}"]
        parts += [] if upper is None else [f"{columns} < {upper}"]
        result.append(" and ".join(parts))
    return result


def _row(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
