"""Section [web] of a cascade's file: read, checked, reloaded, and started by ``londiste run``."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from londiste.cascadefile.daemons import daemons
from londiste.errors import BadOption
from londiste.settings import WebSettings, WorkerSettings, cascade_file, load
from tests.support.scenarios.processes import Processes
from tests.support.waiting import wait_for
from tests.unit.console.test_login import HASH, PASSWORD, Browser

FILE = """
[nodes.main]
db = "dbname=a"
role = "root"
[nodes.reports]
db = "dbname=b"
role = "leaf"
provider = "main"
"""


def started(path: Path, *chosen: str) -> list[str]:
    file = cascade_file.read(path)
    assert file is not None

    def of_worker(node: str) -> WorkerSettings:
        return load(WorkerSettings, path, {}, node=node)

    return [one.name for one in daemons(file, chosen, ["londiste"], of_worker)]


def test_run_starts_the_console_only_with_its_section(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    path.write_text(FILE)
    assert "web" not in started(path)
    assert load(WebSettings, path, {}).listen == "127.0.0.1:8457"
    path.write_text(FILE + "[web]\n")
    assert started(path)[-1] == "web"
    # The daemons of one node are on its host.
    assert "web" not in started(path, "reports")
    path.write_text(FILE + '[web]\nlisten = "127.0.0.1:9"\nusers = ["a:b", "c:d"]\n')
    found = load(WebSettings, path, {})
    assert (found.listen, found.users) == ("127.0.0.1:9", ("a:b", "c:d"))
    path.write_text(FILE + "[web]\nlisen = 1\n")
    with pytest.raises(BadOption) as refused:
        cascade_file.read(path)
    assert "shop.toml:10" in refused.value.message
    assert "listen" in refused.value.hint


def test_a_file_of_one_node_may_have_the_section(tmp_path: Path) -> None:
    path = tmp_path / "leaf.toml"
    path.write_text('[londiste]\ndb = "dbname=a"\nqueue_name = "q"\n[web]\nshow_values = true\n')
    assert load(WebSettings, path, {}).show_values
    path.write_text("[web]\nlisten = '0.0.0.0'\n")
    with pytest.raises(BadOption, match="HOST:PORT"):
        load(WebSettings, path, {})


def test_a_console_of_which_only_users_change_is_reloaded(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"

    def fixed(section: str) -> tuple[object, ...]:
        path.write_text(f"{FILE}[web]\n{section}\n")
        file = cascade_file.read(path)
        assert file is not None
        found = daemons(
            file, (), ["londiste"], lambda node: load(WorkerSettings, path, {}, node=node)
        )
        return found[-1].fixed

    assert fixed("") == fixed('users = ["a:b"]') != fixed("actions = true")


@pytest.mark.slow
def test_a_signal_replaces_the_users_and_ends_sessions_of_removed_ones(tmp_path: Path) -> None:
    path = tmp_path / "shop.toml"
    processes = Processes(tmp_path)

    def write(*users: str, **keys: object) -> None:
        listed = {"listen": "127.0.0.1:0", "users": [f"{name}:{HASH}" for name in users], **keys}
        path.write_text(FILE + "[web]\n" + "".join(f"{k} = {v!r}\n" for k, v in listed.items()))
        path.chmod(0o600)

    write("anna", "otto")
    argv = [sys.executable, "-m", "londiste", "-c", str(path), "web"]
    process = processes.start("web", argv)

    def says(text: str) -> re.Match[str]:
        return wait_for(lambda: re.search(text, process.said()), what=text)

    def reloaded(text: str, count: int = 1) -> None:
        process.send(signal.SIGHUP)
        wait_for(lambda: process.said().count(text) >= count, what=text)

    try:
        place = says(r"console: http://([\d.]+):(\d+)")
        anna, otto, late = (Browser((place[1], int(place[2]))) for _ in range(3))
        assert (anna.log_in().status, otto.log_in("otto").status) == (303, 303)

        write("otto", "late", refresh=1.0)
        reloaded("reloaded the settings")
        says("changed settings that need a restart: refresh")
        assert (anna("GET", "/tables").status, anna.log_in().status) == (303, 401)
        assert (otto("GET", "/tables").status, late.log_in("late").status) == (200, 303)

        # Without users all who reach it would have its actions.
        write(listen="0.0.0.0:0")
        reloaded("settings not reloaded, the old ones stay")
        write("otto:")
        reloaded("settings not reloaded, the old ones stay", 2)
        assert otto("GET", "/tables").status == 200
        assert PASSWORD not in process.said() and HASH not in process.said()
        assert process.stop() == 0
    finally:
        assert not processes.close()
