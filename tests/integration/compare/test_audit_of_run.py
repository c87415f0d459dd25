"""The audit as a daemon of ``londiste run``."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.one_file import QUICK, OneFile
from tests.fixtures.process import Program
from tests.support.waiting import wait_for

ROLES = {"n1": "root", "n2": "leaf of n1"}
FILE = '[tables]\ninclude = ["a", "b"]\n' + QUICK


def leaf(file: OneFile) -> dict[str, Any]:
    """The leaf in ``status --json``."""
    nodes = json.loads(file("status", "--json").out)["nodes"]
    return next(node for node in nodes if node["name"] == "n2")


def failing(file: OneFile) -> list[str]:
    """Findings about the audit."""
    found = json.loads(file("status", "--check", "--json").out)["findings"]
    return [one["what"] for one in found if one["kind"] == "audit"]


def audits(node: dict[str, Any]) -> list[str]:
    return [one["life"] for one in node["daemons"] if one["kind"] == "audit"]


@pytest.mark.slow
@pytest.mark.parametrize("to_the_end", [False, True], ids=["killed", "to the end"])
def test_run_audits_a_node_is_killed_and_is_switched_off(
    one_file: OneFile, program: Callable[..., Program], to_the_end: bool
) -> None:
    one_file.write(ROLES, FILE)
    one_file.db["n1"].execute(
        "create table a (id int primary key, v text); create table b (like a including all);"
        " insert into a select i, 'x' from generate_series(1, 100) i"
    )
    assert one_file("apply").code == 0
    runs = program("-c", str(one_file.path), "run")
    assert one_file("--node", "n2", "wait-sync", "--timeout", "60").code == 0
    # It is off unless a share is given.
    assert "audit n2" not in runs.text
    assert (leaf(one_file)["audit"], audits(leaf(one_file))) == (None, [])

    one_file.write(ROLES, FILE.replace("[run]", "audit_share = 1.0\n[run]"))
    runs.signal(signal.SIGHUP)
    runs.says("audit n2 started with process id")
    wait_for(lambda: (leaf(one_file)["audit"] or {}).get("verified") == 1.0, what="a round")
    assert audits(leaf(one_file)) == ["alive"]
    wait_for(lambda: "audit: alive, compared " in one_file("status").out, what="its last range")
    assert "audit n1" not in runs.text

    # A killed audit is started again, and finds what was damaged meanwhile.
    (pid,) = re.findall(r"audit n2 started with process id (\d+)", runs.text)
    os.kill(int(pid), signal.SIGKILL)
    damage_leaf(one_file, "delete from a where id in (3, 4)")
    runs.says("audit n2 started with process id", times=2)
    wait_for(lambda: (leaf(one_file)["audit"] or {}).get("differing") == 2, what="the rows")
    runs.says("table public.a: 2 rows differ; londiste repair public.a")
    checked = one_file("status", "--check")
    assert checked.code == 2 and "table public.a: 2 rows differ from the root's" in checked.out
    assert one_file("--node", "n2", "repair", "public.a", "--apply").code == 0
    wait_for(lambda: leaf(one_file)["audit"]["differing"] == 0, what="a round after the repair")
    if not to_the_end:
        runs.signal(signal.SIGTERM)
        assert runs.end(within=60) == 0
        return

    # A table that it cannot compare is a finding until it can; it compares the other one.
    one_file.db["n2"].execute("alter table a rename to c")
    wait_for(lambda: failing(one_file), what="the error")
    assert "public.a" in failing(one_file)[0]
    ranges = "select checked_at from londiste.compare_range where table_name = 'public.b'"
    before = one_file.db["n2"].value(ranges)
    wait_for(lambda: one_file.db["n2"].value(ranges) > before, what="the other table compared")
    assert failing(one_file)
    one_file.db["n2"].execute("alter table c rename to a")
    wait_for(lambda: not failing(one_file), what="the end of the error")
    runs.says("recovered after")

    # An audit that is switched off is no finding, one that was killed with all others is.
    runs.kill()
    wait_for(lambda: audits(leaf(one_file)) == ["gone"], what="the end of the daemons")
    assert any("audit: NOT RUNNING" in what for what in failing(one_file))
    runs = program("-c", str(one_file.path), "run")
    runs.says("audit n2 started with process id")
    wait_for(lambda: audits(leaf(one_file)) == ["alive"], what="the audit")
    one_file.write(ROLES, FILE)
    runs.signal(signal.SIGHUP)
    runs.says("audit n2 stopped with exit code 0")
    assert audits(leaf(one_file)) == []
    runs.signal(signal.SIGTERM)
    assert runs.end(within=60) == 0


def damage_leaf(file: OneFile, statement: str) -> None:
    file.db["n2"].execute(f"set session_replication_role = replica; {statement}")
