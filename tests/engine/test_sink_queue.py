"""Rows of Spark become events: each epoch once, all of it or nothing, in order."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.sinks import SINK_POINTS, Sink
from tests.support import killed_sinks

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def sink(spark: Any, new_database: Callable[..., Database], tmp_path: Path) -> Sink:
    from pyspark import cloudpickle

    # The processes of Spark need not find the tests.
    cloudpickle.register_pickle_by_value(killed_sinks)
    spark.dataSource.register(killed_sinks.KilledQueue)
    return Sink(spark, new_database(pgq=True), tmp_path)


def test_rows_become_events_once_whatever_is_killed(sink: Sink) -> None:
    sink.feed([(n, f"t{n % 3}", f"d{n}") for n in range(7)])
    assert sink.run_killed("sink.after-commit")
    assert [row[:3] for row in sink.events()] == [(f"t{n % 3}", f"d{n}", None) for n in range(7)]
    sink.feed([(n, "t", f"d{n} {'x' * 500}") for n in range(7, 300)])
    assert sink.run_killed("sink.mid-commit")
    assert [text.split()[0] for text in sink.data()] == [f"d{n}" for n in range(300)]
    assert sink.staged() == []
    (known,) = sink.sinks()
    assert (known.target, known.epoch, known.rows) == ("queue q", 1, 293)
    # Another checkpoint is another query.
    with pytest.raises(Exception, match="belongs to another query"):
        sink.run(checkpoint="other", sinkId=known.sink)


@pytest.mark.slow
@pytest.mark.parametrize("point", SINK_POINTS)
def test_a_query_killed_at(point: str, sink: Sink) -> None:
    for number in range(3):
        sink.feed([(n, "t", f"d{number}{n:04} {'x' * 500}") for n in range(300)])
        if number != 1:
            assert sink.run_killed(f"{point}:{max(1, number)}")
    assert [text.split()[0] for text in sink.data()] == [
        f"d{number}{n:04}" for number in range(3) for n in range(300)
    ]
    assert sink.staged() == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_random_kills_lose_no_row_and_double_none(sink: Sink) -> None:
    chance = random.Random(4)
    total = 0
    for _ in range(50):
        files = chance.randint(1, 2)
        # Of few rows nothing is staged.
        large = chance.random() < 0.7
        for _ in range(files):
            count, pad = chance.randint(15, 40), "x" * (3_000 if large else 1)
            sink.feed([(n, "t", f"{total + n} {pad}") for n in range(count)])
            total += count
        point = chance.choice(SINK_POINTS if large else SINK_POINTS[2:])
        assert sink.run_killed(f"{point}:{chance.randint(1, files)}")
    found = [int(text.split()[0]) for text in sink.data()]
    assert sorted(found) == list(range(total))
    assert found == sorted(found)
    assert sink.staged() == []


@pytest.mark.slow
def test_a_job_is_all_or_nothing_and_with_a_name_it_is_done_once(sink: Sink) -> None:
    frame = sink.spark.range(1000).selectExpr(
        "id", "concat('k', id) as name", "cast(id as decimal(9,2)) as n", "timestamp'2026-01-02' at"
    )
    options = {"dsn": sink.database.dsn, "queue": "q", "payload": "json", "eventType": "row"}
    for _ in range(2):
        write = frame.write.format("pgq").options(**options, writeId="night").mode("append")
        write.save()
    assert len(sink.data()) == 1000
    kind, first = sink.events()[0][:2]
    assert (kind, first.split(',"at"')[0]) == ("row", '{"id":0,"name":"k0","n":0.00')
    broken = frame.selectExpr("*", "raise_error('no') as x").where("id >= 0")
    with pytest.raises(Exception, match="no"):
        broken.write.format("pgq").options(**options).mode("append").save()
    assert len(sink.data()) == 1000 and sink.staged() == []
    with pytest.raises(Exception, match="overwrite mode: not supported"):
        frame.write.format("pgq").options(**options).mode("overwrite").save()
    ordered = frame.orderBy("id", ascending=False).write.format("pgq").options(**options)
    ordered.mode("append").save()
    ids = [int(text.split(",")[0].split(":")[1]) for text in sink.data()[1000:]]
    assert ids == list(range(999, -1, -1))


@pytest.mark.slow
def test_what_cannot_be_written_is_refused_before_anything_is_done(sink: Sink) -> None:
    sink.feed([(1, "t", "d")])
    for options, text in (
        ({"queue": "nope"}, "nope"),
        ({"quue": "q"}, "did you mean queue"),
        ({"key": "id"}, "column id: does not exist"),
    ):
        with pytest.raises(Exception, match=text):
            sink.run(**options)
    with pytest.raises(Exception, match="column id: not a field of an event"):
        sink.run(sink.frame())
    assert sink.data() == []
