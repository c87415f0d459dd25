"""Every line of every daemon has one form, as text or JSON; the first lines name the servers."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from londiste import __version__
from londiste.daemon import logjson
from londiste.daemon.logline import LINE
from tests.fixtures.one_file import QUICK, OneFile
from tests.fixtures.process import Program
from tests.support.waiting import wait_for

FILE = '[tables]\ninclude = ["a"]\n' + QUICK + 'log_format = "{form}"\n'

_KEYS = set(logjson.ALWAYS) | set(logjson.SOMETIMES)


def read(text: str, form: str) -> list[dict[str, Any]]:
    """All lines of a log; none may have another form."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        if form == "json":
            record = json.loads(line)
            assert set(logjson.ALWAYS) <= set(record) <= _KEYS, line
            found.append(record)
        else:
            match = LINE.fullmatch(line)
            assert match is not None, line
            found.append(match.groupdict())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_every_line_of_run_and_its_children_has_the_form(
    one_file: OneFile,
    program: Callable[..., Program],
    form: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    one_file.write({"n1": "root", "n2": "leaf of n1"}, FILE.format(form=form))
    source = one_file.db["n1"]
    source.execute(
        "create table a (id int primary key, v text);"
        " insert into a select i, 'x' from generate_series(1, 300) i"
    )
    assert one_file("apply").code == 0
    # Of run alone: a pid file is one process's.
    own = ("--set", f"pidfile={tmp_path}/run.pid")
    runs = program("-c", str(one_file.path), *own, "run")
    rows = "select count(*) from a"
    wait_for(lambda: one_file.db["n2"].value(rows) == 300, what="the copy")
    source.execute("insert into a values (1000, 'secret-value')")
    wait_for(lambda: one_file.db["n2"].value(rows) == 301, what="the row")

    # A source that is down is reported as such.
    one_file.db["n2"].execute(
        "update pgq_node.node_location set node_location = 'host=127.0.0.1 port=1 dbname=gone'"
        " where node_name = 'n1'"
    )
    pids = dict(re.findall(r"(ticker|worker n2) started with process id (\d+)", runs.text))
    os.kill(int(pids["worker n2"]), signal.SIGKILL)
    runs.says("provider n1 (gone@127.0.0.1:1) is down or cannot be reached")
    runs.says("if another node has replaced it: londiste change-provider --provider NODE")
    # What a child writes beside its log is a line with its name.
    os.kill(int(pids["ticker"]), signal.SIGABRT)
    runs.says("ticker: Fatal Python error: Aborted")
    runs.says("ticker started with", times=2)
    runs.signal(signal.SIGTERM)
    assert runs.end(within=60) == 0

    lines = read(runs.text, form)
    of = {
        (program, node): [
            str(one["message"])
            for one in lines
            if (one["program"], one["node"] or "-") == (program, node)
        ]
        for program, node in {(one["program"], one["node"] or "-") for one in lines}
    }
    assert set(of) == {
        ("run", "-"),
        ("ticker", "-"),
        ("worker", "n1"),
        ("worker", "n2"),
        ("copy", "n2"),
    }
    for messages in of.values():
        assert messages[0].startswith(f"londiste {__version__} started, settings {one_file.path}, ")
    for key, database in (
        (("worker", "n2"), "n2"),
        (("copy", "n2"), "n2"),
        (("ticker", "-"), "n1"),
    ):
        connected = f"connected to {one_file.db[database].name}@"
        assert any(one.startswith(connected) for one in of[key]), (key, runs.text)
    assert any(one.startswith("reading from node n1: ") for one in of["worker", "n2"])
    assert {one["queue"] for one in lines if one["program"] == "worker"} == {"q"}
    assert "secret-value" not in runs.text and "password" not in runs.text
    crashes = [one for one in lines if "Fatal Python error" in one["message"]]
    assert [(one["level"], one["program"]) for one in crashes] == [("WARNING", "run")], crashes
