"""The lag of a query, of the progress that Spark reports."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

import londiste.spark
from londiste.engine.spark.stream.lag_listener import Lag, lag


def offset(tick: int, seq: int | None, time: str = "2026-01-01T00:00:00+00:00") -> str:
    return json.dumps(
        {"tick": tick, "time": time, **({} if seq is None else {"seq": seq}), "queue": "x"}
    )


def test_the_lag_is_the_difference_of_two_offsets() -> None:
    newest = offset(9, 1_500, "2026-01-01T00:00:02.500000+00:00")
    assert lag(offset(7, 1_000), newest) == (7, 500, 2.5)
    assert lag(newest, offset(7, 1_000)) == (9, 0, 0.0)
    # An offset of an earlier release, of another source, and of a query that has read nothing.
    for other in (offset(7, None), '{"topic": {"0": 7}}', "null", None, "x"):
        assert lag(other, newest) is None and lag(newest, other) is None


def test_each_source_of_a_query_is_reported() -> None:
    told: list[Lag] = []
    listener = londiste.spark.lag_listener(told.append)
    sources = [
        SimpleNamespace(endOffset="7", latestOffset="8"),
        SimpleNamespace(endOffset=offset(7, 10), latestOffset=offset(8, 30)),
    ]
    progress = SimpleNamespace(name="orders", id="1", sources=sources)
    listener.onQueryProgress(SimpleNamespace(progress=progress))
    assert told == [Lag("orders", 1, 7, 20, 0.0)]
