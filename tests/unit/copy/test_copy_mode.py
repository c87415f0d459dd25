"""Copy mode of a table: the choice, key ranges, and required event fields."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter

from londiste.changes.keyed import KeyedType
from londiste.changes.types import Op, RowChange
from londiste.copy.chunking.blocks import MAX_CHUNKS, split
from londiste.copy.chunking.key_ranges import open_end_first
from londiste.copy.mode import CopyMode, ModeFacts, choose, reads_by_key
from londiste.db.key_ranges import ranges
from londiste.db.names import TableName
from londiste.db.table_fingerprint import Fingerprint, MarkedColumn, added, changed
from londiste.engine.spec import Chunk
from londiste.errors import PartialEvent, UsageError
from londiste.pgq.types import Event
from londiste.replication.apply.routing import Upsert

GB = 1 << 30
FACTS = ModeFacts("public.a", "auto", 20 * GB, 10 * GB, key=("id",))


def test_a_large_table_is_copied_so_that_it_can_be_resumed() -> None:
    reason = "at least resumable_copy_min_bytes (10 GB)"
    assert choose(FACTS) == CopyMode("resumable", reason)
    assert choose(replace(FACTS, bytes=10 * GB)).mode == "resumable"


def test_a_small_table_is_copied_in_one_snapshot() -> None:
    assert choose(replace(FACTS, bytes=10 * GB - 1)) == CopyMode(
        "snapshot", "smaller than resumable_copy_min_bytes (10 GB)"
    )


def test_what_was_asked_for_is_done_whatever_the_size() -> None:
    assert choose(replace(FACTS, wanted="snapshot")) == CopyMode("snapshot", "requested")
    assert choose(replace(FACTS, wanted="resumable", bytes=0)) == CopyMode("resumable", "requested")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FACTS, key=()), "no primary key"),
        (replace(FACTS, key_here=False), "no unique index on id"),
        (replace(FACTS, keeps_rows=True), "skip_truncate"),
        (replace(FACTS, shared=True), "several queues"),
        (replace(FACTS, missing=("g",)), "columns that the source computes: g"),
        (replace(FACTS, obstacle="its capture leaves out columns"), "leaves out columns"),
        (replace(FACTS, refused="event 7 does not"), "event 7 does not"),
    ],
)
def test_a_table_that_cannot_be_resumed_is_copied_in_one_snapshot(
    facts: ModeFacts, reason: str
) -> None:
    way = choose(facts)
    assert way.mode == "snapshot"
    assert reason in way.reason
    with pytest.raises(UsageError) as caught:
        choose(replace(facts, wanted="resumable"))
    assert reason in caught.value.detail


def reads(correlation: float | None, **more: float) -> float:
    table = {"size": 20 * GB, "pages": 20 * GB // 8192, "rows": 100e6, "chunks": 160, **more}
    return reads_by_key(correlation=correlation, **table)  # type: ignore[arg-type]


def test_a_table_of_random_keys_is_copied_in_one_snapshot_unless_it_is_asked_for() -> None:
    assert 30 < reads(0.0) < 40
    scattered = replace(FACTS, reads=reads(0.002))
    found = choose(scattered)
    assert found.mode == "snapshot"
    assert "would read the table 34 times" in found.reason
    assert choose(replace(scattered, wanted="resumable")).mode == "resumable"


def test_keys_in_order_or_in_memory_or_unknown_are_no_reason_against_ranges() -> None:
    for one in (reads(1.0), reads(-1.0), reads(None), reads(0.0, size=GB // 2)):
        assert one == 1.0
    for one in (reads(0.99), reads(0.0, rows=0), reads(0.0, chunks=1)):
        assert choose(replace(FACTS, reads=one)).mode == "resumable"
    # A row fills a block and more.
    assert reads(0.0, rows=1e6) < 1.5


def test_ranges_leave_nothing_out_and_quote_what_they_name() -> None:
    names, types = ['a"b', "n"], ["text", "numeric(5,2)"]
    assert ranges([("x'\\", "1.50"), ("y", "2"), ("y", "2")], names, types) == [
        "(\"a\"\"b\", \"n\") < (E'x''\\\\'::text, E'1.50'::numeric(5,2))",
        "(\"a\"\"b\", \"n\") >= (E'x''\\\\'::text, E'1.50'::numeric(5,2))"
        ' and ("a""b", "n") < (E\'y\'::text, E\'2\'::numeric(5,2))',
        '("a""b", "n") >= (E\'y\'::text, E\'2\'::numeric(5,2))',
    ]
    assert ranges([], names, types) == [""]
    assert ranges([("7",)], ["id"], ["bigint"]) == [
        "\"id\" < E'7'::bigint",
        "\"id\" >= E'7'::bigint",
    ]


def test_a_table_of_the_largest_size_has_ranges_of_blocks_that_leave_none_out() -> None:
    pages = 2**32 - 2
    found = split(
        TableName("public", "t"),
        pages=pages,
        total_bytes=pages * 8192 + (1 << 44),
        rows=1e13,
        chunk_bytes=128 << 20,
    )
    assert len(found) == MAX_CHUNKS
    numbers = [int(n) for chunk in found for n in re.findall(r"'\((\d+),0\)'", chunk.condition)]
    # Every bound is the end of one range and the beginning of the next.
    assert sorted(numbers) == sorted([n for n in set(numbers) for _ in range(2)])
    assert 2**31 < max(numbers) < 2**32
    assert "<" not in found[-1].condition and ">" not in found[0].condition
    assert sum(chunk.bytes for chunk in found) <= pages * 8192 + (1 << 44)


def test_the_range_without_an_end_is_copied_first() -> None:
    chunks = [Chunk(TableName("public", "a"), number, "", 1, 1) for number in (1, 3, 4)]
    assert [chunk.number for chunk in open_end_first(chunks, 4)] == [4, 1, 3]
    assert [chunk.number for chunk in open_end_first(chunks[:2], 4)] == [1, 3]


def mark(*columns: MarkedColumn, oid: int = 1, filenode: int = 1) -> Fingerprint:
    return Fingerprint(oid, filenode, columns)


ID, V = (
    MarkedColumn("id", 1, "int", "10", False, False),
    MarkedColumn("v", 2, "text", "10", False, False),
)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (mark(ID, V), ""),
        (mark(ID, V, filenode=2), ""),
        (mark(ID, V._replace(version="11")), ""),
        (mark(ID, V._replace(version="11"), filenode=2), "rewritten its columns"),
        (mark(ID, V, MarkedColumn("w", 3, "int", "12", True, False), filenode=2), ""),
        (mark(ID, V._replace(type="integer")), "another type"),
        (mark(ID, V._replace(generated=True)), "another type"),
        (mark(ID, V._replace(number=3)), "dropped, or is another column"),
        (mark(ID), "dropped, or is another column"),
        (mark(ID, V, oid=2), "another table"),
        (None, "the table was dropped"),
    ],
)
def test_what_makes_a_table_another_one(now: Fingerprint | None, reason: str) -> None:
    found = changed(mark(ID, V), now, ["id", "v"])
    assert reason in found
    assert bool(found) == bool(reason)


def test_a_new_column_matters_when_both_sides_have_it_and_it_has_a_default() -> None:
    new = MarkedColumn("w", 3, "int", "12", True, False)
    pairs = [("id", "id"), ("v", "v")]
    assert added(mark(ID, V, new), mark(ID, V), pairs) == ""
    assert added(mark(ID, V), mark(ID, V, new), pairs) == ""
    assert added(mark(ID, V, new._replace(default=False)), mark(ID, V, new), pairs) == ""
    assert added(mark(ID, V, new), mark(ID, V, new), pairs)


def test_a_mark_survives_being_stored() -> None:
    stored = TypeAdapter(Fingerprint).dump_json(mark(ID, V))
    assert TypeAdapter(Fingerprint).validate_json(stored) == mark(ID, V)


KIND = '{"op":"UPDATE","table":["public","a"],"pkey":["id"],"row":"3fa9c1d2"}'
EVENT = Event(1, datetime.now(UTC), 5, None, KIND, "{}", "public.a", None, "1", None)
CHANGE = RowChange(1, 5, TableName("public", "a"), Op.UPDATE, ("id",), {"id": "1", "v": "x"})


def test_an_update_is_what_the_row_is_and_a_delete_that_there_is_none() -> None:
    by_state = Upsert(("id",), frozenset({"id", "v"}))
    after = by_state.change(EVENT, CHANGE)
    assert (after.op, after.state) == (Op.INSERT, True)
    what = KeyedType(Op.DELETE, "public.a", ("id",), "", False, True)
    assert by_state.type(what) == what._replace(state=True)
    assert by_state.type(None) is None


@pytest.mark.parametrize(
    ("kind", "image", "key"),
    [
        (KIND, {"id": "1"}, ("id",)),
        (KIND, {"id": "1", "v": "x"}, ("v",)),
        (KIND.replace(',"row":"3fa9c1d2"', ""), {"id": "1", "v": "x"}, ("id",)),
        ("U:id", {"id": "1", "v": "x"}, ("id",)),
    ],
)
def test_an_event_that_does_not_tell_a_whole_row_is_refused(
    kind: str, image: dict[str, str | None], key: tuple[str, ...]
) -> None:
    by_state = Upsert(key, frozenset({"id", "v"}))
    with pytest.raises(PartialEvent, match="event 1: table public"):
        by_state.change(EVENT._replace(type=kind), CHANGE._replace(image=image))
