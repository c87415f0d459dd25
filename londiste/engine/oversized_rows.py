"""Error for rows too large for COPY, naming the row's table and columns.

A row in COPY is one text, or one binary message, of at most 1 GB; a value of 600 MB of bytea is
1.2 GB as text.  The server's error does not name the table, row or column.
"""

from __future__ import annotations

import contextlib

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from londiste.db.connection import session
from londiste.db.queries import query
from londiste.db.sessions.view_guard import reading
from londiste.engine.spec import CopySpec
from londiste.errors import LondisteError, StateError

#: Limit of one COPY message, in bytes.
LIMIT = 1024 * 1024 * 1024


def explained(error: LondisteError, spec: CopySpec, where: str) -> LondisteError | None:
    """The error that names table and column, when a row was too large; otherwise None.

    where -- condition of the chunk that failed, '' for the whole table.
    """
    cause = error.__cause__
    if not isinstance(cause, psycopg.Error) or not _about_memory(cause):
        return None
    with contextlib.suppress(psycopg.Error, LondisteError):
        return _named(spec, where)
    return None


def _about_memory(error: psycopg.Error) -> bool:
    message = str(error)
    return (
        error.sqlstate == "54000"
        or "invalid memory alloc request size" in message
        or "Cannot enlarge string buffer" in message
    )


def _named(spec: CopySpec, where: str) -> LondisteError | None:
    """Reads the sizes of all values of the chunk, which are known without reading the values."""
    names = [pair[0] for pair in spec.columns]
    with (
        session(spec.source, name=f"londiste copy {spec.name}", autocommit=True) as conn,
        conn.cursor(row_factory=dict_row) as cursor,
    ):
        cursor.execute(
            query("column_lengths"),
            {"schema": spec.source_table.schema, "name": spec.source_table.name, "names": names},
        )
        columns = {row["name"]: row for row in cursor.fetchall()}
        if not columns:
            return None
        # Bytes of the value as COPY has it: bytea is printed in two letters for a byte.
        sizes = [
            sql.SQL("coalesce({length}({column}), 0)::int8 * {times}").format(
                length=sql.SQL("octet_length" if row["exact"] else "pg_column_size"),
                column=sql.Identifier(name),
                times=sql.Literal(2 if row["hex"] and not spec.binary else 1),
            )
            for name, row in columns.items()
        ]
        statement = sql.SQL(
            "select s from (select array[{sizes}] as s from {table}{where}) t"
            " order by (select sum(v) from unnest(s) v) desc limit 1"
        ).format(
            sizes=sql.SQL(", ").join(sizes),
            table=spec.source_table.own(spec.source_tree),
            where=sql.SQL(" where " + where) if where else sql.SQL(""),
        )
        with reading(conn, spec.source_table, conditions=[where]):
            found = cursor.execute(statement).fetchone()
    if found is None:
        return None
    by_size = sorted(zip(found["s"], columns, strict=True), reverse=True)
    largest = [name for size, name in by_size if size >= LIMIT // 10][:5] or [by_size[0][1]]
    parts = ", ".join(f"{name} {size // 1_000_000} MB" for size, name in by_size[: len(largest)])
    return StateError(
        f"table {spec.name}: a row is larger than 1 GB, the limit of COPY: column"
        f" {', '.join(largest)}",
        detail=f"as {'binary' if spec.binary else 'text'}: {parts}",
        hint="make the value smaller on the source, the copy then continues automatically; or"
        " exclude the column, with the other options of its capture: londiste.create_capture(…,"
        f" '{{\"ignore={','.join(largest)}\"}}')"
        " on the root, and drop it on the target",
    )
