"""read_from in the file of a cascade is the setting of one node."""

from __future__ import annotations

from pathlib import Path

from londiste.settings import WorkerSettings, load

CASCADE = """
[nodes.main]
db = "dbname=main"
role = "root"
[nodes.reports]
db = "dbname=reports"
role = "leaf"
provider = "main"
read_from = "host=standby1 dbname=main password=hush4711"
read_from_wait = 0.5
[nodes.other]
db = "dbname=other"
role = "leaf"
provider = "main"
"""


def test_a_node_of_a_cascade_has_a_standby_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(CASCADE)
    file.chmod(0o600)
    found = load(WorkerSettings, file, node="reports")
    assert found.read_from == "host=standby1 dbname=main password=hush4711"
    assert found.read_from_wait == 0.5
    assert "hush4711" not in repr(found)
    assert load(WorkerSettings, file, node="other").read_from == ""
