"""Columns that get another type under one checkpoint, and numbers that do not fit."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from londiste.errors import EventError, StateError
from tests.engine.test_stream_driver import batch, rows, source
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream

TYPED = {"payload": None, "tables": "t"}


@pytest.fixture
def stream(new_database: Callable[..., Database], tmp_path: Path) -> Stream:
    made = Stream(None, new_database(pgq=True), tmp_path)
    made.table("id int primary key, n numeric, p numeric(9,2)")
    return made


def opened(stream: Stream, **more: Any) -> Any:
    given = source(stream, **TYPED, **more)
    return given.streamReader(given.schema())


def test_a_column_of_another_type_is_refused_with_the_way_out(stream: Stream) -> None:
    stream.write("insert into t values (1, 1.5, 2)")
    reader = opened(stream)
    begin = reader.initialOffset()
    end, found = batch(reader, begin)
    assert [row["n"] for row in found] == [Decimal("1.5")]
    reader.stop()
    stream.write("insert into t values (2, 2.5, 2)")
    texts = opened(stream, stringColumns="n")
    # Neither the next batch, nor one that Spark repeats.
    for ask in (
        lambda: texts.latestOffset(end, texts.getDefaultReadLimit()),
        lambda: texts.partitions(begin, end),
    ):
        with pytest.raises(StateError, match=r"column n was decimal\(38,18\), .* string") as caught:
            ask()
        hint = caught.value.hint or ""
        assert "stringColumns" in hint and "onTypeChange=ignore" in hint
        assert re.search("startingTick=[0-9]+", hint)
    texts.stop()
    either = opened(stream, stringColumns="n", onTypeChange="ignore")
    assert [row["n"] for row in batch(either, end)[1]] == ["2.5"]
    either.stop()
    # An offset of an earlier release does not tell; an added column has another checkpoint's files.
    old = {name: value for name, value in end.items() if name not in ("types", "seq")}
    texts = opened(stream, stringColumns="n")
    assert [row["n"] for row in batch(texts, old)[1]] == ["2.5"]
    texts.stop()
    stream.write("alter table t add more int")
    again = opened(stream, missingColumns="null")
    last, found = batch(again, end)
    assert [(row["n"], row["more"]) for row in found] == [(Decimal("2.5"), None)]
    assert last["types"] == {
        "id": "int",
        "n": "decimal(38,18)",
        "p": "decimal(9,2)",
        "more": "int",
    }
    assert again.latestOffset(last, again.getDefaultReadLimit()) == last
    again.stop()


def test_digits_that_do_not_fit_are_named_at_the_start_or_rounded(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    stream.write(
        "insert into t values (1, 0.1234567890123456785, 1.005), (2, -0.0000000000000000005, 1)",
        "insert into t values (3, 1, 1)",
    )
    with caplog.at_level(logging.WARNING):
        source(stream, **TYPED, consumer=None, unsupportedValues="round").schema()
        assert not caplog.messages
        given = source(stream, **TYPED, consumer=None)
        given.schema()
    assert [line for line in caplog.messages if "numeric without limits in columns n:" in line]
    with pytest.raises(EventError, match="column n of table") as caught:
        reader = given.reader(given.schema())
        rows(reader, reader.partitions())
    assert "unsupportedValues=round" in (caught.value.hint or "")
    for mode in ({}, {"mode": "snapshot", "startingOffsets": None}):
        given = source(stream, **TYPED, consumer=None, unsupportedValues="round", **mode)
        reader = given.reader(given.schema())
        found = {row["id"]: row["n"] for row in rows(reader, reader.partitions())}
        assert found == {
            1: Decimal("0.123456789012345679"),
            2: Decimal("-0.000000000000000001"),
            3: Decimal(1),
        }
    stream.write("insert into t values (4, 'NaN', 1)")
    given = source(stream, **TYPED, consumer=None, unsupportedValues="round")
    reader = given.reader(given.schema())
    with pytest.raises(EventError, match="column n of table"):
        rows(reader, reader.partitions())
