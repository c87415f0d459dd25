"""Results of the tasks of large batches: a result is stored as text and read back as it was."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from londiste.changes.types import SystemEvent
from londiste.db.names import TableName
from londiste.handlers.dispatch import TargetTable
from londiste.replication.parallel.slices import TRUNCATE, SliceChunk, StagedSlice
from londiste.tools.dispatch.staged import DispatchedSlice

TABLE = TableName("sch.ema", 't€"x')
CHUNKS = [SliceChunk(1, TABLE, "insert", ("a", "b"), ("a",), 3), SliceChunk(2, TABLE, TRUNCATE)]


def test_a_result_is_read_back_as_it_was():
    staged = StagedSlice(
        5,
        4,
        CHUNKS,
        [SystemEvent(1, 2, "pgq.location-info", "€", None, None, "x")],
        {TABLE: "why", TableName("a", "b"): "another reason"},
    )
    assert StagedSlice.load(staged.dump()) == staged


def test_the_text_fits_a_database_of_any_encoding():
    assert StagedSlice(chunks=CHUNKS, left={TABLE: "€"}).dump().isascii()


def test_partitions_of_a_dispatched_slice_keep_their_time_and_key():
    time = datetime(2026, 1, 1, 3, 4, 5, 67, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    places = [
        (TABLE, TABLE, TargetTable(TABLE, time, ("k", "v"))),
        (TABLE, TABLE, TargetTable(TABLE)),
    ]
    staged = DispatchedSlice(5, 5, CHUNKS, left_out=3, places=places)
    assert DispatchedSlice.load(staged.dump()) == staged


def test_a_refused_slice_is_one_of_every_kind_of_task():
    refused = StagedSlice(refused="event 7 is a script").dump()
    assert DispatchedSlice.load(refused) == DispatchedSlice(refused="event 7 is a script")
