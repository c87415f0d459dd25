"""Staged rows of an epoch are committed in one transaction, also after failures and repeats.

Spark's part is played by the test: tasks that fail, run twice or are not heard of, commits that
are repeated, a query that begins again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("pyspark")
from pyspark.sql import types as t

from londiste.db.connection import Connection
from londiste.engine.spark.sink import commit, event_rows, stage
from londiste.engine.spark.sink.options import QueueOptions, parse_queue
from londiste.engine.spark.sink.stage import StagedMessage, StagedRows
from londiste.errors import LondisteError, NodeBusy, StateError, TransientError
from londiste.pgq import queues, spark_epochs
from tests.fixtures.cluster import Database
from tests.support.suite.slow import first

SCHEMA = t.StructType([t.StructField("ev_data", t.StringType())])
KEYED = t.StructType([*SCHEMA.fields, t.StructField("k", t.StringType())])
LONG = "x" * 40_000


class Query:
    """The part of Spark: tasks and commits of one query."""

    def __init__(self, database: Database, schema: Any = SCHEMA, **options: str) -> None:
        self.database = database
        self.schema = schema
        self.id = str(uuid4())
        self.options: QueueOptions = parse_queue(
            {"dsn": database.dsn, "queue": "q", **options}, stream="writeId" not in options
        )
        self.begin()

    def begin(self) -> None:
        """A new attempt."""
        self.attempt = uuid4()

    def task(self, number: int, rows: Sequence[Sequence[Any]]) -> StagedMessage:
        """One run of a task."""
        shape = event_rows.shape_of(self.options, self.schema)

        def cut() -> Iterator[StagedRows]:
            cutter = stage.Cutter()
            for row in rows:
                yield from cutter.add(event_rows._line(self.options, shape, None, row))
            yield from cutter.rest()

        return stage.stage(self.options, self.attempt, self.id, number, cut())

    def commit(self, epoch: int | None, *messages: StagedMessage, fail: bool = False) -> None:
        """The driver hears of all tasks; ``fail``: it dies in front of COMMIT."""

        def do(conn: Connection, chunks: Any) -> None:
            event_rows.insert(
                conn, self.options, self.schema, [(given, chunk.count) for chunk, given in chunks]
            )
            if fail:
                raise Died

        commit.write(self.options, "queue q", self.attempt, messages, epoch, do)


class Died(Exception):
    """A process of the query is gone."""


@pytest.fixture
def database(pgq_db: Database) -> Database:
    queues.create_queue(pgq_db.connect(), "q")
    return pgq_db


def data(database: Database) -> list[str]:
    rows = database.execute("select ev_data from pgq.event_template order by ev_id")
    return [row[0] for row in rows]


def staged(database: Database) -> int:
    return int(
        database.value(
            "select count(*) from pg_class where relname like 'staged%%' and relkind = 'r'"
        )
    )


def test_an_epoch_that_comes_again_is_in_already_and_what_was_staged_is_gone(
    database: Database,
) -> None:
    query = Query(database)
    small, large = query.task(1, [["b"]]), query.task(0, [[LONG], ["a"]])
    assert small.stage is None and large.stage is not None and staged(database) == 1
    assert data(database) == []
    query.commit(0, small, large)
    assert data(database) == [LONG, "a", "b"] and staged(database) == 0
    query.begin()
    again = [query.task(1, [["b"]]), query.task(0, [[LONG], ["a"]])]
    query.commit(0, *again)
    assert len(data(database)) == 3 and staged(database) == 0
    query.commit(1, query.task(0, [["c"]]))
    assert data(database)[3:] == ["c"]
    assert [
        (s.sink, s.query, s.epoch, s.rows) for s in spark_epochs.get_sinks(database.connect())
    ] == [(query.id, query.id, 1, 1)]


def test_nothing_of_an_epoch_is_there_when_the_driver_dies_before_the_end(
    database: Database,
) -> None:
    query = Query(database)
    with pytest.raises(Died):
        query.commit(0, query.task(0, [[LONG]]), query.task(1, [["b"]]), fail=True)
    assert data(database) == [] and spark_epochs.get_sinks(database.connect()) == []
    query.begin()
    query.commit(0, query.task(0, [[LONG]]), query.task(1, [["b"]]))
    assert data(database) == [LONG, "b"] and staged(database) == 0


def test_rows_that_a_crash_of_the_server_took_are_missed(database: Database) -> None:
    query = Query(database)
    message = query.task(0, [[LONG], [LONG], ["a"]])
    # So looks a table that is not logged behind a crash.
    database.execute(f"truncate pgq_ext.staged_{message.stage}")
    with pytest.raises(TransientError, match="staged rows lost: 0 found") as caught:
        query.commit(0, message)
    assert caught.value.hint and data(database) == []
    query.begin()
    query.commit(0, query.task(0, [[LONG], [LONG], ["a"]]))
    assert data(database) == [LONG, LONG, "a"]


def test_two_queries_do_not_share_a_name(database: Database) -> None:
    one, other = (Query(database, sinkId="orders") for _ in range(2))
    one.commit(0, one.task(0, [["a"]]))
    with pytest.raises(NodeBusy, match="sink orders belongs to another query") as caught:
        other.commit(0, other.task(0, [["b"]]))
    assert "sinkId" in (caught.value.hint or "")
    with pytest.raises(StateError, match="has 2 rows, but was written with 1"):
        one.commit(0, one.task(0, [["a"], ["b"]]))
    assert spark_epochs.forget_sink(database.connect(), "orders")
    other.commit(0, other.task(0, [["b"]]))
    assert data(database) == ["a", "b"]
    with pytest.raises(LondisteError, match="writes to queue q, not to queue r"):
        commit.write(
            other.options, "queue r", other.attempt, [other.task(0, [["x"]])], 1, lambda *_: None
        )


def test_a_repetition_with_other_rows_is_left_out_where_that_is_wanted(
    database: Database,
) -> None:
    query = Query(database, onOtherRows="skip")
    query.commit(0, query.task(0, [["a"]]))
    query.commit(0, query.task(0, [["a"], ["b"]]))
    assert data(database) == ["a"]


def test_a_job_with_a_name_is_done_once_and_one_without_as_often_as_it_runs(
    database: Database,
) -> None:
    named = Query(database, writeId="night 1")
    named.id = ""
    for _ in range(2):
        named.begin()
        named.commit(None, named.task(0, [["a"]]))
    assert data(database) == ["a"]
    assert spark_epochs.is_sink_done(database.connect(), "night 1")
    nobody = Query(database)
    nobody.id = ""
    for _ in range(2):
        nobody.begin()
        nobody.commit(None, nobody.task(0, [[LONG]]))
    assert data(database) == ["a", LONG, LONG]
    assert staged(database) == 0 and len(spark_epochs.get_sinks(database.connect())) == 1


def test_an_event_whose_key_is_known_is_left_out(database: Database) -> None:
    query = Query(database, KEYED, key="k")
    query.commit(0, query.task(0, [["a", "1"], ["b", "2"], ["c", "1"]]))
    query.commit(1, query.task(0, [["d", "2"], ["e", "3"]]))
    assert data(database) == ["a", "b", "e"]


@pytest.mark.parametrize("size", [1, 2000])
def test_an_epoch_can_be_ordered_by_a_column(database: Database, size: int) -> None:
    schema = t.StructType([*SCHEMA.fields, t.StructField("n", t.LongType())])
    query = Query(database, schema, orderBy="n")
    numbers = list(range(1000))
    random.Random(1).shuffle(numbers)
    pad = "x" * size
    parts = [[[f"{n} {pad}", n] for n in numbers[start::3]] for start in range(3)]
    query.commit(0, *(query.task(number, rows) for number, rows in enumerate(parts)))
    assert [int(text.split()[0]) for text in data(database)] == list(range(1000))


def test_a_task_that_still_writes_does_not_hold_up_an_epoch(database: Database) -> None:
    query = Query(database)
    query.commit(0, query.task(0, [["a"]]))
    conn = database.connect()
    late = spark_epochs.make_sink_stage(conn, query.id, query.attempt)
    with conn.transaction():
        conn.execute(f"insert into pgq_ext.staged_{late} values (gen_random_uuid(), 0, '')")
        query.commit(1, query.task(0, [["b"]]))
        assert data(database) == ["a", "b"] and staged(database) == 1
    query.commit(2, query.task(0, [["c"]]))
    assert staged(database) == 0


def test_a_writer_needs_no_more_rights(database: Database, as_role: Callable[..., str]) -> None:
    query = Query(database)
    query.options = parse_queue({"dsn": as_role("pgq_writer"), "queue": "q"}, stream=True)
    query.commit(0, query.task(0, [[LONG]]), query.task(1, [["a"]]))
    assert data(database) == [LONG, "a"] and staged(database) == 0


@pytest.fixture
def as_role(database: Database) -> Callable[..., str]:
    return lambda role: f"{database.dsn} options='-c role={role}'"


@pytest.mark.parametrize("seed", first(range(50), 2))
def test_whatever_fails_every_row_is_there_once(database: Database, seed: int) -> None:
    chance = random.Random(seed)
    query = Query(database)
    wanted: list[str] = []
    for epoch in range(4):
        parts = [
            [[f"{epoch} {part} {n} {'x' * chance.choice((1, 9_000))}"] for n in range(8)]
            for part in range(chance.randint(1, 3))
        ]
        wanted += [row[0] for rows in parts for row in rows]
        done = False
        while not done:
            query.begin()
            messages = []
            for number, rows in enumerate(parts):
                # Runs whose message is lost, and those that see a part of the rows only.
                for _ in range(chance.choice((0, 0, 1))):
                    query.task(number, rows[: chance.randint(0, 8)])
                messages.append(query.task(number, rows))
            moment = chance.choice(("before", "mid", "after", "never"))
            if moment == "before":
                continue
            try:
                query.commit(epoch, *messages, fail=moment == "mid")
            except Died:
                continue
            # Behind the commit nobody heard of it: the same epoch comes again.
            done = moment == "never"
    assert data(database) == wanted
    assert staged(database) == 0
