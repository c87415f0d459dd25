"""How far the copies of a node are: rows, bytes, and the time that is left.

What finished chunks have moved is in the tables of the copy; what is in flight the server
knows (pg_stat_progress_copy).  So any process can look, on any engine.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg.rows import dict_row

from londiste.copy.attempts import Attempt, copy_progress
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.errors import from_database
from londiste.replication import tables

#: Bytes of the text of a row for a byte of it on disk, until the first chunk tells.
_TEXT_PER_DISK = 0.75


@dataclass(frozen=True)
class Progress:
    """One copy that runs.

    rows, bytes -- moved, those in flight included.
    total_bytes -- estimate of the bytes to move; better once a chunk is finished.
    total_rows -- estimate of the source's statistics, 0 when unknown.
    seconds -- since the copy began; eta -- seconds left, None when it cannot be told.
    """

    table: str
    rows: int
    bytes: int
    total_bytes: int
    total_rows: int
    chunks: int
    total_chunks: int
    seconds: float
    eta: float | None

    @property
    def fraction(self) -> float:
        """0 to 1."""
        return min(1.0, self.bytes / self.total_bytes) if self.total_bytes else 0.0


def read(conn: Connection, queue: str) -> list[Progress]:
    """The copies that run into this node's tables."""
    running = copy_progress(conn, queue)
    if not running:
        return []
    dests = {str(t.name): t.dest for t in tables.get_table_list(conn, queue)}
    flying = _in_flight(conn)
    return [
        progress(attempt, *flying.get(dests.get(attempt.table, TableName("", "")), (0, 0)))
        for attempt in running
    ]


def progress(attempt: Attempt, rows_flying: int, bytes_flying: int) -> Progress:
    """Joins what is done with what is in flight, and estimates the rest."""
    moved = attempt.bytes + bytes_flying
    if attempt.chunks:
        total = attempt.bytes * attempt.total_chunks // attempt.chunks
    else:
        total = int(attempt.total_bytes * _TEXT_PER_DISK)
    total = max(total, moved)
    left = None
    if moved and attempt.seconds > 0:
        left = (total - moved) * attempt.seconds / moved
    return Progress(
        table=attempt.table,
        rows=attempt.rows + rows_flying,
        bytes=moved,
        total_bytes=total,
        total_rows=attempt.total_rows,
        chunks=attempt.chunks,
        total_chunks=attempt.total_chunks,
        seconds=attempt.seconds,
        eta=left,
    )


def _in_flight(conn: Connection) -> dict[TableName, tuple[int, int]]:
    try:
        with conn.cursor(row_factory=dict_row) as cursor:
            cursor.execute(query("copy_in_flight"))
            return {
                TableName(row["schema"], row["name"]): (row["rows"], row["bytes"])
                for row in cursor.fetchall()
            }
    except psycopg.Error as error:
        raise from_database(error) from error


def line(item: Progress) -> str:
    """One copy in one line, for logs."""
    left = "" if item.eta is None else f", about {item.eta:.0f} s left"
    return (
        f"{item.table}: {item.rows} rows, {item.bytes / 1e6:.1f} of about"
        f" {item.total_bytes / 1e6:.1f} MB, {item.fraction:.0%}{left}"
    )
