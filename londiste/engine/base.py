"""Engine protocol; tests/engine runs the same suite on each engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from londiste.engine.spec import (
    Checksum,
    ChunkDone,
    CompareSpec,
    CopySpec,
    GroupSpec,
    MemberDone,
)

#: The beginning of a step that is shown for a moment, and is no reason to wait.
READY = "Spark ready"

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Runs tasks, on processes and machines of its choice."""

    name: str

    def run(self, task: Callable[[T], R], items: Sequence[T], parallel: int) -> Iterator[R]:
        """Results of ``task(item)``, as they become ready, at most ``parallel`` at a time.

        Task and items must pickle.  A task may run twice; the first failure that repeats is
        raised as a LondisteError and the remaining tasks are cancelled.
        """
        ...

    def copy(self, spec: CopySpec, parallel: int) -> Iterator[ChunkDone]:
        """Copies the chunks of a table; each chunk commits with its done-mark on the target."""
        ...

    def copy_group(self, shares: Sequence[GroupSpec], parallel: int) -> Iterator[list[MemberDone]]:
        """Copies small tables, one task for each share; a table commits with its done-mark.

        An error of one table is its result, and the others continue.
        """
        ...

    def checksum(self, specs: Sequence[CompareSpec], parallel: int) -> Iterator[Checksum]:
        """Checksums of tables, both sides at once."""
        ...

    def starting(self) -> str:
        """The step of its start, for messages; '' when there is none to report."""
        ...

    def close(self) -> None:
        """Stops what the engine started (a Spark session, worker processes)."""
        ...
