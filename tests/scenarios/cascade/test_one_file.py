"""A cascade as one file under writes: applied, run, changed; every interruption is survived."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from londiste.cascadefile.wanted import wanted
from londiste.db.names import TableName
from londiste.settings import cascade_file
from londiste.settings.cascade_keys import TablesSection
from tests.fixtures.one_file import OneFile
from tests.fixtures.process import Program
from tests.support.waiting import wait_for, written_meanwhile

TABLES = '\n[tables]\ninclude = ["a"]\n'
WORKER = '[worker]\nengine = "local"\npoll_interval = 0.2\n[run]\nmax_retry_delay = 1\n'


def writing(dsn: str) -> contextlib.AbstractContextManager[None]:
    """Tables a and b of the root are written in the with block."""

    def write(conn: psycopg.Connection[Any], number: int) -> None:
        for table in "ab":
            conn.execute(
                f"insert into {table} values (%s, 'x') on conflict (id) do update set v = 'y'",
                [number % 500 + 1],
            )

    return written_meanwhile(lambda: psycopg.connect(dsn, autocommit=True), write, least=10)


def rows(file: OneFile, node: str, table: str, where: str = "true") -> Any:
    query = f"select count(*), md5(string_agg(t::text, ' ' order by id)) from public.{table} t"
    with file.db[node].connect() as conn:
        return conn.execute(f"{query} where {where}").fetchone()


def same(file: OneFile, table: str, partial: str = "", where: str = "true") -> None:
    """Waits until all nodes have the root's rows; node ``partial`` those that match ``where``."""
    for node in file.db:
        condition = where if node == partial else "true"

        def equal(node: str = node, condition: str = condition) -> bool:
            return bool(rows(file, node, table) == rows(file, "n1", table, condition))

        wait_for(equal, what=f"{table} of {node} like the root's")


_START = r"queue=-: (.*) started with .* (\d+)"


def processes(text: str) -> dict[str, int]:
    """The newest process of each daemon, from the log."""
    return {name: int(pid) for name, pid in re.findall(_START, text)}


def living(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            found.append(pid)
    return found


def begin(file: OneFile, roles: dict[str, str], program: Callable[..., Program]) -> Program:
    file.write(roles, TABLES + WORKER)
    file.db["n1"].execute(
        "create table a (id int primary key, v text); create table b (like a including all);"
        " insert into a select i, 'x' from generate_series(1, 300) i"
    )
    assert file("apply").code == 0
    return program("-c", str(file.path), "run")


def change_under_writes(
    file: OneFile,
    program: Callable[..., Program],
    before: dict[str, str],
    after: dict[str, str],
    partial: str,
) -> None:
    """A table is added, a filter of node ``partial`` changed, a node moved; ``apply`` is killed."""
    runs = begin(file, before, program)
    same(file, "a")
    moved = next(name for name in after if before[name] != after[name])
    provider = after[moved].rpartition(" ")[2]
    filtered = f'[nodes.{partial}.tables."a"]\nwhere = "id <= 100"\n'
    more = TABLES.replace('"a"', '"a", "b"') + filtered + WORKER
    file.write(after, more)
    found = file.plan()
    assert sorted(found) == sorted(
        [
            *[("add-table", name, ["public.b"]) for name in after],
            ("change-handler", partial, ["public.a"]),
            *([("wait-sync", provider, [])] if provider != "n1" else []),
            ("change-provider", moved, []),
        ]
    )
    with writing(file.db["n1"].dsn):
        assert file.killed_again_and_again("apply") >= len(found)
        runs.signal(signal.SIGHUP)
        runs.says("reloaded the settings: 0 stopped, 0 started")
        for name in after:
            waited = file("--node", name, "wait-sync", "--timeout", "60")
            assert waited.code == 0, waited.err + runs.text
    same(file, "b")
    same(file, "a", partial, "id <= 100")
    compared = file("--node", moved, "compare")
    assert compared.code == 0, compared.out + compared.err
    assert file.plan() == []
    exported_is_the_file(file)
    runs.signal(signal.SIGTERM)
    assert runs.end(within=60) == 0


def exported_is_the_file(file: OneFile) -> None:
    """``export`` gives the same nodes, and a file that needs nothing."""
    other = file.path.with_name("exported.toml")
    other.write_text(file("export").out)
    assert file("plan", path=other).code == 0
    was, found = cascade_file.read(file.path), cascade_file.read(other)
    assert was is not None and found is not None
    whole = TablesSection()
    assert {n: replace(s, tables=whole) for n, s in found.nodes.items()} == {
        n: replace(s, tables=whole) for n, s in was.nodes.items()
    }
    tables = dict.fromkeys([TableName("public", "a"), TableName("public", "b")], False)
    assert wanted(found, tables) == wanted(was, tables)
    assert found.parameters["ticker_max_lag"] == "00:00:00.01"


@pytest.mark.slow
def test_a_change_of_the_file_is_applied_under_writes(
    one_file: OneFile, program: Callable[..., Program]
) -> None:
    before = {"n1": "root", "n2": "branch of n1", "n3": "leaf of n2"}
    change_under_writes(one_file, program, before, {**before, "n3": "leaf of n1"}, "n3")


@pytest.mark.slow
def test_five_nodes_as_one_file(one_file: OneFile, program: Callable[..., Program]) -> None:
    before = {
        "n1": "root",
        "n2": "leaf of n1",
        "n3": "branch of n1",
        "n4": "branch of n1",
        "n5": "leaf of n3",
    }
    change_under_writes(one_file, program, before, {**before, "n5": "leaf of n4"}, "n2")


@pytest.mark.slow
def test_a_moved_node_a_sequence_and_a_removed_leaf_survive_every_kill(
    one_file: OneFile, program: Callable[..., Program]
) -> None:
    before = {"n1": "root", "n2": "branch of n1", "n3": "leaf of n2", "n4": "leaf of n2"}
    runs = begin(one_file, before, program)
    same(one_file, "a")
    one_file.db["n1"].execute(
        "create table c (id serial primary key, v text); insert into c (v) values ('x')"
    )
    after = {"n1": "root", "n2": "branch of n1", "n3": "leaf of n1"}
    filtered = '[nodes.n2.tables."a"]\nwhere = "id <= 100"\n'
    one_file.write(after, TABLES.replace('"a"', '"a", "c"') + filtered + WORKER)
    # The worker of the removed leaf runs until the drop has ended.
    found = one_file.plan()
    assert sorted(kind for kind, *_ in found) == [
        *["add-table"] * 3,
        *("change-handler", "change-provider", "drop-node"),
    ]
    with writing(one_file.db["n1"].dsn):
        arguments = ("apply", "--allow-remove", "--allow-resync")
        assert one_file.killed_again_and_again(*arguments) >= len(found)
        runs.signal(signal.SIGHUP)
        runs.says("reloaded the settings: 1 stopped, 0 started")
        for name in after:
            waited = one_file("--node", name, "wait-sync", "--timeout", "60")
            assert waited.code == 0, waited.err + runs.text
    left = one_file.db.pop("n4")
    assert left.value("select count(*) from pgq_node.node_info") == 0
    assert left.value("select count(*) from a") > 0
    consumers = "select string_agg(co_name, ' ' order by 1) from pgq.consumer"
    assert "n4" not in one_file.db["n1"].value(consumers) + one_file.db["n2"].value(consumers)
    same(one_file, "c")
    same(one_file, "a", "n2", "id <= 100")
    sequences = "select string_agg(seq_name, ' ') from londiste.seq_info where local"
    assert {db.value(sequences) for db in one_file.db.values()} == {"public.c_id_seq"}
    assert one_file.plan() == []
    assert one_file("check", "--node", "n2").code == 0
    runs.signal(signal.SIGTERM)
    assert runs.end(within=60) == 0


def test_run_survives_its_daemons_and_leaves_none(
    one_file: OneFile, program: Callable[..., Program]
) -> None:
    roles = {"n1": "root", "n2": "branch of n1"}
    runs = begin(one_file, roles, program)
    same(one_file, "a")
    first = processes(runs.text)
    assert sorted(first) == ["ticker", "worker n1", "worker n2"]
    # A child that is killed is started again.
    os.kill(first["worker n2"], signal.SIGKILL)
    runs.says("worker n2 ended with exit code -9; it is started again in 0.5 s")
    runs.says("worker n2 started with", times=2)
    one_file.db["n1"].execute("insert into a values (1001, 'z')")
    same(one_file, "a")
    # SIGHUP: a changed setting is reloaded, a changed log file needs a restart.
    text = one_file.path.read_text()
    one_file.path.write_text(
        text.replace("[nodes.n2]", f'[nodes.n2]\nlogfile = "{one_file.path}.log"')
    )
    runs.signal(signal.SIGHUP)
    runs.says("reloaded the settings: 1 stopped, 1 started, 2 reloaded")
    one_file.db["n1"].execute("insert into a values (1002, 'z')")
    same(one_file, "a")
    one_file.path.write_text("[nodes.n1]\n")
    runs.signal(signal.SIGHUP)
    runs.says("settings not reloaded, the old ones stay")
    one_file.db["n1"].execute("insert into a values (1003, 'z')")
    same(one_file, "a")
    daemon_lines = [line for line in runs.text.splitlines() if " started with " not in line]
    assert any(re.search(r" worker\[\d+\] node=n2 ", line) for line in daemon_lines)
    assert any(" ticker[" in line for line in daemon_lines)
    # Another root in the file is a switchover.
    one_file.write({"n1": "branch of n2", "n2": "root"}, TABLES + WORKER)
    assert one_file.plan() == [("switchover", "n2", [])]
    switched = one_file("apply")
    assert switched.code == 0, switched.err
    assert one_file.plan() == []
    one_file.db["n2"].execute("insert into a values (1004, 'z')")
    same(one_file, "a")
    # SIGTERM: workers first, then the ticker.
    children = list(processes(runs.text).values())
    assert len(living(children)) == 3
    runs.signal(signal.SIGTERM)
    assert runs.end(within=60) == 0
    assert living(children) == []
    stopped = re.findall(r"queue=-: (.*) stopped with exit code 0", runs.text)
    assert sorted(stopped[-3:-1]) == ["worker n1", "worker n2"] and stopped[-1] == "ticker"
    # SIGKILL: the children notice the end of their parent.
    one_file.path.write_text(text)
    again = program("-c", str(one_file.path), "run", crash="run.started:3")
    assert again.end(within=60) == -signal.SIGKILL
    children = list(processes(again.text).values())
    assert len(children) == 3
    wait_for(lambda: living(children) == [], what="the end of the children")
