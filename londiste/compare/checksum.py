"""Compares replicated tables with the root's at one tick: rows, and an order-free checksum."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from londiste.compare.align import Aligned
from londiste.db import catalog
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.engine.base import Engine
from londiste.engine.spec import Checksum, CompareSpec
from londiste.errors import UnknownTable
from londiste.handlers.base import ALL, Wants

log = logging.getLogger(__name__)

ROOT = "root"
NODE = "node"


@dataclass(frozen=True)
class TablePair:
    """A replicated table: its name on the root, where its rows are here, and which they are."""

    table: TableName
    dest: TableName
    wants: Wants = ALL


@dataclass(frozen=True)
class TableResult:
    """What a comparison found out about one table."""

    table: str
    root: Checksum
    node: Checksum
    skipped_columns: tuple[str, ...]

    @property
    def moved(self) -> bool:
        """Nothing was found out: a side was truncated or rewritten before it was read."""
        return self.root.moved or self.node.moved

    @property
    def equal(self) -> bool:
        """Same number of rows, and both sums the same."""
        left = (self.root.rows, self.root.sum1, self.root.sum2)
        return left == (self.node.rows, self.node.sum1, self.node.sum2)


def shared_columns(
    root: Sequence[catalog.Column], node: Sequence[catalog.Column], wants: Wants = ALL
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(columns both sides store, in the root's order; columns only one side has).

    Generated columns are computed by each side for itself and are left out, and so are those that
    this node does not want, or changes.
    """
    here = {c.name for c in node if not c.generated and wants.comparable(c.name)}
    there = [c.name for c in root if not c.generated and wants.comparable(c.name)]
    both = tuple(name for name in there if name in here)
    return both, tuple(sorted(here.symmetric_difference(there)))


def specs(
    at: Aligned, pairs: Sequence[TablePair]
) -> tuple[list[CompareSpec], dict[str, tuple[str, ...]]]:
    """Two specs per table, and per table the columns that cannot be compared.

    Raises UnknownTable when a table does not exist on one of the sides.
    """
    result: list[CompareSpec] = []
    skipped: dict[str, tuple[str, ...]] = {}
    with session(at.root_dsn, name="londiste compare") as root:
        with session(at.node_dsn, name="londiste compare") as node:
            for pair in pairs:
                names, left_out = shared_columns(
                    _columns(root, pair.table, "on the root"),
                    _columns(node, pair.dest, "here"),
                    pair.wants,
                )
                skipped[str(pair.table)] = left_out
                if left_out:
                    log.warning(
                        "%s: columns on one side only are not compared: %s",
                        pair.table,
                        ", ".join(left_out),
                    )
                # A row here that the condition is not true for is one too many.
                where = pair.wants.where
                result.append(
                    CompareSpec(ROOT, at.root_dsn, pair.table, names, at.root_snapshot, where)
                )
                result.append(CompareSpec(NODE, at.node_dsn, pair.dest, names, at.node_snapshot))
    return result, skipped


def compare(
    at: Aligned,
    pairs: Sequence[TablePair],
    engine: Engine,
    parallel: int,
    done: Callable[[TableResult], None],
) -> list[TableResult]:
    """Fingerprints every table on both sides; ``done`` is called as each becomes known.

    Results that are ``moved`` are none: those tables have to be compared at another tick.
    """
    wanted, skipped = specs(at, pairs)
    name_of_dest = {pair.dest: pair.table for pair in pairs}
    half: dict[TableName, dict[str, Checksum]] = {}
    found: dict[TableName, TableResult] = {}
    for checksum in engine.checksum(wanted, parallel):
        table = name_of_dest[checksum.table] if checksum.side == NODE else checksum.table
        sides = half.setdefault(table, {})
        sides[checksum.side] = checksum
        if len(sides) == 2:
            result = TableResult(str(table), sides[ROOT], sides[NODE], skipped[str(table)])
            found[table] = result
            if not result.moved:
                done(result)
    return [found[pair.table] for pair in pairs]


def _columns(conn: Connection, table: TableName, where: str) -> Sequence[catalog.Column]:
    columns = catalog.columns(conn, table)
    if not columns:
        raise UnknownTable(
            f"table {table} does not exist {where}", hint=f"londiste remove-table {table}"
        )
    return columns
