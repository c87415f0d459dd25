"""Which of two engines copies a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from londiste.db.names import TableName
from londiste.engine.size_router import BySize
from londiste.engine.spec import Chunk, ChunkDone, CopySpec

TABLE = TableName("public", "t")


class Recorder:
    """Takes the place of an engine that would need servers; only the choice is tested here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.copied: list[CopySpec] = []
        self.closed = False

    def copy(self, spec: CopySpec, parallel: int) -> Iterator[ChunkDone]:
        self.copied.append(spec)
        return iter(())

    def close(self) -> None:
        self.closed = True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def spec(*sizes: int) -> CopySpec:
    return CopySpec(
        queue="q",
        source="",
        target="",
        source_table=TABLE,
        target_table=TABLE,
        columns=(),
        chunks=tuple(Chunk(TABLE, n, "", size, 0) for n, size in enumerate(sizes)),
        snapshot="",
        attempt=1,
    )


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [((), "local"), ((99,), "local"), ((50, 49), "local"), ((50, 50), "spark"), ((100,), "spark")],
)
def test_the_size_of_all_chunks_decides(sizes: tuple[int, ...], chosen: str) -> None:
    engines = {name: Recorder(name) for name in ("local", "spark")}
    both = BySize(engines["local"], engines["spark"], 100)
    list(both.copy(spec(*sizes), 2))
    assert [name for name, engine in engines.items() if engine.copied] == [chosen]
    both.close()
    assert all(engine.closed for engine in engines.values())
