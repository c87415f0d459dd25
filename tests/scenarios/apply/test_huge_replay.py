"""A worker's memory is bounded, whatever lies between two ticks.

The worker is a process of its own; the largest memory of that process is what is held against the
limit.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line, LineNode
from tests.fixtures.process import ROOT

LIMIT_MB = 300
SCHEMA = "create table t (id bigint primary key, a int, v text, n numeric, d timestamptz)"


def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "public.t")
    line.tick()
    line.once(leaf)
    line.add(leaf, "public.t")
    return root, leaf


#: Runs the program and leaves in a file what its memory was at most, in kB.  What wait4 says may be
#: the memory of whoever started it.
PEAK = """
import runpy, sys
path = sys.argv.pop(1)
try:
    runpy.run_module("londiste", run_name="__main__", alter_sys=True)
finally:
    with open("/proc/self/status") as status, open(path, "w") as peak:
        peak.write(next(line for line in status if line.startswith("VmHWM:")).split()[1])
"""


def _replay(leaf: LineNode) -> int:
    """Runs the worker until nothing is left; the largest memory it had, in MB."""
    peak = leaf.config.with_suffix(".peak")
    subprocess.run(
        [sys.executable, "-c", PEAK, peak, "-q", "-c", str(leaf.config), "worker", "--once"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    return int(peak.read_text()) // 1024


def _same(root: LineNode, leaf: LineNode) -> None:
    query = "select count(*), sum(hashtextextended(t::text, 0)) from t"
    assert leaf.database.execute(query) == root.database.execute(query)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [150_000, pytest.param(2_000_000, marks=pytest.mark.slow)])
def test_a_batch_of_any_number_of_rows_is_replayed_in_bounded_memory(
    line: Line, count: int
) -> None:
    root, leaf = _pair(line)
    root.database.execute(
        "insert into t select i, i % 1000, 'row ' || i, i / 7.0,"
        f" timestamptz '2024-01-01' + i * interval '1 s' from generate_series(1, {count}) i;"
        f"update t set a = a + 1 where id % 3 = 0; delete from t where id > {count * 2 // 3}"
    )
    line.tick()
    megabytes = _replay(leaf)
    print(f"{count} rows: {megabytes} MB")
    _same(root, leaf)
    assert megabytes < LIMIT_MB


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("rows", "text", "times"),
    [(6, r"x\n", 5_000_000), pytest.param(40, "x", 50_000_000, marks=pytest.mark.slow)],
    ids=["small", "huge"],
)
def test_long_rows_are_replayed_one_at_a_time(line: Line, rows: int, text: str, times: int) -> None:
    root, leaf = _pair(line)
    root.database.execute(
        f"insert into t select i, i, repeat(E'{text}', {times}) || i"
        f" from generate_series(1, {rows}) i"
    )
    line.tick()
    megabytes = _replay(leaf)
    print(f"{rows} long rows: {megabytes} MB")
    _same(root, leaf)
    # The row is in the buffers of both connections, and twice in the program.
    assert megabytes < LIMIT_MB
