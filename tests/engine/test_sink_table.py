"""A stream is merged into tables: each epoch once, whatever is killed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.sinks import SINK_POINTS, Sink
from tests.fixtures.spark import run_query
from tests.fixtures.stream import Stream
from tests.support import killed_sinks
from tests.support.suite.slow import first

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FEED = "id int, v string, _change_type string, _commit_version long, _event_id long"


@pytest.fixture
def sink(spark: Any, new_database: Callable[..., Database], tmp_path: Path) -> Sink:
    from pyspark import cloudpickle

    # The processes of Spark need not find the tests.
    cloudpickle.register_pickle_by_value(killed_sinks)
    spark.dataSource.register(killed_sinks.KilledTable)
    made = Sink(spark, new_database(pgq=True), tmp_path, FEED)
    # A second merge of an epoch would be seen by the number of writes.
    made.database.execute(
        "create table t (id int primary key, v text); create table writes (id int, v text);"
        " create function noted() returns trigger language plpgsql as 'begin"
        " insert into writes values (new.id, new.v); return null; end';"
        " create trigger noted after insert or update on t for each row execute function noted()"
    )
    return made


class Writer:
    """Random changes of the rows of a source, told as a feed."""

    def __init__(self, sink: Sink, seed: int) -> None:
        self.sink, self.chance = sink, random.Random(seed)
        self.state: dict[int, str] = {}
        self.event = self.writes = 0

    def feed(self, *, large: bool = False) -> None:
        """An epoch; large -- so much that a task stages it."""
        told: dict[int, tuple[Any, ...]] = {}
        rows: list[tuple[Any, ...]] = []
        count = self.chance.randint(1, 30)
        while len(rows) < count or (large and sum(len(row[1] or "") for row in rows) < 40_000):
            self.event += 1
            key = self.chance.randint(1, 20)
            text = f"{self.event} {'x' * self.chance.choice((1, 4_000))}"
            kind = "update_postimage" if key in self.state else "insert"
            if key in self.state and self.chance.random() < 0.4:
                del self.state[key]
                kind, text = "delete", ""
            else:
                self.state[key] = text
            told[key] = (key, text or None, kind, self.sink.fed, self.event)
            rows.append(told[key])
        self.writes += sum(row[2] != "delete" for row in told.values())
        self.chance.shuffle(rows)
        self.sink.feed(rows)

    def check(self) -> None:
        """Every epoch was merged once."""
        assert dict(self.sink.database.execute("select * from t")) == self.state
        assert self.sink.database.value("select count(*) from writes") == self.writes
        assert self.sink.staged() == []


@pytest.mark.parametrize("point", first(["sink.mid-commit", "sink.after-commit"]))
def test_a_stream_is_merged_once_whatever_is_killed(sink: Sink, point: str) -> None:
    writer = Writer(sink, 1)
    writer.feed()
    assert sink.run_killed(point, sink.frame(), format="pgq_table_killed", table="t")
    writer.check()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_random_kills_lose_no_change_and_double_none(sink: Sink) -> None:
    writer = Writer(sink, 2)
    for _ in range(50):
        files = writer.chance.randint(1, 2)
        for _ in range(files):
            writer.feed(large=True)
        point = f"{writer.chance.choice(SINK_POINTS)}:{writer.chance.randint(1, files)}"
        assert sink.run_killed(point, sink.frame(), format="pgq_table_killed", table="t")
        writer.check()


class Keeper:
    """Rows that are added to a table without a key, where one that comes twice is seen."""

    def __init__(self, sink: Sink, seed: int) -> None:
        self.sink, self.chance = sink, random.Random(seed)
        self.told: list[tuple[Any, ...]] = []
        sink.database.execute(
            "create table kept (id int, v text, _change_type text, _commit_version bigint,"
            " _event_id bigint, place bigserial)"
        )

    def feed(self, *, large: bool = False) -> None:
        """An epoch; large -- so much that a task stages it."""
        count, pad = self.chance.randint(15, 40), "x" * (3_000 if large else 1)
        rows: list[tuple[Any, ...]] = []
        for event in range(len(self.told), len(self.told) + count):
            kind = self.chance.choice(("insert", "update_postimage", "delete"))
            rows.append((self.chance.randint(1, 20), f"{event} {pad}", kind, self.sink.fed, event))
        self.told += rows
        self.sink.feed(rows)

    def kill(self, point: str) -> None:
        """The query is killed there, and goes on; then every row is there once, in order."""
        options = {"format": "pgq_table_killed", "table": "kept", "mode": "append"}
        assert self.sink.run_killed(point, self.sink.frame(), **options), point
        found = self.sink.database.execute(
            "select id, v, _change_type, _commit_version, _event_id from kept order by place"
        )
        assert found == self.told
        assert self.sink.staged() == []


def test_rows_are_added_once_whatever_is_killed(sink: Sink) -> None:
    keeper = Keeper(sink, 3)
    keeper.feed(large=True)
    keeper.kill("sink.after-commit")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_random_kills_lose_no_row_that_is_added_and_double_none(sink: Sink) -> None:
    keeper = Keeper(sink, 4)
    for _ in range(50):
        files = keeper.chance.randint(1, 2)
        # Of few rows nothing is staged.
        large = keeper.chance.random() < 0.7
        for _ in range(files):
            keeper.feed(large=large)
        point = keeper.chance.choice(SINK_POINTS if large else SINK_POINTS[2:])
        keeper.kill(f"{point}:{keeper.chance.randint(1, files)}")


@pytest.mark.slow
def test_a_table_is_followed_from_its_queue_into_another(
    spark: Any, new_database: Callable[..., Database], tmp_path: Path
) -> None:
    stream = Stream(spark, new_database(pgq=True), tmp_path)
    stream.table("id int primary key, n numeric(9,2), j jsonb, at timestamptz")
    target = new_database(pgq=True)
    target.execute("create table t (id int primary key, n numeric(9,2), j jsonb, at timestamptz)")
    stream.write("insert into t select i, i, '{\"a\": 1}', now() from generate_series(1, 500) i")
    for statement in (
        "update t set id = id + 1000, n = n / 3 where id % 2 = 0",
        "delete from t where id % 3 = 0",
    ):
        query = (
            stream.load(payload="typed", tables="t")
            .writeStream.format("pgq_table")
            .options(dsn=target.dsn, table="t", sinkId="t")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
        )
        run_query(query.start, 300)
        assert target.execute("select * from t order by 1") == stream.database.execute(
            "select * from t order by 1"
        )
        stream.write(statement)
