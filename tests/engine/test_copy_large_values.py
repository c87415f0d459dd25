"""Values of half a gigabyte go through a copy, and rows beyond what COPY takes are named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from londiste.db.names import TableName
from londiste.engine.base import Engine
from londiste.errors import LondisteError, StateError
from tests.engine.conftest import Pair

TABLE = TableName("public", "t")
MB = 1024 * 1024
VALUES = {
    "text": f"repeat('x', {512 * MB})",
    "bytea": f"decode(repeat('ab', {256 * MB}), 'hex')",
    "jsonb": f"jsonb_build_array(repeat('x', {125 * MB}), repeat('y', {125 * MB}))",
}
#: A copy in a process of its own, which prints the most memory that it has had.
COPY = """
import pickle, re, sys
from londiste.engine import tasks
with open(sys.argv[1], "rb") as file:
    for task in tasks.chunk_tasks(pickle.load(file)):
        tasks.copy_chunk(task)
with open("/proc/self/status") as file:
    print(re.search(r"VmHWM:\\s+(\\d+) kB", file.read())[1])
"""


def with_value(pair: Pair, type_name: str, value: str) -> None:
    # Values that compress well: the disks hold next to nothing of them.
    pair.both(f"create table public.t (id int, v {type_name})")
    pair.source.execute("insert into public.t select i, null from generate_series(1, 10) i")
    pair.source.execute(f"update public.t set v = {value} where id = 5")


def same(pair: Pair, type_name: str) -> bool:
    rows = "select id, md5(v::text) from public.t order by id"
    if type_name == "bytea":
        rows = "select id, md5(v) from public.t order by id"
    return bool(pair.target.execute(rows) == pair.source.execute(rows))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type_name", "binary"), [("text", True), ("bytea", False), ("jsonb", True)]
)
def test_a_very_large_value_is_copied(
    carrier: Engine, pair: Pair, type_name: str, binary: bool
) -> None:
    with_value(pair, type_name, VALUES[type_name])
    done = list(carrier.copy(pair.spec(TABLE, binary=binary), 2))
    assert sum(one.rows for one in done) == 10
    assert same(pair, type_name)


@pytest.mark.slow
def test_a_task_needs_as_much_memory_as_the_largest_row(pair: Pair, tmp_path: Path) -> None:
    import pickle

    with_value(pair, "text", VALUES["text"])
    file = tmp_path / "spec"
    file.write_bytes(pickle.dumps(pair.spec(TABLE)))
    answer = subprocess.run(
        [sys.executable, "-c", COPY, str(file)], capture_output=True, text=True, check=True
    )
    assert same(pair, "text")
    assert int(answer.stdout) * 1024 < 512 * MB + 100 * MB


@pytest.mark.slow
def test_a_row_that_does_not_fit_into_copy_is_named(carrier: Engine, pair: Pair) -> None:
    pair.both("create table public.t (id int, note text, a text, b text)")
    pair.source.execute(f"insert into public.t values (1, 'n', repeat('a', {600 * MB}))")
    pair.source.execute(f"update public.t set b = repeat('b', {500 * MB})")
    with pytest.raises(LondisteError) as caught:
        list(carrier.copy(pair.spec(TABLE), 2))
    assert isinstance(caught.value, StateError)
    assert "table public.t: a row is larger than 1 GB" in caught.value.message
    assert caught.value.message.endswith("column a, b")
    assert "a 629 MB, b 524 MB" in caught.value.detail
    assert pair.target.value("select count(*) from public.t") == 0


@pytest.mark.slow
def test_bytes_that_fit_in_binary_and_not_as_text_are_named(carrier: Engine, pair: Pair) -> None:
    with_value(pair, "bytea", f"decode(repeat('ab', {500 * MB}) , 'hex')")
    pair.source.execute(
        f"update public.t set v = v || decode(repeat('cd', {100 * MB}), 'hex') where id = 5"
    )
    with pytest.raises(LondisteError, match=r"does not fit into COPY.*: column v"):
        list(carrier.copy(pair.spec(TABLE), 2))
    list(carrier.copy(pair.spec(TABLE, binary=True), 2))
    assert same(pair, "bytea")
