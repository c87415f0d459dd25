"""Spark engine; the session starts with the first job.

Chunks, shares and checksums are the tasks of a job.  Nothing of a row passes through the JVM: it
sees the number of a task go out and its counts come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from londiste.engine import group_task, tasks
from londiste.engine.spark import jobs, session
from londiste.engine.spec import (
    Checksum,
    ChunkDone,
    CompareSpec,
    CopySpec,
    GroupSpec,
    MemberDone,
)

T = TypeVar("T")
R = TypeVar("R")


class SparkEngine:
    """See ``engine.base.Engine``.  Safe to use from several threads at once."""

    name = "spark"

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)

    @property
    def is_here(self) -> bool:
        """Whether its tasks run on this host."""
        return session.is_local(self._settings)

    def run(self, task: Callable[[T], R], items: Sequence[T], parallel: int) -> Iterator[R]:
        if items:
            yield from jobs.run(session.carrier(self._settings), task, items, parallel)

    def copy(self, spec: CopySpec, parallel: int) -> Iterator[ChunkDone]:
        # The results come when the job has ended; done-marks show earlier.
        yield from self.run(tasks.copy_chunk, tasks.chunk_tasks(spec), parallel)

    def copy_group(self, shares: Sequence[GroupSpec], parallel: int) -> Iterator[list[MemberDone]]:
        yield from self.run(group_task.copy_members, shares, parallel)

    def checksum(self, specs: Sequence[CompareSpec], parallel: int) -> Iterator[Checksum]:
        yield from self.run(tasks.checksum, specs, parallel)

    def start(self) -> None:
        """Starts the session, which the first job would do.  Raises what ``session`` raises."""
        session.carrier(self._settings)

    def ready(self) -> bool:
        """Whether a job would begin at once."""
        return session.is_ready()

    def starting(self) -> str:
        return session.news()

    def close(self) -> None:
        session.stop()
