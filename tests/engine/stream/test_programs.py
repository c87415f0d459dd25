"""Programs of the pages about Spark, with the rows of their targets compared to SQL."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import londiste.spark
from tests.fixtures.cluster import Database
from tests.fixtures.spark import run_query
from tests.fixtures.stream import Stream
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

PAGES = Path(__file__).parents[3] / "docs/howto"


def program(page: str, number: int) -> str:
    """A block of Python in a page."""
    text = (PAGES / page).read_text(encoding="utf-8")
    found = re.findall(r"^ *```python\n(.*?)^ *```", text, re.M | re.S)[number]
    lines: list[str] = found.splitlines()
    depth = min(len(line) - len(line.lstrip()) for line in lines if line)
    return "\n".join(line[depth:] for line in lines)


def test_rows_that_leave_the_region_leave_the_target(
    spark: Any, new_database: Callable[..., Database], tmp_path: Path
) -> None:
    columns = "id int primary key, region text, state text"
    stream = Stream(spark, new_database(pgq=True), tmp_path)
    stream.table(columns, "orders")
    mart = new_database(pgq=True)
    mart.execute(f"create table orders ({columns})")
    mart.execute("create table states (id int primary key, state text)")
    places = {
        'service="shop", queue="shop"': f'dsn="{stream.database.dsn}", queue="q",'
        ' startingOffsets="earliest"',
        'service="mart"': f'dsn="{mart.dsn}"',
        "/lake/": f"{tmp_path}/",
    }
    first, second = program("spark-tables.md", 0), program("spark-tables.md", 1)
    for name, value in places.items():
        assert name in first
        first = first.replace(name, value)
    chance = random.Random(11)
    stream.write(
        "insert into orders select i, (array['north', 'south', null])[1 + i % 3], 'new'"
        " from generate_series(1, 300) i"
    )
    told: list[Any] = []
    listener = londiste.spark.lag_listener(told.append)
    spark.streams.addListener(listener)
    for _ in range(2):
        known: dict[str, Any] = {}
        exec(first, known)
        known["query"].stop()
        known["orders"] = stream.load(payload="typed", tables="orders", consumer="states")
        exec(second, known)
        run_query(
            known["north"]
            .writeStream.format("pgq_table")
            .options(dsn=mart.dsn, table="states", sinkId="states")
            .option("checkpointLocation", str(tmp_path / "states"))
            .trigger(availableNow=True)
            .start,
            300,
        )
        wanted = "select id, state from orders where region = 'north' order by id"
        north = stream.database.execute(wanted)
        assert mart.execute("select id, state from orders order by id") == north
        assert mart.value("select count(*) from orders where region <> 'north'") == 0
        assert mart.execute("select * from states order by id") == north
        stream.write(
            *(
                f"update orders set region = '{chance.choice(['north', 'south'])}',"
                f" state = 'moved' where id % 7 = {chance.randint(0, 6)}"
                for _ in range(4)
            ),
            "update orders set id = id + 1000 where id % 5 = 0",
            "delete from orders where id % 11 = 0",
            "update orders set region = null where id % 13 = 0",
        )
    newest = wait_for(lambda: [lag for lag in told if lag.events == 0], what="a report of the lag")
    spark.streams.removeListener(listener)
    assert {lag.seconds for lag in newest} == {0.0}
