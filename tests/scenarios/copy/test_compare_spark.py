"""``compare`` and ``repair`` on Spark, between servers of different releases."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cluster import Server
from tests.fixtures.line import Line, LineNode
from tests.fixtures.spark import SparkCluster, end, send, standing, task_standing
from tests.integration.compare.test_compare import damage

SCHEMA = """
create table big (id int primary key, filler text) with (fillfactor = 10);
alter table big alter filler set storage plain;
create table words (w text primary key, n numeric);
"""
FILL = """
insert into big select i, repeat(md5(i::text), 18) from generate_series(1, 12000) i;
insert into words select md5(i::text), i from generate_series(1, 20000) i;
analyze;
"""
DAMAGE = """
update big set filler = 'wrong' where id in (1, 6000);
delete from big where id = 12000;
insert into words values ('new', 1.0);
update words set n = null where n = 7;
"""
#: Rows that differ.
COUNTS = {"public.big": (1, 0, 2), "public.words": (0, 1, 1)}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("old", "new"), [(15, 18), (18, 16)])
def test_what_spark_finds_is_what_is_there_and_repair_mends_it(
    line: Line, server_of: Callable[[int], Server], old: int, new: int
) -> None:
    leaf = filled(line, "local[2]", server_of(old), server_of(new))
    assert found(line, leaf, code=0) == dict.fromkeys(COUNTS, (0, 0, 0))
    damage(leaf, DAMAGE)
    assert found(line, leaf, code=3) == COUNTS
    done = line.processes.run(line._argv(leaf, "repair", "--apply"), None, seconds=300)
    assert done.code == 0, str(done)
    assert found(line, leaf, code=0) == dict.fromkeys(COUNTS, (0, 0, 0))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_comparison_makes_up_for_an_executor_killed_in_the_middle_of_a_range(
    line: Line, tmp_path: Path
) -> None:
    cluster = SparkCluster.start(line.processes, tmp_path, standing("compare.mid-range", tmp_path))
    leaf = filled(line, cluster.master)
    damage(leaf, DAMAGE)
    comparison = line.processes.start("comparison", line._argv(leaf, "compare", "--json"))
    task = task_standing(line.processes, tmp_path)
    assert len(cluster.executors()) == 2
    end(cluster.executor_of(task))
    # Nobody waits for it any more, and it says what it knows all the same.
    send(task, signal.SIGCONT)
    assert comparison.wait(600) == 3, comparison.said()
    assert "Spark: a task was lost" in comparison.said()
    (answer,) = re.findall(r"^\{.*\}$", comparison.said(), re.MULTILINE)
    assert counts(answer) == COUNTS


def filled(
    line: Line, master: str, old: Server | None = None, new: Server | None = None
) -> LineNode:
    """A leaf in step with its root, which compares on Spark."""
    settings = {"engine": "spark", "spark_min_bytes": 0}
    root = line.node("root", NodeType.ROOT, on=old, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, on=new, schema=SCHEMA, **settings)
    with leaf.config.open("a") as file:
        file.write(f'[spark]\n"spark.master" = "{master}"\n"spark.executor.memory" = "512m"\n')
    for node in (root, leaf):
        node.database.execute(FILL)
        line.add(node, "big", "words", expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    return leaf


def found(line: Line, node: LineNode, *, code: int) -> dict[str, tuple[int, int, int]]:
    done = line.processes.run(line._argv(node, "compare", "--json"), None, seconds=300)
    assert done.code == code, str(done)
    return counts(done.out)


def counts(answer: str) -> dict[str, tuple[int, int, int]]:
    """Of each table: the rows that are missing, too many, and different."""
    tables = json.loads(answer)["tables"]
    return {t["table"]: (t["missing"], t["extra"], t["differs"]) for t in tables}
