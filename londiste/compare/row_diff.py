"""Row diff of a differing chunk: finds the keys of its differing rows.

Both servers send the keys and the hashes of the chunk's rows, in passes that fit into memory;
keys with different hashes are suspects.  Suspects are checked again at a later tick before they
are reported (``recheck.py``).
"""

# ruff: noqa: S608 - every name passes through quote(), every value through literal(), every type comes
# from format_type(), conditions are those of the user or made in pieces.py.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from londiste.compare.checksum import Piece, PieceResult, compare
from londiste.compare.chunks import BUCKET_ROWS, buckets
from londiste.compare.column_pairing import Pairing
from londiste.compare.diff import Row, suspects
from londiste.compare.pause_at_tick import Aligned
from londiste.compare.row_text import fields, lines, transformed_sides
from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.sessions.view_guard import refuse_views
from londiste.engine.base import Engine
from londiste.engine.row_hash import SEEDS, key_hash, row_text
from londiste.engine.tasks import snapshot_session

#: Rows of a side that are in memory at a time.
PASS_ROWS = 400_000
#: Rows with masked columns, which come whole.
MASKED_ROWS = 50_000


def narrow(
    at: Aligned, results: Sequence[PieceResult], engine: Engine, parallel: int
) -> list[PieceResult]:
    """The results in their order; large ranges that differ are split into buckets by another pass.

    A range has some hundred thousand rows; only those of differing buckets come to the drill.  A
    result may be moved: DDL removed its rows in between.
    """
    inner = {number: _inner(result) for number, result in enumerate(results) if _is_wide(result)}
    asked = [replace(piece, number=number) for number, piece in inner.items()]
    found = {r.piece.number: r for r in compare(at, asked, engine, parallel)}
    return [
        replace(found[number], piece=inner[number]) if number in found else result
        for number, result in enumerate(results)
    ]


def _is_wide(result: PieceResult) -> bool:
    """Whether a chunk differs and is a range of more rows than a bucket has."""
    piece = result.piece
    return (
        bool(result.differing)
        and piece.buckets == 1
        and not piece.table.masked
        and max(result.rows_root, result.rows_node) > 2 * BUCKET_ROWS
    )


def _inner(result: PieceResult) -> Piece:
    return replace(result.piece, buckets=buckets(max(result.rows_root, result.rows_node)))


@dataclass(frozen=True)
class Drill:
    """Input of one task.

    at -- the snapshots of both sides.
    among -- buckets of the piece; none: all rows of it.
    rows -- estimate, of the side that has more.
    limit -- maximum number of suspects.
    extra -- also rows that the node alone has.
    """

    at: Aligned
    piece: Piece
    among: tuple[int, ...]
    rows: int
    limit: int
    extra: bool = True

    def __str__(self) -> str:
        return f"rows of {self.piece.table.name} that differ"


@dataclass(frozen=True)
class Suspect:
    """A key whose rows differed.

    values -- of the key's columns, as texts.
    hash -- of its text, by which a row is found where no index helps.
    """

    values: Row
    hash: int


@dataclass(frozen=True)
class Drilled:
    """Result of one task.

    more -- it stopped at the limit.
    moved -- invalid: DDL removed the rows.
    """

    table: str
    suspects: tuple[Suspect, ...]
    more: bool = False
    moved: bool = False


def drill(task: Drill) -> Drilled:
    """Reads the keys and hashes of both sides.  Opens its own sessions; may run twice."""
    at, name = task.at, f"londiste compare {task.piece.table.name}"
    limit = at.answer_seconds
    with snapshot_session(at.root_dsn, at.root_snapshot, name, answer_seconds=limit) as root:
        with snapshot_session(at.node_dsn, at.node_snapshot, name, answer_seconds=limit) as node:
            return drill_between(root, node, task)


def drill_between(root: Connection, node: Connection, task: Drill) -> Drilled:
    """Runs ``drill`` in the transactions of two sessions."""
    table = task.piece.table
    refuse_views(root, table.pair.table, conditions=[table.root_where])
    refuse_views(node, table.pair.dest, conditions=[table.node_where])
    found: list[Suspect] = []
    more = False
    for condition in _passes(task, (root, node)):
        if table.masked:
            sides = transformed_sides(root, node, table, condition)
        else:
            sides = (
                _digests(root, task.at.root_dsn, table, condition, root=True),
                _digests(node, task.at.node_dsn, table, condition, root=False),
            )
        keys = suspects(*sides, extra=task.extra)
        room = task.limit - len(found)
        found += [_suspect(line) for line in keys[:room]]
        if len(keys) > room:
            more = True
            break
    moved = catalog.moved(root, table.pair.table) or catalog.moved(node, table.pair.dest)
    return Drilled(table.name, tuple(found), more, moved)


def _passes(task: Drill, sides: tuple[Connection, Connection]) -> Iterator[tuple[str, str]]:
    """Conditions of each side that divide the rows of the task."""
    most = MASKED_ROWS if task.piece.table.masked else PASS_ROWS
    count = -(-task.rows // most) or 1
    for number in range(count):
        both = []
        for root, conn in ((True, sides[0]), (False, sides[1])):
            key = key_hash(conn, task.piece.table.expressions(task.piece.table.found_by, root=root))
            where = task.piece.table.root_where if root else task.piece.table.node_where
            parts = [part for part in (task.piece.condition, where) if part]
            if task.among:
                among = ", ".join(map(str, task.among))
                parts.append(f"({key} & {task.piece.buckets - 1}) in ({among})")
            if count > 1:
                # Other bits than those that make the buckets.
                parts.append(f"(({key} >> 20) & 1048575) % {count} = {number}")
            both.append(" and ".join(f"({part})" for part in parts))
        yield both[0], both[1]


def _digests(
    conn: Connection, dsn: str, table: Pairing, condition: tuple[str, str], *, root: bool
) -> dict[bytes, list[bytes]]:
    """The hashes of the rows of each key of a side; keys as their fields in COPY's text format."""
    key = table.expressions(table.found_by, root=root)
    columns = table.root if root else table.node
    inner = (
        f"select {', '.join(f'{part} as k{n}' for n, part in enumerate(key))},"
        f" {key_hash(conn, key)} as h, {row_text(conn, columns, table.forms)} as r"
        f" {table.source(root=root)}"
    )
    where = condition[0] if root else condition[1]
    statement = (
        f"copy (select {', '.join(f'k{n}' for n in range(len(key)))}, h,"
        f" hashtextextended(r, {SEEDS[0]}), hashtextextended(r, {SEEDS[1]})"
        f" from ({inner}{f' where {where}' if where else ''} offset 0) s) to stdout"
    )
    found: dict[bytes, list[bytes]] = {}
    for line in lines(conn, dsn, statement):
        which, one, two = line.rsplit(b"\t", 2)
        found.setdefault(which, []).append(one + b"\t" + two)
    return found


def _suspect(line: bytes) -> Suspect:
    *values, hashed = fields(line)
    assert hashed is not None
    return Suspect(tuple(values), int(hashed))
