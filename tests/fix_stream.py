"""A session of Spark that knows our source, and a queue with tables to stream from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import londiste.spark
from londiste.engine.spark import session
from londiste.pgq import batches, queues
from tests.fix_cluster import Database
from tests.fix_spark import run_query


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of two cores in this process, which tests share."""
    made = session.get({"spark.master": "local[2,2]", "spark.sql.shuffle.partitions": "1"})
    londiste.spark.register(made)
    yield made
    session.stop()


@dataclass
class Stream:
    """A database with a queue ``q``, and a query of Spark that reads it.

    seen -- what the query has written, by the number of the micro-batch.
    fail_in -- the micro-batch in which the sink fails.
    """

    spark: Any
    database: Database
    directory: Path
    seen: dict[int, list[Any]] = field(default_factory=dict)
    fail_in: int | None = None

    def __post_init__(self) -> None:
        self.conn = self.database.connect()
        queues.create_queue(self.conn, "q")

    def table(self, columns: str = "id int primary key, v text", name: str = "t") -> None:
        """Makes a table and captures it."""
        self.database.execute(f"create table {name} ({columns})")
        self.database.execute(f"select londiste.create_capture('q', '{name}')")

    def write(self, *statements: str) -> int:
        """Each statement a transaction, then a tick; its id."""
        for statement in statements:
            self.database.execute(statement)
        return self.tick()

    def tick(self) -> int:
        """A tick of now."""
        queues.force_tick(self.conn, "q")
        made = queues.ticker(self.conn, "q")
        assert made is not None
        return made

    def options(self, **more: Any) -> dict[str, Any]:
        """Those of a stream in JSON."""
        return {
            "dsn": self.database.dsn,
            "queue": "q",
            "consumer": "lake",
            "payload": "json",
            "startingOffsets": "earliest",
            **more,
        }

    def load(self, **more: Any) -> Any:
        """The DataFrame of a stream; an option that is None is left out."""
        options = {k: v for k, v in self.options(**more).items() if v is not None}
        return self.spark.readStream.format("pgq").options(**options).load()

    def read(self, **more: Any) -> Any:
        """The DataFrame of a batch."""
        given = {"consumer": None, "startingOffsets": None, **more}
        options = {k: v for k, v in self.options(**given).items() if v is not None}
        return self.spark.read.format("pgq").options(**options).load()

    def run(self, checkpoint: str = "c", **more: Any) -> list[Any]:
        """A query that ends when it has come to the newest tick; the rows of this run."""
        got: list[Any] = []

        def take(frame: Any, number: int) -> None:
            rows = frame.collect()
            self.seen[number] = rows
            if number == self.fail_in:
                raise RuntimeError("the sink has failed")
            got.extend(rows)

        query = (
            self.load(**more)
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.directory / checkpoint))
            .trigger(availableNow=True)
        )
        run_query(query.start, 120)
        return got

    def position(self) -> int | None:
        """Where the consumer of the query stands."""
        (found,) = queues.get_consumer_info(self.conn, "q", "lake")
        return found.last_tick

    def forget(self) -> None:
        """The consumer is gone."""
        batches.unregister_consumer(self.conn, "q", "lake")


def told(rows: list[Any]) -> list[tuple[str, str]]:
    """Kind and row of each change, in their order."""
    ordered = sorted(rows, key=lambda r: (r["_commit_version"], r["_event_id"], r["_row"]))
    return [(r["_change_type"], r["row"]) for r in ordered]
