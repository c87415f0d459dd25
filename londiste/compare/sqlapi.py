"""SQL functions of comparisons: stored ranges and results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from psycopg.types.json import Jsonb

from londiste.compare.column_pairing import Pairing
from londiste.db import call
from londiste.db.connection import Connection

COMPARE, AUDIT = "compare", "audit"

#: A table and its ranges: their conditions and numbers of buckets.
Begun: TypeAlias = tuple[Pairing, Sequence[tuple[str, int]]]


@dataclass(frozen=True)
class ComparedRange:
    """A range of a table; ``checked_at`` None: not compared yet.

    rows -- of the root.
    differs, findings -- rows that differed and, of the first of them, kind and key.
    """

    table_name: str
    number: int
    signature: str
    condition: str
    buckets: int
    begun_at: datetime
    checked_tick: int | None
    checked_at: datetime | None
    rows: int | None
    differs: int | None
    findings: list[dict[str, Any]] | None


def signature(table: Pairing) -> str:
    """A text that changes when something else is compared."""
    parts = [
        str(table.pair.dest),
        *table.root,
        *table.node,
        *table.types,
        "key",
        *table.key,
        table.root_where,
        table.node_where,
        *sorted(table.masked),
        # What was equal without such a column is not known to be equal.
        *(("lacking", *table.lacking) if table.lacking else ()),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def compare_begin(conn: Connection, queue: str, job: str, begun: Sequence[Begun]) -> None:
    """Remembers that these ranges of tables are to be compared, in one round trip."""
    call.together(
        conn,
        *(
            (
                "londiste.compare_begin",
                queue,
                job,
                table.name,
                signature(table),
                [condition for condition, _ in cut],
                [buckets for _, buckets in cut],
            )
            for table, cut in begun
        ),
    )


def compare_done(
    conn: Connection,
    queue: str,
    job: str,
    table: str,
    number: int,
    *,
    tick: int,
    rows: int,
    differs: int,
    findings: Sequence[dict[str, Any]] = (),
) -> bool:
    """Stores a range's result; False when the table was split again since."""
    return bool(
        call.value(
            conn,
            "londiste.compare_done",
            queue,
            job,
            table,
            number,
            tick,
            rows,
            differs,
            Jsonb(list(findings)) if findings else None,
        )
    )


def compare_failed(conn: Connection, queue: str, one: ComparedRange) -> None:
    """Stores that a range of the audit cannot be compared; its known differences stay known."""
    call.value(
        conn,
        "londiste.compare_done",
        queue,
        AUDIT,
        one.table_name,
        one.number,
        None,
        None,
        one.differs,
        Jsonb(one.findings) if one.findings else None,
    )


def compare_ranges(conn: Connection, queue: str, job: str) -> list[ComparedRange]:
    """All ranges of a job, by table and number."""
    return call.records(conn, ComparedRange, "londiste.compare_ranges", queue, job)


def compare_forget(conn: Connection, queue: str, job: str, tables: Sequence[str]) -> None:
    """Forgets the ranges of tables, in one round trip."""
    call.together(conn, *(("londiste.compare_forget", queue, job, table) for table in tables))


def repair_lock(conn: Connection, queue: str, consumer: str) -> int:
    """The worker's tick, where it stays until the transaction ends.  Raises UnknownConsumer."""
    return int(call.value(conn, "londiste.repair_lock", queue, consumer))
