"""Section [web] of a cascade's file: read, checked, and started by ``londiste run``."""

from __future__ import annotations

from pathlib import Path

import pytest

from londiste.cascadefile.daemons import daemons
from londiste.errors import BadOption
from londiste.settings import WebSettings, WorkerSettings, cascade_file, load

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
