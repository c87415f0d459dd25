"""The driver side of the Spark source, called in Spark's order without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.engine.spark.source import PgqDataSource, StreamReader
from londiste.errors import (
    BadOption,
    EventError,
    LondisteError,
    NodeBusy,
    PositionLost,
    StateError,
    UnknownQueue,
    UnknownTable,
)
from londiste.lake.data_source import CascadeDataSource
from londiste.pgq import producer, queues
from tests.fixtures.cascade import CommandLine, Nodes, refused_at_once
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream

Open = Callable[..., StreamReader]
TYPED = {"payload": None, "tables": "t"}
BOTH = {**TYPED, "mode": "snapshot-then-changes", "startingOffsets": None}


@pytest.fixture
def stream(new_database: Callable[..., Database], tmp_path: Path) -> Stream:
    return Stream(None, new_database(pgq=True), tmp_path)


@pytest.fixture
def opened(stream: Stream) -> Iterator[Open]:
    """Opens a query, as the process of Spark that runs it does."""
    made: list[StreamReader] = []

    def start(**more: Any) -> StreamReader:
        made.append(source(stream, **more).streamReader(source(stream, **more).schema()))
        return made[-1]

    yield start
    for reader in made:
        reader.stop()


def source(stream: Stream, **more: Any) -> PgqDataSource:
    given = stream.options(**more)
    return PgqDataSource({k: str(v) for k, v in given.items() if v is not None})


def rows(reader: Any, parts: Any) -> list[dict[str, Any]]:
    """What executors make of the parts; they get all of it pickled."""
    return [
        row
        for part in parts
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(part)))
        for row in batch.to_pylist()
    ]


def batch(reader: StreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """One micro-batch: where it ends, and its rows."""
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    return end, rows(reader, reader.partitions(start, end))


def test_a_large_tick_is_read_in_parts_with_what_a_long_transaction_has_written(
    stream: Stream, opened: Open
) -> None:
    long = stream.database.connect()
    long.execute("begin")
    producer.insert_events(long, "q", [("t", "long")])
    stream.tick()
    producer.insert_events(stream.conn, "q", [("t", str(n)) for n in range(12_000)])
    long.execute("commit")
    last = stream.tick()
    reader = opened(payload="raw", maxEventsPerTrigger=20_000)
    end, found = batch(reader, reader.initialOffset())
    assert end["tick"] == last
    assert len(reader.partitions(reader.initialOffset(), end)) >= 2
    assert sorted(r["ev_data"] for r in found) == sorted(["long", *map(str, range(12_000))])
    assert {r["_commit_version"] for r in found} == {last}
    assert batch(reader, end) == (end, [])
    assert stream.position() == last
    # What rotation takes away under a task that reads fails the task.
    (all_of_it,) = (
        source(stream, payload="raw", consumer=None, numPartitions=1)
        .reader(source(stream, payload="raw").schema())
        .partitions()
    )
    reading = reader.read(all_of_it)
    assert len(next(reading)) == 10_000
    stream.database.execute("update pgq.queue set queue_history_txid = txid_current()")
    with pytest.raises(PositionLost, match="are gone"):
        list(reading)


def test_limits_end_a_batch_and_the_position_follows(stream: Stream, opened: Open) -> None:
    ticks = [
        stream.write("select pgq.insert_event('q', 't', 'x') from generate_series(1, 10)")
        for _ in range(4)
    ]
    # Events are counted by their ids, of which a forced tick uses up two thousand.
    reader = opened(payload="raw", maxTicksPerTrigger=3, maxEventsPerTrigger=4100)
    start = reader.initialOffset()
    end, found = batch(reader, start)
    assert (end["tick"], len(found)) == (ticks[1], 20)
    assert stream.position() == start["tick"]
    # A driver that began again goes on from the checkpoint.
    reader.stop()
    reader = opened(payload="raw", maxTicksPerTrigger=1)
    reader.prepareForTriggerAvailableNow()
    stream.write("select 1")
    assert rows(reader, reader.partitions(start, end)) == found
    ends = [end]
    while True:
        following, _ = batch(reader, ends[-1])
        if following == ends[-1]:
            break
        ends.append(following)
    assert [end["tick"] for end in ends] == ticks[1:]
    assert stream.position() == ticks[-1]


def test_a_query_stops_where_events_are_gone_or_are_others(stream: Stream, opened: Open) -> None:
    stream.table()
    first = stream.write("insert into t values (1, 'a')")
    stream.write("insert into t values (2, 'b')")
    reader = opened()
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    parts = reader.partitions(start, end)
    stream.database.execute("update pgq.queue set queue_history_txid = txid_current()")
    with pytest.raises(PositionLost, match="are gone"):
        rows(reader, parts)
    stream.database.execute(f"delete from pgq.tick where tick_id <= {first}")
    with pytest.raises(PositionLost, match=f"after tick {start['tick']} no longer exist") as lost:
        batch(reader, start)
    assert "failOnDataLoss=false" in lost.value.hint
    stream.forget()
    with pytest.raises(PositionLost, match="cannot resume") as gone:
        batch(reader, end)
    assert gone.value.detail == "the consumer is no longer registered"
    # A query that begins again may have it, as nothing behind its checkpoint is missing.
    reader.stop()
    assert opened().latestOffset(end, None) == end and stream.position() == end["tick"]
    other = {**end, "time": "2001-01-01T00:00:00+00:00"}
    with pytest.raises(PositionLost) as moved:
        opened(consumer="other").latestOffset(other, None)
    assert "is another tick" in moved.value.detail


def test_a_consumer_belongs_to_one_query(
    stream: Stream, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    last = stream.tick()
    one = opened()
    start = one.initialOffset()
    refused = pytest.raises(NodeBusy, match="consumer lake is in use by another query")
    with refused_at_once(), refused:
        opened().latestOffset(start, None)
    one.stop()
    # A new query goes on where the consumer stands, if nothing else is said.
    stream.tick()
    assert "another checkpoint" not in caplog.text
    assert opened(startingOffsets=None).initialOffset()["tick"] == start["tick"] < last
    assert "consumer lake has had a query; another checkpoint needs another target" in caplog.text
    stream.database.execute("select pgq.next_batch('q', 'lake')")
    queues.force_tick(stream.conn, "q")


def test_what_is_not_a_change_of_a_row_has_a_policy(stream: Stream, opened: Open) -> None:
    stream.table()
    stream.write("insert into t values (1, 'a')", "truncate t")
    start = opened().initialOffset()
    for policy, kinds in (("row", ["insert", "truncate"]), ("ignore", ["insert"])):
        for payload in ("json", "typed"):
            reader = opened(consumer="c", tables="t", payload=payload, onTruncate=policy)
            _, found = batch(reader, start)
            assert [r["_change_type"] for r in found] == kinds
            reader.stop()
    with pytest.raises(EventError, match=r"table public\.t was truncated") as failed:
        batch(opened(consumer="c2"), start)
    assert "onTruncate=row" in failed.value.hint
    producer.insert_event(stream.conn, "q", "EXECUTE", "select 1", extra1="s.sql")
    stream.tick()
    ignoring = {"onTruncate": "ignore", "tables": "t", "consumer": "c3"}
    with pytest.raises(EventError, match=r"script s\.sql was executed"):
        batch(opened(**ignoring), start)
    _, found = batch(opened(**{**ignoring, "consumer": "c4"}, onScript="row"), start)
    assert (found[-1]["_change_type"], found[-1]["row"]) == ("execute", "select 1")


def test_a_changed_table_has_a_policy(stream: Stream, opened: Open) -> None:
    stream.table()
    before = opened(**TYPED)
    start = before.initialOffset()
    stream.write("insert into t values (1, 'a')", "alter table t add column more int")
    stream.write("insert into t values (2, 'b', 3)")
    with pytest.raises(EventError, match="columns not in the result: more"):
        batch(before, start)
    before.stop()
    after = {**TYPED, "consumer": "after"}
    with pytest.raises(EventError, match="missing columns: more") as failed:
        batch(opened(**after), start)
    assert "missingColumns=null" in failed.value.hint
    _, found = batch(opened(**{**after, "consumer": "n"}, missingColumns="null"), start)
    assert [(r["id"], r["more"]) for r in found] == [(1, None), (2, 3)]
    with pytest.raises(BadOption, match="does not match the columns of the source"):
        source(stream, **TYPED).streamReader(source(stream).schema())


def test_rows_come_first_and_only_from_a_snapshot_that_is_there(
    stream: Stream, opened: Open
) -> None:
    stream.table()
    stream.write("insert into t values (1, 'a')")
    reader = opened(**BOTH)
    start = reader.initialOffset()
    stream.database.execute("insert into t values (2, 'in the rows, behind the tick')")
    end = reader.latestOffset(start, None)
    parts = reader.partitions(start, end)
    stream.database.execute("insert into t values (3, 'c')")
    assert [r["id"] for r in rows(reader, parts)] == [1, 2]
    # The driver is gone, and the snapshot with it.
    reader.stop()
    with pytest.raises(StateError, match=r"snapshot .* no longer exists"):
        rows(reader, parts)
    reader = opened(**BOTH)
    with pytest.raises(StateError, match=r"the snapshot at tick .* no longer exists") as lost:
        reader.partitions(start, end)
    assert "onSnapshotLost=again" in lost.value.hint
    reader.stop()
    reader = opened(**BOTH, onSnapshotLost="again")
    assert [r["id"] for r in rows(reader, reader.partitions(start, end))] == [1, 2, 3]
    reader.commit(end)
    stream.tick()
    assert [r["id"] for r in batch(reader, end)[1]] == [3]


def test_wrong_options_are_named_with_what_to_write(stream: Stream, opened: Open) -> None:
    stream.table()
    stream.tick()
    wrong: list[tuple[dict[str, Any], type[LondisteError], str]] = [
        ({"queue": "nope"}, UnknownQueue, "no queue nope"),
        ({"payload": "typed", "tables": "nope"}, UnknownTable, r"table public\.nope does not"),
        ({"startingOffsets": None, "startingTick": 99}, StateError, "queue q has no tick 99 yet"),
        ({**TYPED, "stringColumns": "w"}, BadOption, "stringColumns: unknown columns w"),
        ({"consumer": None}, BadOption, "option consumer: required for a stream"),
    ]
    for options, kind, message in wrong:
        with pytest.raises(kind, match=message) as refused:
            opened(**options).initialOffset()
        assert refused.value.hint
    (time,) = stream.database.execute("select max(tick_time)::text from pgq.tick")[0]
    by_time = {"startingOffsets": None, "startingTimestamp": time, "consumer": "by_time"}
    by_time["startingBoundInclusive"] = "false"
    assert opened(**by_time).initialOffset()["tick"] == stream.tick() - 1


def test_names_that_spark_cannot_distinguish_are_refused_before_the_query_starts(
    stream: Stream,
) -> None:
    stream.database.execute(
        """create table "Case" (id int primary key); create table "case" (id int primary key);
        create table twice (id int primary key, a int, "A" int);
        create table other (id int primary key, _commit_version int)"""
    )
    for tables, said in (
        ("Case, case", r"column public\.case: duplicate"),
        ("twice, Case", r"table public\.twice: column A: duplicate"),
        ("Case, other", r"table public\.other: column _commit_version: duplicate"),
        ("twice", "column A: duplicate"),
    ):
        with pytest.raises(BadOption, match=said) as refused:
            source(stream, payload="typed", tables=tables).schema()
        assert "payload=json" in refused.value.hint


@pytest.mark.parametrize("payload", ["typed", "json"])
def test_a_table_that_is_not_there_is_named(
    stream: Stream, payload: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = source(stream, payload=payload, tables="typo", consumer=None)
    said = "table public.typo does not exist in "
    if payload == "typed":
        with pytest.raises(UnknownTable, match=said) as refused:
            given.schema()
        assert "correct the option tables" in refused.value.hint
    else:
        given.reader(given.schema())
        assert said in caplog.text


def test_rows_of_a_branch_that_are_not_those_of_its_events_are_refused(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    for node in (root, branch):
        node.db.execute("create table t (id int primary key)")
    assert londiste(root.db, "add-table", "t").code == 0
    given = {"queue": "q", "consumer": "lake", "tables": "t", "mode": "snapshot-then-changes"}
    source = CascadeDataSource({**given, "dsn": branch.dsn})

    def first(*handler: str, state: str = "ok") -> str:
        """The first position of a stream from the branch, or why there is none."""
        assert londiste(branch.db, "add-table", "t", *handler).code == 0
        branch.db.execute("update londiste.table_info set merge_state = %s where local", state)
        reader = source.streamReader(source.schema())
        try:
            return str(reader.initialOffset())
        except StateError as error:
            assert not branch.db.value("select count(*) from pgq.get_consumer_info('q', 'lake')")
            return f"{error}; {error.hint}"
        finally:
            reader.stop()
            assert londiste(branch.db, "remove-table", "t").code == 0

    assert "it stores no rows; read the table on the root" in first("--handler", "nop")
    only = ("--handler-arg", "table_mode=direct", "--handler-arg", "event_types=I")
    assert "it writes I events only" in first("--handler", "dispatch", *only)
    assert "is not in sync" in first(state="in-copy")
    assert "'snapshot': 'wanted'" in first("--where", "id > 1")
