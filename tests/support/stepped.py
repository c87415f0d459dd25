"""An engine that copies one chunk after the other, and lets the test act in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from londiste.engine.base import R, T
from londiste.engine.spec import Checksum, ChunkDone, CompareSpec, CopySpec
from londiste.engine.tasks import chunk_tasks, copy_chunk


class Stepped:
    """Runs the tasks of a copy in this process.

    between -- called with the number of chunks that are done and of those that are left, before the
        first chunk, after each, and after the last.
    """

    name = "stepped"

    def __init__(self, between: Callable[[int, int], None]) -> None:
        self.between = between
        self.specs: list[CopySpec] = []

    def run(self, task: Callable[[T], R], items: Sequence[T], parallel: int) -> Iterator[R]:
        """One after the other."""
        return map(task, items)

    def copy(self, spec: CopySpec, parallel: int) -> Iterator[ChunkDone]:
        """One chunk after the other, with the test in between."""
        self.specs.append(spec)
        tasks = chunk_tasks(spec)
        self.between(0, len(tasks))
        for number, task in enumerate(tasks, 1):
            yield copy_chunk(task)
            self.between(number, len(tasks) - number)

    def checksum(self, specs: Sequence[CompareSpec], parallel: int) -> Iterator[Checksum]:
        """Not of interest here."""
        raise NotImplementedError

    def starting(self) -> str:
        """Nothing has to be started."""
        return ""

    def close(self) -> None:
        """Nothing was started."""
