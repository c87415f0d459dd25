"""Where queries start and end, and that millions of ticks cost the driver no more than a few."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from londiste.engine.spark.stream import bounds
from londiste.engine.spark.stream.options import Options, parse
from londiste.errors import BadOption, LondisteError, PositionLost, StateError
from londiste.pgq import ticks
from londiste.pgq.types import Tick
from tests.engine.test_stream_driver import batch, rows, source
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream


@pytest.fixture
def stream(new_database: Callable[..., Database], tmp_path: Path) -> Stream:
    return Stream(None, new_database(pgq=True), tmp_path)


def versions(stream: Stream, **more: Any) -> list[int]:
    """The ticks whose events a batch reads."""
    given = source(stream, consumer=None, payload="raw", **{"startingOffsets": None, **more})
    reader = given.reader(given.schema())
    return sorted({row["_commit_version"] for row in rows(reader, reader.partitions())})


def test_a_start_that_has_gone_stops_the_query_or_is_the_oldest_that_is_complete(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    write = "select pgq.insert_event('q', 't', 'x')"
    gone = [stream.write(write) for _ in range(3)]
    time = ticks.between(stream.conn, "q", gone[0])[0].time.isoformat()
    stream.database.execute("update pgq.queue set queue_history_txid = txid_current()")
    left = [stream.write(write) for _ in range(3)]
    for start in (
        {"startingTick": gone[1]},
        {"startingVersion": gone[1]},
        {"startingTimestamp": time},
    ):
        with pytest.raises(PositionLost) as lost:
            versions(stream, **start)
        assert "with failOnDataLoss=false the query" in lost.value.hint
        caplog.clear()
        # The first complete tick has no complete events before it.
        assert versions(stream, **start, failOnDataLoss="false") == left[1:]
        assert f"starts after tick {left[0]} of " in caplog.text
        given = source(stream, payload="raw", startingOffsets=None, failOnDataLoss=False, **start)
        reader = given.streamReader(given.schema())
        assert reader.initialOffset()["tick"] == left[0]
        reader.stop()


def test_versions_and_timestamps_have_the_bounds_of_sparks_change_feeds(stream: Stream) -> None:
    made = [
        stream.write(f"select pgq.insert_event('q', 't', '{n}') from generate_series(1, 50)")
        for n in range(6)
    ]
    times = [one.time for one in ticks.between(stream.conn, "q", made[0])]
    text = [one.isoformat() for one in times]
    for options, wanted in (
        ({}, made),
        ({"startingTick": made[1]}, made[2:]),
        ({"startingVersion": made[1]}, made[1:]),
        ({"startingVersion": 1}, made),
        ({"startingVersion": made[1], "startingBoundInclusive": False}, made[2:]),
        ({"startingTimestamp": text[1]}, made[1:]),
        ({"startingTimestamp": text[1], "startingBoundInclusive": "FALSE"}, made[2:]),
        ({"startingTimestamp": int(times[1].timestamp() * 1000) + 1}, made[2:]),
        ({"endingTick": made[3]}, made[:4]),
        ({"endingVersion": made[3]}, made[:4]),
        ({"endingVersion": made[3], "endingBoundInclusive": False}, made[:3]),
        ({"endingTimestamp": text[3]}, made[:4]),
        ({"endingTimestamp": text[3], "endingBoundInclusive": False}, made[:3]),
        ({"endingTimestamp": (times[3] + timedelta(microseconds=1)).isoformat()}, made[:4]),
        ({"startingVersion": made[2], "endingVersion": made[2]}, [made[2]]),
    ):
        assert versions(stream, **options) == wanted, options
    for options, error, words in (
        ({"startingTimestamp": "2999-01-01"}, BadOption, "is in the future"),
        ({"endingTimestamp": 32503680000000}, BadOption, "endingTimestamp: 3000-.* in the future"),
        ({"startingVersion": made[-1] + 1}, StateError, "no tick .* yet"),
        ({"endingVersion": made[-1] + 1}, StateError, "no tick .* yet"),
        ({"startingVersion": 10**30}, BadOption, "not an integer from 1 to"),
        ({"startingTimestamp": 1000}, PositionLost, "are incomplete"),
        ({"startingTick": made[3], "endingTimestamp": text[1]}, BadOption, "before the start"),
        ({"startingTick": made[3], "endingTick": made[1]}, BadOption, "before the start"),
    ):
        with pytest.raises(error, match=words) as caught:
            versions(stream, **options)
        assert isinstance(caught.value, LondisteError) and caught.value.hint
    # The hint for an end is followed as it is printed.
    with pytest.raises(StateError) as early:
        versions(stream, endingTick=made[-1] + 7)
    assert early.value.hint.startswith(f"set endingTick={made[-1]}, or omit it")
    assert versions(stream, endingTick=made[-1]) == made
    # Of the rows of this queue a thousand bytes are some hundred events.
    given = source(stream, payload="raw", maxBytesPerTrigger=1_000_000_000)
    reader = given.streamReader(given.schema())
    assert batch(reader, reader.initialOffset())[0]["tick"] == made[-1]
    reader.stop()
    given = source(stream, payload="raw", maxBytesPerTrigger=10)
    reader = given.streamReader(given.schema())
    assert batch(reader, reader.initialOffset())[0]["tick"] == made[0]
    reader.stop()


@pytest.fixture
def generated(stream: Stream) -> list[Tick]:
    """A hundred thousand ticks with gaps between their ids, of ten events each."""
    stream.database.execute("delete from pgq.tick")
    stream.database.execute(
        "insert into pgq.tick (tick_queue, tick_id, tick_time, tick_snapshot, tick_event_seq)"
        " select 1, i * 3, now() - interval '1 day' + i * interval '20 ms',"
        " format('%s:%s:', 1000000 + i, 1000000 + i)::txid_snapshot, i * 10"
        " from generate_series(1, 100000) i"
    )
    stream.database.execute("analyze pgq.tick")
    return ticks.between(stream.conn, "q", 1)


def options(stream: Stream, **more: Any) -> Options:
    given = {"dsn": stream.database.dsn, "queue": "q", "payload": "raw", **more}
    return parse({name: str(value) for name, value in given.items()})


def test_the_driver_asks_for_few_of_very_many_ticks(
    stream: Stream, generated: list[Tick], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = generated[0], generated[-1]
    read = questions = 0
    query = bounds.ticks.between
    apart = bounds.ticks.apart

    def counted(ask: Any) -> Any:
        def asked(*args: Any, **more: Any) -> list[Tick]:
            nonlocal read, questions
            found: list[Tick] = ask(*args, **more)
            read, questions = read + len(found), questions + 1
            return found

        return asked

    monkeypatch.setattr(ticks, "between", counted(query))
    monkeypatch.setattr(ticks, "apart", counted(apart))
    conn, chance = stream.conn, random.Random(1)
    tracemalloc.start()
    for _ in range(20):
        most, events = chance.randint(1, 120_000), chance.randint(1, 1_200_000)
        end = bounds.batch_end(conn, options(stream, maxTicksPerTrigger=most), first, last)
        assert end == generated[min(most, len(generated) - 1)]
        end = bounds.batch_end(conn, options(stream, maxEventsPerTrigger=events), first, last)
        assert end == generated[max(1, min(events // 10, len(generated) - 1))]
        at = chance.choice(generated)
        found = bounds.starting_tick(
            conn,
            options(stream, startingTimestamp=at.time.isoformat(), startingBoundInclusive="false"),
            otherwise="latest",
        )
        assert found == at
    # Forty questions for one tick each find what a condition divides.
    assert questions / 60 < 40 and read <= questions
    made = bounds.parts(conn, options(stream, numPartitions=8), first.id, last.id)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made is not None and len(made[2]) == 8
    assert read < questions + bounds.MOST_TICKS + 2
    assert peak < 5 << 20
    assert all(len(part.ticks) == 2 for part in made[2])
    sizes = [part.ticks[1].seq - part.ticks[0].seq for part in made[2]]
    assert max(sizes) < 1.1 * min(sizes)
    # The tasks have all ticks, each once, and no more of them than a page at a time.
    monkeypatch.undo()
    monkeypatch.setattr(bounds, "PAGE_TICKS", 700)
    seen = [first]
    for part in made[2]:
        for page in bounds.pages(conn, options(stream), part):
            assert len(page.ticks) <= 701 and page.ticks[0] == seen[-1]
            seen += page.ticks[1:]
    assert seen == generated


def test_every_event_of_many_ticks_is_read_once_with_its_own_tick(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_TICKS", 5)
    monkeypatch.setattr(bounds, "PAGE_TICKS", 3)
    monkeypatch.setattr(bounds.offsets.slices, "__kwdefaults__", {"sampled": False, "whole": False})
    monkeypatch.setattr(bounds.offsets.slices, "__defaults__", ("", 10))
    wanted = {}
    for n in range(40):
        count = random.Random(n).choice([1, 5, 60])
        tick = stream.write(
            f"select pgq.insert_event('q', 't', '{n}:' || i) from generate_series(1, {count}) i"
        )
        wanted.update({f"{n}:{i}": tick for i in range(1, count + 1)})
    given = source(stream, consumer=None, payload="raw", numPartitions=4)
    reader = given.reader(given.schema())
    parts = reader.partitions()
    assert len(parts) > 2 and all(part.what.sampled for part in parts)
    found = rows(reader, parts)
    assert len(found) == len(wanted)
    assert {row["ev_data"]: row["_commit_version"] for row in found} == wanted
