"""The console of ``londiste run``: started, asked, started again, and stopped with it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra web")

from tests.fixtures.line import Line
from tests.fixtures.one_file import OneFile


def document(address: str, name: str) -> dict[str, Any]:
    """A page's JSON; empty while the console does not answer."""
    try:
        with urllib.request.urlopen(f"{address}/api/v1/{name}", timeout=20) as answer:
            found: dict[str, Any] = json.load(answer)
    except (urllib.error.URLError, ConnectionError):
        return {}
    return found


def test_run_starts_the_console_of_its_file(line: Line, one_file: OneFile) -> None:
    one_file.write(
        {"n1": "root", "n2": "leaf of n1"},
        '\n[tables]\ninclude = ["public.*"]\n[worker]\nengine = "local"\n'
        '[web]\nlisten = "127.0.0.1:0"\nrefresh = 0.3\n',
    )
    one_file.db["n1"].execute("create table t (id int primary key); insert into t values (1)")
    assert one_file("apply").code == 0
    argv = [sys.executable, "-m", "londiste", "-c", str(one_file.path), "run"]
    run = line.processes.start("run", argv)

    def addresses() -> list[str]:
        return re.findall(r"console: (http://\S+)", run.said())

    (address,) = line.wait(addresses, "the address of the console")
    line.wait(lambda: document(address, "cascade").get("state") == "ok", "a healthy cascade", 60)
    shown = document(address, "cascade")
    assert sorted(one["node"] for one in shown["nodes"]) == ["n1", "n2"]
    assert [one["table"] for one in document(address, "tables")["tables"]][:1] == ["public.t"]
    with urllib.request.urlopen(f"{address}/", timeout=20) as page:
        assert b"<title>Cascade" in page.read()

    # The console is a daemon as the others: what kills it does not end it for good.
    (pid,) = re.findall(r"web started with process id (\d+)", run.said())
    os.kill(int(pid), signal.SIGKILL)
    again = line.wait(lambda: addresses()[1:], "its next start")[0]
    line.wait(lambda: document(again, "cascade").get("state") == "ok", "its page")

    assert run.stop() == 0
    assert document(again, "cascade") == {}
