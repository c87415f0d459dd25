"""Checksums of both sides, compared chunk by chunk.

A piece of a side is known by its number of rows and two sums of 64-bit hashes of the rows' texts,
with different seeds, added up as numbers that do not overflow.  A row more, a row less and a row
twice change the number; another value changes its row's two hashes, and for both sums to stay the
same all hashes that changed have to add up to zero under both seeds: one chance in 2^128.  Nothing
cancels by its form, as equal rows do under XOR: twice the same row is twice its hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from londiste.compare.column_pairing import Pairing
from londiste.compare.pause_at_tick import Aligned
from londiste.engine.base import Engine
from londiste.engine.spec import Checksum, CompareSpec, Sums

#: Target size of a range, or of one task.
PIECE_BYTES = 32 << 20
#: Bytes that are read in one snapshot of the root: about a minute at 100 MB/s a side and core.
#: A table that cannot be split into ranges is read in one, whatever its size.
WAVE_BYTES = 8 << 30

ROOT = "root"
NODE = "node"


@dataclass(frozen=True)
class Piece:
    """One piece of a table, to be compared at one tick.

    number -- in the table's cut.
    bytes -- about; for the length of a snapshot only.
    root_pages, node_pages -- a whole table is read by several tasks, which have some blocks
        each; 0: by one.
    """

    table: Pairing
    number: int
    condition: str
    buckets: int
    bytes: int = 0
    root_pages: int = 0
    node_pages: int = 0


@dataclass(frozen=True)
class PieceResult:
    """Result of one chunk.

    differing -- buckets whose sums are not the same, with the larger number of their rows.
    moved -- invalid: DDL removed the rows before they were read.
    """

    piece: Piece
    rows_root: int
    rows_node: int
    differing: tuple[tuple[int, int], ...]
    moved: bool = False

    @property
    def equal(self) -> bool:
        """Both sides have the same rows."""
        return not self.moved and not self.differing


def waves(todo: Sequence[Piece], most: int = WAVE_BYTES) -> Iterator[list[Piece]]:
    """Pieces that are read in one snapshot, in their order; at least one in each."""
    wave: list[Piece] = []
    size = 0
    for piece in todo:
        if wave and size + piece.bytes > most:
            yield wave
            wave, size = [], 0
        wave.append(piece)
        size += piece.bytes
    if wave:
        yield wave


def differing(root: dict[int, Sums], node: dict[int, Sums]) -> tuple[tuple[int, int], ...]:
    """(bucket, rows of the side that has more) of the buckets that are not equal."""
    none = (0, 0, 0)
    return tuple(
        (bucket, max(root.get(bucket, none)[0], node.get(bucket, none)[0]))
        for bucket in sorted(root.keys() | node.keys())
        if root.get(bucket, none) != node.get(bucket, none)
    )


def compare(
    at: Aligned, pieces: Sequence[Piece], engine: Engine, parallel: int, *, count_only: bool = False
) -> Iterator[PieceResult]:
    """Checksums of all pieces on both sides; a piece's result comes when both are known."""
    asked: list[CompareSpec] = []
    left: list[dict[str, int]] = []
    for number, piece in enumerate(pieces):
        both = [
            list(specs(at, piece, number, root=root, count_only=count_only))
            for root in (True, False)
        ]
        left.append({ROOT: len(both[0]), NODE: len(both[1])})
        asked += both[0] + both[1]
    sums: list[dict[str, dict[int, Sums]]] = [{ROOT: {}, NODE: {}} for _ in pieces]
    moved = [False] * len(pieces)
    for found in engine.checksum(asked, parallel):
        number = found.number
        _add(sums[number][found.side], found)
        moved[number] = moved[number] or found.moved
        left[number][found.side] -= 1
        if not any(left[number].values()):
            there, here = sums[number][ROOT], sums[number][NODE]
            yield PieceResult(
                pieces[number], _rows(there), _rows(here), differing(there, here), moved[number]
            )


def specs(
    at: Aligned, piece: Piece, number: int, *, root: bool, count_only: bool = False
) -> Iterator[CompareSpec]:
    """The checksum tasks of one side of a chunk; their sums add up."""
    table = piece.table
    columns = () if count_only else table.root if root else table.node
    spec = CompareSpec(
        side=ROOT if root else NODE,
        dsn=at.root_dsn if root else at.node_dsn,
        table=table.pair.table if root else table.pair.dest,
        columns=columns,
        snapshot=at.root_snapshot if root else at.node_snapshot,
        where=table.root_where if root else table.node_where,
        number=number,
        condition=piece.condition,
        key=table.expressions(table.found_by, root=root),
        buckets=1 if count_only else piece.buckets,
        children=table.root_children if root else table.node_children,
        answer_seconds=at.answer_seconds,
        forms=() if count_only else table.forms,
    )
    yield from by_blocks(spec, piece.root_pages if root else piece.node_pages)


def by_blocks(spec: CompareSpec, pages: int) -> Iterator[CompareSpec]:
    """A whole table as tasks of some blocks each; their sums add up to those of the table."""
    count = max(1, min(pages * 8192 // PIECE_BYTES, 1000))
    bounds = [pages * n // count for n in range(1, count)]
    for lower, upper in zip([0, *bounds], [*bounds, 0], strict=True):
        parts = [f"ctid >= '({lower},0)'::tid"] if lower else []
        parts += [f"ctid < '({upper},0)'::tid"] if upper else []
        yield replace(spec, condition=" and ".join(parts)) if parts else spec


def _add(sums: dict[int, Sums], found: Checksum) -> None:
    for bucket, (rows, one, two) in found.buckets.items():
        before = sums.get(bucket, (0, 0, 0))
        sums[bucket] = (before[0] + rows, before[1] + one, before[2] + two)


def _rows(sums: dict[int, Sums]) -> int:
    return sum(rows for rows, _, _ in sums.values())
