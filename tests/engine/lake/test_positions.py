"""A lake whose position is lost, or belongs to another queue, says what works for its mode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from londiste.db.names import TableName
from londiste.engine.spark.stream import offsets
from londiste.engine.spark.stream.offsets import BEFORE_SNAPSHOT
from londiste.errors import PositionLost, StateError
from londiste.lake import columns, origin, status
from londiste.lake.table import LakeTable
from londiste.lake.versions import Version
from londiste.lake.worker import LakeWorker
from londiste.pgq import batches, queues
from tests.fixtures.cluster import Database
from tests.fixtures.lake import Lake
from tests.fixtures.stream import Stream


@pytest.fixture
def bare(new_database: Callable[..., Database], tmp_path: Path) -> Lake:
    """A lake without Spark, whose table has no row."""
    made = Lake(Stream(None, new_database(pgq=True), tmp_path), tmp_path / "lake", {})
    made.stream.table()
    some_ticks(made)
    return made


def some_ticks(lake: Lake) -> None:
    """More than a new queue has."""
    for _ in range(3):
        lake.stream.tick()


def begin(lake: Lake, mode: str) -> None:
    """Publishes the first version, as a job of Spark does that finds no row."""
    lake.more["lake_mode"] = mode
    with closing(LakeTable(lake.settings(), TableName("public", "t"))) as kept:
        described = kept._describe(kept.driver.conn)
        new = replace(
            described.noted(kept._empty()),
            key=described.key,
            columns=columns.first(described.columns, described.details),
        )
        end = kept.driver.latest(BEFORE_SNAPSHOT, limited=True)
        kept._publish(new, end, [], (), "rows", 0)


@pytest.mark.parametrize(
    ("mode", "hint"),
    [
        ("state", "read the rows again: londiste lake resync public.t"),
        ("append", "start with another lake_path"),
    ],
)
def test_a_lost_position_has_the_hint_of_its_mode(bare: Lake, mode: str, hint: str) -> None:
    begin(bare, mode)
    with LakeWorker(bare.settings()) as worker:
        assert worker.step() is False
        batches.unregister_consumer(bare.stream.conn, "q", "lake.public.t")
        for _ in range(2):
            with pytest.raises(PositionLost, match="cannot resume after tick") as gone:
                worker.step()
            assert gone.value.hint.startswith("restart the process: ")
    # All events are there.
    with LakeWorker(bare.settings()) as worker:
        assert worker.step() is False
    batches.unregister_consumer(bare.stream.conn, "q", "lake.public.t")
    tick = bare.version().tick
    bare.stream.write("select pgq.insert_event('q', 't', 'x')")
    bare.stream.database.execute(f"delete from pgq.tick where tick_id <= {tick}")
    with (
        LakeWorker(bare.settings()) as worker,
        pytest.raises(PositionLost, match=f"events after tick {tick} no longer exist") as lost,
    ):
        worker.step()
    assert lost.value.hint == hint


def create_again(lake: Lake) -> None:
    """The queue is another one, whose ticks begin again."""
    queues.drop_queue(lake.stream.conn, "q", force=True)
    queues.create_queue(lake.stream.conn, "q")
    lake.stream.database.execute("select londiste.create_capture('q', 't')")
    assert lake.stream.tick() < lake.version().tick


def test_a_history_ends_with_its_queue(bare: Lake) -> None:
    begin(bare, "history")
    create_again(bare)
    with (
        closing(LakeTable(bare.settings(), TableName("public", "t"))) as kept,
        pytest.raises(StateError, match="ends at tick 4 of another queue") as other,
    ):
        kept.resync()
    assert other.value.detail.startswith("the queue was dropped and created again")
    assert other.value.hint == "start with another lake_path"


def test_a_state_of_another_database_is_not_read_again(bare: Lake) -> None:
    begin(bare, "state")
    create_again(bare)
    with closing(LakeTable(bare.settings(), TableName("public", "t"))) as kept:
        with pytest.raises(PositionLost) as lost:
            kept.work()
        assert "or this is another queue" in lost.value.detail
        kept.store = replace(kept.store, origin="queue q of database another")
        for use in (kept.work, kept.resync):
            with pytest.raises(StateError, match="its directory belongs to queue q of") as refused:
                use()
            assert refused.value.hint == "use another lake_path"


def test_a_directory_that_names_no_queue_is_not_read_again_from_another(
    bare: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As commits of earlier releases are.
    with monkeypatch.context() as earlier:
        earlier.setattr(origin, "of", lambda settings: "")
        begin(bare, "state")
    with closing(LakeTable(bare.settings(), TableName("public", "t"))) as kept:
        assert kept.work() is False
    create_again(bare)
    with closing(LakeTable(bare.settings(), TableName("public", "t"))) as kept:
        for use in (kept.work, kept.resync):
            with pytest.raises(StateError, match="may belong to another queue") as refused:
                use()
            assert refused.value.hint.startswith("use another lake_path; ")
            assert "resync" not in refused.value.hint


@pytest.mark.slow
@pytest.mark.spark
def test_a_state_is_read_again_from_another_queue(lake: Lake) -> None:
    lake.stream.table()
    some_ticks(lake)
    lake.stream.write("insert into t values (1, 'a'), (2, 'b')")
    lake.once()
    create_again(lake)
    lake.stream.database.execute("delete from t where id = 2")
    with pytest.raises(PositionLost) as lost:
        lake.once()
    assert lost.value.hint == "read the rows again: londiste lake resync public.t"
    with closing(LakeTable(lake.settings(), TableName("public", "t"))) as kept:
        assert kept.resync().rows == 1
    lake.stream.write("insert into t values (3, 'c')")
    assert lake.once().rows == 2 and lake.compare().equal


def test_a_table_without_its_capture_is_told(bare: Lake, caplog: pytest.LogCaptureFixture) -> None:
    begin(bare, "state")
    database, settings = bare.stream.database, bare.settings()
    with closing(LakeTable(settings, TableName("public", "t"))) as kept:
        version = bare.version()
        evolve = partial(kept._evolved, version, offsets.read(version.position))
        evolve()
        assert [one.captured for one in status.look(settings)] == [True]
        assert "no trigger" not in caplog.text
        database.execute("select londiste.drop_capture('q', 't')")
        for _ in range(2):
            evolve()
        assert caplog.text.count("no trigger for queue q") == 1
        database.execute("drop table t; create table t (id int primary key, v text)")
        assert [one.captured for one in status.look(settings)] == [False]
        with pytest.raises(StateError, match="dropped and created again") as stopped:
            evolve()
        assert stopped.value.hint == (
            "capture it again first: select londiste.create_capture('q', 'public.t'), or with a"
            " node: londiste add-table public.t; then read its rows again: londiste lake resync"
            " public.t"
        )
        database.execute("select londiste.create_capture('q', 't')")
        with pytest.raises(StateError) as stopped:
            evolve()
        assert stopped.value.hint == "read its rows again: londiste lake resync public.t"


@pytest.mark.parametrize(
    ("mode", "hint"),
    [
        ("state", "read the rows again: londiste lake resync public.t"),
        ("append", "start with another lake_path"),
    ],
)
def test_rows_of_another_key_are_not_compared(bare: Lake, mode: str, hint: str) -> None:
    begin(bare, mode)
    bare.stream.database.execute("alter table t rename id to number")
    with pytest.raises(StateError, match=r"primary key is \(number\), was \(id\)") as refused:
        bare.compare()
    assert refused.value.hint == hint


def test_partitions_whose_rows_changed_without_an_event_stop_a_state(bare: Lake) -> None:
    database = bare.stream.database
    database.execute("drop table t")
    bare.stream.table("id int primary key, v text) partition by list (id")
    for n in (1, 2, 3):
        database.execute(f"create table t{n} partition of t for values in ({n})")
    database.execute("insert into t values (1, 'a'), (2, 'b')")
    begin(bare, "state")
    with closing(LakeTable(bare.settings(), TableName("public", "t"))) as kept:

        def maintain(version: Version, statement: str) -> Version:
            database.execute(statement)
            database.execute("select londiste.periodic_maintenance()")
            found, *_ = kept._evolved(version, offsets.read(version.position))
            assert isinstance(found, Version)
            return found

        version = maintain(bare.version(), "select 1")
        # One of the next day, and one whose rows were deleted.
        version = maintain(version, "create table t4 partition of t for values in (4)")
        version = maintain(version, "delete from t where id = 2; drop table t2; drop table t3")
        for statement, name in (
            ("alter table t detach partition t1", "t1 was detached with rows"),
            ("alter table t attach partition t1 for values in (1)", "t1 was"),
        ):
            with pytest.raises(StateError, match="rows of a partition have changed") as stopped:
                maintain(version, statement)
            assert name in stopped.value.detail
            assert stopped.value.hint.endswith("londiste lake resync public.t")
        # What the rows of a resync contain.
        version = kept._describe(kept.driver.conn).noted(version)
        noted = maintain(version, "select 1")
        assert noted.partitions == version.partitions != ()
        # The next change of the same partition, and one that has the words of the first.
        for statements in (
            ["alter table t detach partition t1"],
            [
                "alter table t attach partition t1 for values in (1)",
                "select londiste.periodic_maintenance()",
                "alter table t detach partition t1",
            ],
        ):
            for statement in statements[:-1]:
                database.execute(statement)
            with pytest.raises(StateError, match="rows of a partition have changed"):
                maintain(noted, statements[-1])
            noted = kept._describe(kept.driver.conn).noted(noted)
