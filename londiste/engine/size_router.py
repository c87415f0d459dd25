"""Engine choice by table size: small tables run locally, large ones on the cluster.

A Spark session takes seconds to start and every job a tenth of one; a small table is copied in
less.  So no session is started before a table is large enough to gain from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from londiste.engine.base import Engine, R, T
from londiste.engine.spec import (
    Checksum,
    ChunkDone,
    CompareSpec,
    CopySpec,
    GroupSpec,
    MemberDone,
)


class BySize:
    """An engine that gives each copy to one of two.

    threshold -- bytes of a table from which ``large`` copies it.
    """

    name: str

    def __init__(self, small: Engine, large: Engine, threshold: int) -> None:
        self.name = large.name
        self._small = small
        self._large = large
        self._threshold = threshold

    def run(self, task: Callable[[T], R], items: Sequence[T], parallel: int) -> Iterator[R]:
        """On ``large``: the work of a task is unknown."""
        return self._large.run(task, items, parallel)

    def copy(self, spec: CopySpec, parallel: int) -> Iterator[ChunkDone]:
        """By the size of all chunks together."""
        size = sum(chunk.bytes for chunk in spec.chunks)
        carrier = self._small if size < self._threshold else self._large
        return carrier.copy(spec, parallel)

    def copy_group(self, shares: Sequence[GroupSpec], parallel: int) -> Iterator[list[MemberDone]]:
        """By the size of all tables together."""
        size = sum(member.bytes for share in shares for member in share.members)
        carrier = self._small if size < self._threshold else self._large
        return carrier.copy_group(shares, parallel)

    def checksum(self, specs: Sequence[CompareSpec], parallel: int) -> Iterator[Checksum]:
        """On ``large``; who compares knows the sizes and chooses."""
        return self._large.checksum(specs, parallel)

    def starting(self) -> str:
        """The small one is ready at once."""
        return self._large.starting()

    def close(self) -> None:
        """Both."""
        self._small.close()
        self._large.close()
