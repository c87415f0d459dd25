"""The engines, and a pair of databases with a table to copy between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from londiste import engine
from londiste.copy.chunking.blocks import split
from londiste.copy.sqlapi import attempts
from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.engine.base import Engine
from londiste.engine.row_hash import form_of
from londiste.engine.spec import CompareSpec, CopySpec
from tests.fixtures.cluster import Database
from tests.fixtures.lake import Lake
from tests.fixtures.stream import Stream

QUEUE = "q"


@pytest.fixture(scope="session")
def local_engine() -> Iterator[Engine]:
    made = engine.create("local")
    yield made
    made.close()


@pytest.fixture(scope="session")
def spark_engine() -> Iterator[Engine]:
    made = engine.create("spark", {"spark.master": "local[2]"})
    yield made
    made.close()


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def carrier(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn; a session of Spark is shared by all tests."""
    made = request.getfixturevalue(f"{request.param}_engine")
    assert isinstance(made, object)
    return made  # type: ignore[no-any-return]


#: For a test whose work a job of Spark shares with the local engine but for its transport.
LOCAL_FIRST = pytest.mark.parametrize(
    "carrier",
    ["local", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.spark])],
    indirect=True,
)


@dataclass
class Pair:
    """A source and a target database, and what a copy process does around an engine."""

    source: Database
    target: Database
    holders: list[Connection] = field(default_factory=list)

    def snapshot(self, database: Database | None = None) -> str:
        """Exports a snapshot of the source that lives as long as the test."""
        conn = (database or self.source).connect()
        conn.execute("begin isolation level repeatable read")
        row = conn.execute("select pg_export_snapshot()").fetchone()
        assert row is not None
        self.holders.append(conn)
        return str(row[0])

    def spec(
        self,
        table: TableName,
        *,
        chunk_bytes: int = 1 << 27,
        attempt: int | None = None,
        **more: Any,
    ) -> CopySpec:
        """A copy of a table that both sides have, in a new attempt."""
        with self.source.connect() as source, self.target.connect() as target:
            info = catalog.require(source, table)
            columns = tuple(
                (c.name, c.name) for c in catalog.columns(target, table) if not c.generated
            )
            chunks = split(
                table, pages=info.pages, total_bytes=info.total_bytes, chunk_bytes=chunk_bytes
            )
            if attempt is None:
                attempt = attempts.copy_start(target, QUEUE, table)
        spec = CopySpec(
            queue=QUEUE,
            source=self.source.dsn,
            target=self.target.dsn,
            source_table=table,
            target_table=table,
            columns=columns,
            chunks=chunks,
            snapshot="",
            attempt=attempt,
            filenode=info.filenode,
        )
        return replace(spec, **{"snapshot": more.pop("snapshot", None) or self.snapshot(), **more})

    def compare(self, side: str, table: TableName) -> CompareSpec:
        """The checksum of a table as it is now."""
        database = self.source if side == "source" else self.target
        with database.connect() as conn:
            known = catalog.columns(conn, table)
        return CompareSpec(
            side,
            database.dsn,
            table,
            tuple(f'"{c.name}"' for c in known),
            self.snapshot(database),
            forms=tuple(form_of(c.read_as) for c in known),
        )

    def both(self, statement: str) -> None:
        """Runs statements on both sides."""
        self.source.execute(statement)
        self.target.execute(statement)


@pytest.fixture
def pair(new_database: Callable[..., Database]) -> Pair:
    """Two databases; the target has our SQL."""
    return Pair(new_database(), new_database(pgq=True))


@pytest.fixture
def lake(spark: Any, new_database: Callable[..., Database], tmp_path: Path) -> Lake:
    stream = Stream(spark, new_database(pgq=True), tmp_path)
    return Lake(stream, tmp_path / "lake", {})
