"""Batches as docs/howto/spark-backfill.md has them: cut at ticks, the last change of a key wins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_batches_that_follow_each_other_have_each_change_once_and_make_the_state(
    spark: Any, new_database: Callable[..., Database], tmp_path: Path
) -> None:
    stream = Stream(spark, new_database(pgq=True), tmp_path)
    stream.table()
    first = stream.tick()
    middle = stream.write(
        "insert into t select i, 'v' || i from generate_series(1, 50) i",
        "update t set v = v || 'x' where id % 3 = 0",
        "delete from t where id % 5 = 0",
    )
    last = stream.write(
        "insert into t select i, 'again' from generate_series(5, 20, 5) i",
        "update t set v = v || 'y' where id % 2 = 0",
        "delete from t where id = 7",
    )
    given = {"payload": None, "tables": "t"}
    halves = [
        stream.read(**given, startingTick=start, endingTick=end)
        for start, end in ((first, middle), (middle, last))
    ]
    frame = stream.read(**given, startingTick=first, endingTick=last)
    places = ("_event_id", "_row")
    parts = [tuple(row) for half in halves for row in half.select(*places).collect()]
    assert sorted(parts) == sorted(tuple(row) for row in frame.select(*places).collect())
    assert len(parts) == len(set(parts))
    page = Path(__file__).parents[2] / "docs" / "howto" / "spark-backfill.md"
    (snippet,) = [
        block.partition("```")[0]
        for block in page.read_text("utf-8").split("```python\n")[1:]
        if "Window" in block.partition("```")[0]
    ]
    words: dict[str, Any] = {"day": frame}
    exec(snippet.replace("/lake/orders_of_the_day", str(tmp_path / "state")), words)
    found = spark.read.parquet(str(tmp_path / "state")).select("id", "v").collect()
    assert sorted(map(tuple, found)) == stream.database.execute("select id, v from t order by 1")
