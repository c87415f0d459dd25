"""A lake whose position is lost, or belongs to another queue, says what works for its mode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from londiste.db.names import TableName
from londiste.engine.spark.stream.offsets import BEFORE_SNAPSHOT
from londiste.errors import PositionLost
from londiste.lake import columns
from londiste.lake.table import LakeTable
from londiste.lake.worker import LakeWorker
from londiste.pgq import batches
from tests.fixtures.cluster import Database
from tests.fixtures.lake import Lake
from tests.fixtures.stream import Stream


@pytest.fixture
def bare(new_database: Callable[..., Database], tmp_path: Path) -> Lake:
    """A lake without Spark, whose table has no row."""
    made = Lake(Stream(None, new_database(pgq=True), tmp_path), tmp_path / "lake", {})
    made.stream.table()
    made.stream.tick()
    return made


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
