"""Spark engine; the session starts with the first job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from londiste.engine import group_task
from londiste.engine.spark import compare, copy, jobs, session
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

    def run(self, task: Callable[[T], R], items: Sequence[T], parallel: int) -> Iterator[R]:
        if items:
            yield from jobs.run(session.get(self._settings), task, items, parallel)

    def copy(self, spec: CopySpec, parallel: int) -> Iterator[ChunkDone]:
        if spec.chunks:
            yield from copy.copy(session.get(self._settings), spec, parallel)

    def copy_group(self, shares: Sequence[GroupSpec], parallel: int) -> Iterator[list[MemberDone]]:
        if shares:
            yield from jobs.run(
                session.get(self._settings), group_task.copy_members, shares, parallel
            )

    def checksum(self, specs: Sequence[CompareSpec], parallel: int) -> Iterator[Checksum]:
        if specs:
            yield from compare.checksum(session.get(self._settings), specs, parallel)

    def close(self) -> None:
        session.stop()
