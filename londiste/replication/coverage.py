"""Coverage of a node's tables by the audit, ``compare --continuous``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from londiste.db.connection import Connection
from londiste.db.queries import records
from londiste.errors import LondisteError
from londiste.replication.model import ReplicatedTable


@dataclass(frozen=True)
class TableCoverage:
    """What the audit has compared of one table.

    recent, recent_rows -- ranges compared in the last 24 hours, and their rows.
    rows -- of all ranges, partly estimated; None: nothing is known about them.
    oldest -- time of the oldest comparison.
    """

    table_name: str
    ranges: int
    compared: int
    recent: int
    rows: int | None
    recent_rows: int
    differing: int
    oldest: datetime | None


@dataclass(frozen=True)
class Audited:
    """Coverage of the tables of a node by the audit, in the last 24 hours.

    verified -- fraction of rows that were compared, 0 to 1; it is 1 only if all were.
    tables -- tables that can be compared.  complete -- those of which all rows were compared.
    differing -- rows that differ from the root's.
    oldest -- since when every row has been compared; None: not every one has been.
    """

    verified: float
    tables: int
    complete: int
    differing: int
    oldest: datetime | None

    def __str__(self) -> str:
        text = (
            f"{math.floor(100 * self.verified)} % of rows verified in the last 24 h,"
            f" {self.complete} of {self.tables} tables"
        )
        return f"{text}; {self.differing:,} rows differ" if self.differing else text


def read(conn: Connection, queue: str) -> list[TableCoverage]:
    """The coverage by table; empty if no audit has run.  Raises InstallError on older schemas."""
    return records(conn, TableCoverage, "audit_coverage", queue=queue)


def comparable(table: ReplicatedTable) -> bool:
    """Whether the node has rows of this table that can be compared with the root's."""
    return table.local and table.wants.stored and not table.wants.incomparable


def of_node(conn: Connection, queue: str, known: Sequence[ReplicatedTable]) -> list[TableCoverage]:
    """The coverage of its tables that can be compared; empty with older schemas or no right."""
    names = {str(table.name) for table in known if comparable(table)}
    try:
        return [one for one in read(conn, queue) if one.table_name in names]
    except LondisteError:
        return []


def summed(found: Sequence[TableCoverage]) -> Audited:
    """Pure: the coverage of several tables together."""
    complete = [one for one in found if one.ranges and one.recent == one.ranges]
    sizes = [one.rows for one in found if one.rows is not None]
    rows = sum(sizes)
    recent = sum(one.recent_rows for one in found)
    if len(complete) == len(found):
        verified = 1.0
    else:
        # Rows are partly estimated: what is not complete is never shown as complete.
        # A table of unknown size counts as much as the others do in the mean.
        known = recent / rows * len(sizes) / len(found) if rows else 0.0
        verified = min(math.floor(10_000 * known) / 10_000, 0.9999)
    seen = [one.oldest for one in found if one.ranges and one.compared == one.ranges]
    oldest = min((at for at in seen if at is not None), default=None)
    return Audited(
        verified,
        len(found),
        len(complete),
        sum(one.differing for one in found),
        oldest if len(seen) == len(found) else None,
    )
