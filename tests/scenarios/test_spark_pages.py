"""The programs of the how-to pages about Spark, as they stand there, each page in one process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cli import cli
from londiste.cli.errors import run as run_command
from tests.fix_cluster import Database
from tests.scenarios.processes import Done, Processes

PAGES = Path(__file__).parents[2] / "docs" / "howto"

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

#: What the reader of a page has already.
PRELUDE = """
import psycopg
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").getOrCreate()


def shop(*statements):
    with psycopg.connect("service=shop", autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement)
        conn.execute("select pgq.force_tick('shop')")
        return conn.execute("select pgq.ticker('shop')").fetchone()[0]


def ended(query):
    query.processAllAvailable()
    query.stop()
"""

SCHEMA = (
    "create table public.orders (id int primary key, region text not null, amount numeric(9,2))"
)
ROWS = (
    "insert into orders select i, case i % 2 when 0 then 'north' else 'south' end, i"
    " from generate_series({}, {}) i"
)


class Reader:
    """Pastes the programs of a page, and looks at what comes of them."""

    def __init__(
        self, processes: Processes, new_database: Callable[..., Database], directory: Path
    ) -> None:
        self.processes, self.directory = processes, directory
        self.shop, self.mart = new_database(pgq=True), new_database(pgq=True)
        for database in (self.shop, self.mart):
            database.execute(SCHEMA)
        self.services = directory / "pg_service.conf"
        self.services.write_text(
            "".join(
                f"[{name}]\n" + "\n".join(database.dsn.split()) + "\n"
                for name, database in (("shop", self.shop), ("mart", self.mart))
            )
        )
        settings = directory / "shop.toml"
        settings.write_text(
            f'[londiste]\ndb = "{self.shop.dsn}"\nqueue_name = "shop"\njob_name = "shop_worker"\n'
        )
        for argv in (["create-root", "shop", self.shop.dsn], ["add-table", "public.orders"]):
            assert run_command(cli, ["-c", str(settings), *argv]) == 0

    def paste(self, page: str, *between: str, **others: str) -> Done:
        """Runs the programs of a page; behind each what ``between`` has for it.

        others -- what stands in the place of these words.
        """
        text = (PAGES / page).read_text("utf-8")
        programs = [rest.partition("```")[0] for rest in text.split("```python\n")[1:]]
        assert len(programs) == len(between), f"{page} has {len(programs)} programs"
        whole = PRELUDE + "".join(f"{p}\n{b}\n" for p, b in zip(programs, between, strict=True))
        for old, new in {"/lake/": f"{self.directory}/lake/", **others}.items():
            whole = whole.replace(old, new)
        program = self.directory / f"{Path(page).stem}.py"
        program.write_text(whole)
        done = self.processes.run(
            [sys.executable, str(program)], {"PGSERVICEFILE": str(self.services)}, seconds=900
        )
        assert done.code == 0, str(done)
        return done


@pytest.fixture
def reader(processes: Processes, new_database: Callable[..., Database], tmp_path: Path) -> Reader:
    return Reader(processes, new_database, tmp_path)


def test_changes_become_files(reader: Reader) -> None:
    done = reader.paste(
        "spark-streams.md",
        f'shop("{ROWS.format(1, 10)}", "delete from orders where id = 4")\nended(query)\n'
        'print("changes", spark.read.parquet("/lake/orders").groupBy("_change_type").count()'
        '.orderBy("_change_type").collect())',
        'print("rows", spark.read.parquet("/lake/orders_now").count())',
    )
    assert "Row(_change_type='delete', count=1), Row(_change_type='insert', count=10)" in done.out
    assert "rows 9" in done.out


def test_rows_become_events(reader: Reader) -> None:
    reader.shop.execute("select pgq.create_queue('alarms')")
    feed = reader.directory / "feed"
    feed.mkdir()
    (feed / "1.json").write_text('{"id": 1, "what": "smoke"}\n{"id": 2, "what": "water"}\n')
    before = f'alarms = spark.readStream.schema("id int, what string").json("{feed}")'
    reader.paste(
        "spark-enqueue.md",
        'ended(query)\ndf = spark.createDataFrame([(3, "fire")], "id int, what string")',
        "",
        **{"import londiste.spark": f"import londiste.spark\n{before}"},
    )
    reader.shop.execute("select pgq.register_consumer_at('alarms', 'me', 1)")
    reader.shop.execute("select pgq.force_tick('alarms')")
    reader.shop.execute("select pgq.ticker('alarms')")
    events = reader.shop.execute(
        "select ev_type, ev_data from pgq.next_batch('alarms', 'me') b, pgq.get_batch_events(b)"
        " order by 2"
    )
    assert events == [
        ("alarm", '{"id":1,"what":"smoke"}'),
        ("alarm", '{"id":2,"what":"water"}'),
        ("alarm", '{"id":3,"what":"fire"}'),
    ]


def test_a_table_follows_what_a_query_lets_through(reader: Reader) -> None:
    reader.paste(
        "spark-tables.md",
        f'shop("{ROWS.format(1, 10)}", "delete from orders where id = 4")\nended(query)\n',
        "",
    )
    wanted = "select id, amount from orders where region = 'north' order by id"
    assert reader.mart.execute("select id, amount from orders order by id") == reader.shop.execute(
        wanted
    )
    assert len(reader.mart.execute(wanted)) == 4


def test_a_batch_is_what_lies_between_two_ticks(reader: Reader) -> None:
    reader.shop.execute(ROWS.format(1, 10))
    reader.shop.execute("select pgq.force_tick('shop')")
    tick = reader.shop.value("select pgq.ticker('shop')")
    reader.shop.execute(ROWS.format(11, 20))
    began = reader.shop.value("select min(tick_time) from pgq.tick")
    done = reader.paste(
        "spark-backfill.md",
        'print("read", day.count())',
        'print("state", spark.read.parquet("/lake/orders_of_the_day").count())',
        **{"48210": str(tick), "2026-03-01T00:00:00Z": began.isoformat()},
    )
    assert "read 10" in done.out
    assert "state 10" in done.out
