"""Checksums of all rows of tables by plain SQL, without the code of ``compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import psycopg

#: Number of rows, and a sum of hashes that does not depend on their order.
Digest: TypeAlias = tuple[int, Any]

_COLUMNS = """
select pg_catalog.quote_ident(attname) from pg_catalog.pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attname
"""


def columns(conn: psycopg.Connection[Any], table: str) -> list[str]:
    """The quoted columns of a table, sorted."""
    return [name for (name,) in conn.execute(_COLUMNS, [table]).fetchall()]


def digests(
    conn: psycopg.Connection[Any], tables: Mapping[str, Sequence[str]]
) -> dict[str, Digest]:
    """The digests of tables, in one snapshot.

    tables -- their columns by their quoted names.  The session's settings decide about the text.
    """
    names = list(tables)
    parts = [
        f"select {number}, count(*),"
        f" sum(hashtextextended(row({', '.join(tables[name])})::text, 0)) from {name}"
        for number, name in enumerate(names)
    ]
    found = conn.execute(" union all ".join(parts).encode()).fetchall()
    return {names[number]: (count, digest) for number, count, digest in found}
