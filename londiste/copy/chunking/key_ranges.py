"""Chunks of a table by ranges of its key, from a sample of its blocks.

The bounds are keys of a sample of blocks, so only a small part of a large table is read.  They
need not be exact: ranges that leave no value out hold every row once whatever the bounds are, and
the first and the last have no end.  Only the source compares with them, so the collation of the
target plays no part.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from londiste.copy.chunking.blocks import count_chunks
from londiste.db.catalog import Column, TableInfo
from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import quote
from londiste.db.queries import translated
from londiste.engine.spec import Chunk

#: Blocks of the sample for each chunk: a chunk is then as large as wanted, give or take a third.
_BLOCKS = 12
#: Rows that are kept of the blocks for each chunk.
_ROWS = 60

Bound = tuple[str, ...]


def split_by_key(
    conn: Connection,
    info: TableInfo,
    key: Sequence[Column],
    *,
    chunk_bytes: int,
    parallel: int = 1,
) -> tuple[Chunk, ...]:
    """The chunks of a table, in the order of its key; at least one.

    key -- columns of the primary key.  One statement reads the sample.
    parallel -- chunks at a time.
    """
    count = count_chunks(info.pages, info.total_bytes, chunk_bytes, parallel)
    found = [] if count == 1 else bounds(conn, info, [c.name for c in key], count)
    conditions = ranges(found, key)
    share, rows = info.total_bytes // len(conditions), int(info.rows_estimate / len(conditions))
    return tuple(
        Chunk(info.name, number, condition, share, rows)
        for number, condition in enumerate(conditions)
    )


def bounds(conn: Connection, info: TableInfo, key: Sequence[str], count: int) -> list[Bound]:
    """Keys that divide the table into ``count`` about equal parts or fewer, ascending, as texts."""
    share = min(1.0, count * _BLOCKS / max(1, info.pages))
    likely = info.rows_estimate * share
    keep = min(1.0, count * _ROWS / likely) if likely else 1.0
    columns = sql.SQL(", ").join(map(sql.Identifier, key))
    statement = sql.SQL(
        "select {texts} from ("
        " select {columns}, row_number() over (order by {columns}) as n, count(*) over () as total"
        " from (select {columns} from {table} tablesample system ({percent})"
        " where random() < {keep}) as s) as t"
        # Where the number of the piece changes; a row may be the end of more than one.
        " where n < total and n * {count} / total <> (n - 1) * {count} / total"
        " order by n"
    ).format(
        texts=sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(k)) for k in key),
        columns=columns,
        table=info.name.own(info.tree),
        percent=sql.Literal(round(share * 100, 9)),
        keep=sql.Literal(keep if keep < 1.0 else 2.0),
        count=sql.Literal(count),
    )
    with translated(conn):
        return [tuple(map(str, row)) for row in conn.execute(statement)]


def ranges(bounds: Sequence[Bound], key: Sequence[Column]) -> list[str]:
    """Conditions of which every row meets exactly one; '' is all rows.

    bounds -- ascending in the order of the source; one that comes twice makes an empty range.
    """
    columns = _row([quote(column.name) for column in key])
    texts = [
        _row([f"{literal(value)}::{column.type}" for value, column in zip(b, key, strict=True)])
        for b in dict.fromkeys(bounds)
    ]
    result = []
    for lower, upper in zip([None, *texts], [*texts, None], strict=True):
        parts = [] if lower is None else [f"{columns} >= {lower}"]
        parts += [] if upper is None else [f"{columns} < {upper}"]
        result.append(" and ".join(parts))
    return result


def _row(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def open_end_first(chunks: Sequence[Chunk], last: int) -> tuple[Chunk, ...]:
    """The order to copy in: number ``last``, the range without an upper end, before the others.

    New rows mostly come there, and those that came before the chunk was read travel twice.
    """
    return tuple(sorted(chunks, key=lambda chunk: (chunk.number != last, chunk.number)))
