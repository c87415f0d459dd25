"""An administrator of queues changes stored locations: nothing is handed to the server he names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import conninfo

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.servers.password_thief import PasswordThief, password_thief


@pytest.fixture
def thief() -> Iterator[PasswordThief]:
    with password_thief() as server:
        yield server


def lead_to(node: LineNode, name: str, location: str) -> None:
    node.database.execute(
        "select pgq_node.register_location(%s, %s, %s, false)", QUEUE, name, location
    )


def pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT)
    return root, line.node("leaf", NodeType.LEAF, root)


def test_the_password_of_the_provider_goes_to_no_other_server(
    line: Line, thief: PasswordThief
) -> None:
    root, leaf = pair(line)
    extra = conninfo.make_conninfo(root.database.dsn, password="TheSecret")
    line.configure(leaf, remote_extra_connstr=extra)
    assert line.here(leaf, "worker", "--once").code == 0
    lead_to(leaf, "root", f"host=127.0.0.1 port={thief.port} user=u dbname=x sslmode=disable")
    assert line.here(leaf, "worker", "--once").code != 0
    line.here(leaf, "status")
    assert thief.calls
    assert thief.passwords == []


def test_an_address_gets_no_password_of_another_host(
    line: Line, thief: PasswordThief, tmp_path: Path
) -> None:
    root, _ = pair(line)
    file = tmp_path / "pgpass"
    file.write_text("db7.bank.internal:*:*:*:TheSecret\n")
    file.chmod(0o600)
    place = f"host=db7.bank.internal hostaddr=127.0.0.1 port={thief.port} user=u dbname=x"
    for more in ("", " sslmode=disable"):
        lead_to(root, "leaf", place + more)
        done = line.run(root, "status", env={"PGPASSFILE": str(file)})
        assert "hostaddr" in done.out, str(done)
        assert "db7.bank.internal=127.0.0.1" in done.out
    assert (thief.calls, thief.passwords) == (0, [])


def test_no_file_of_the_account_is_written(
    line: Line, thief: PasswordThief, tmp_path: Path
) -> None:
    root, _ = pair(line)
    place = f"host=127.0.0.1 port={thief.port} user=u dbname=x"
    lead_to(root, "leaf", f"{place} passfile={tmp_path}/x")
    done = line.here(root, "status")
    assert "passfile" in done.out and "the stored location of node leaf" in done.out, str(done)
    assert thief.calls == 0


def test_the_command_of_the_hint_replaces_a_refused_location(
    line: Line, thief: PasswordThief
) -> None:
    root, leaf = pair(line)
    bad = f"host=127.0.0.1 port={thief.port} user=u dbname=x options='-c role=r'"
    for node in (root, leaf):
        lead_to(node, "leaf", bad)
    good = leaf.database.dsn
    done = line.here(root, "move-node", "leaf", good)
    assert done.code == 0, str(done)
    assert line.here(root, "status").code == 0
    for node in (root, leaf):
        found = node.database.value(
            "select node_location from pgq_node.node_location where node_name = 'leaf'"
        )
        assert found == good
    lead_to(leaf, "root", f"{root.database.dsn} options='-c role=r'")
    done = line.here(leaf, "worker", "--once")
    assert done.code == 3 and "options" in done.err and "move-node root" in done.err, str(done)
    lead_to(leaf, "root", root.database.dsn)
    assert line.here(leaf, "worker", "--once").code == 0
    assert thief.calls == 0
