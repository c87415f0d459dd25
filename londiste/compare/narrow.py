"""From a range that differs to the buckets of it that do, by one more pass of the servers.

A range has some hundred thousand rows.  Told apart into buckets by a hash of the key, the rows of
a few thousand have to come to the drill, and the servers work at both sides at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from londiste.compare.checksum import Piece, PieceResult, compare
from londiste.compare.chunks import BUCKET_ROWS, buckets
from londiste.compare.pause_at_tick import Aligned
from londiste.engine.base import Engine


def nearer(
    at: Aligned, results: Sequence[PieceResult], engine: Engine, parallel: int
) -> list[PieceResult]:
    """The results in their order; those of ranges that differ and are large say in which buckets.

    One may be moved: DDL took the rows away since.
    """
    inner = {number: _inner(result) for number, result in enumerate(results) if _wide(result)}
    asked = [replace(piece, number=number) for number, piece in inner.items()]
    found = {r.piece.number: r for r in compare(at, asked, engine, parallel)}
    return [
        replace(found[number], piece=inner[number]) if number in found else result
        for number, result in enumerate(results)
    ]


def _wide(result: PieceResult) -> bool:
    """Whether a piece differs and is a range of more rows than a bucket has."""
    piece = result.piece
    return (
        bool(result.differing)
        and piece.buckets == 1
        and not piece.table.masked
        and max(result.rows_root, result.rows_node) > 2 * BUCKET_ROWS
    )


def _inner(result: PieceResult) -> Piece:
    return replace(result.piece, buckets=buckets(max(result.rows_root, result.rows_node)))
