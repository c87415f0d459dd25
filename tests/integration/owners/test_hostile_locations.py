"""An administrator of queues changes stored locations: nothing is handed to the server he names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import conninfo

from londiste.cascade.model import NodeType
from londiste.metrics import collect
from londiste.monitor.place import Place
from tests.fixtures.cluster import Database
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.servers.password_thief import PasswordThief, password_thief


@pytest.fixture
def thief() -> Iterator[PasswordThief]:
    with password_thief() as server:
        yield server


def lead_to(node: LineNode, name: str, location: str) -> None:
    node.database.execute(
        "select pgq_node.register_location(%s, %s, %s, false)", QUEUE, name, location
    )


@kept_nodes
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


#: What a stranger makes in a database of his own, to be run by who asks for a node there.
_TRAP = """
    create sequence public.runs;
    create schema pgq_node;
    create function pgq_node.get_node_info(
        i_queue_name text, out ret_code int4, out ret_note text, out node_name text)
    language sql as $$ select 404, nextval('public.runs')::text, '' $$;
    create function pgq_node.get_queue_locations(
        i_queue_name text, out node_name text, out node_location text, out dead bool)
    returns setof record language sql as $$ select nextval('public.runs')::text, '', false $$;
    create view pgq_node.node_info as select nextval('public.runs') as queue_name;
"""


@pytest.fixture
def trap(database: Database) -> Iterator[Database]:
    """A database of a stranger, with a schema pgq_node of his."""
    stranger = f"stranger_{database.name}"
    database.execute(f"create role {stranger}; grant create on schema public to {stranger}")
    database.execute(f"grant create on database {database.name} to {stranger}")
    database.execute(f"set session authorization {stranger}; {_TRAP}")
    yield database
    database.execute(f"drop owned by {stranger} cascade; drop role {stranger}")


def test_no_function_of_a_stranger_is_called_at_the_place_of_a_node(
    line: Line, trap: Database
) -> None:
    root, leaf = pair(line)
    lead_to(root, "leaf", trap.dsn)
    lead_to(leaf, "root", trap.dsn)
    said = f"schema pgq_node belongs to role stranger_{trap.name}"
    for args in (
        ["pause", "--node", "leaf"],
        ["resume", "--node", "leaf"],
        ["tag-dead", "leaf", "--dry-run"],
        ["rename-node", "leaf", "other", "--dry-run"],
        ["drop-node", "leaf", "--dry-run"],
        ["switchover", "leaf", "--dry-run"],
        ["check", "--all-nodes"],
        ["members"],
    ):
        line.here(root, *args)
    for args in (
        ["status"],
        ["wait-root"],
        ["worker", "--once"],
        ["compare"],
        ["check", "--all-nodes"],
        ["copy", "status"],
        ["change-provider", "--provider", "root", "--dry-run"],
        ["add-table", "public.t"],
        ["execute", "--status"],
    ):
        line.here(leaf, *args)
    for _ in range(2):
        found = collect.cascade([Place(root.database.dsn, QUEUE)]).status
        assert said in found.node("leaf").unreachable
    shown = line.here(root, "status")
    assert f"ERR: {trap.name}" in shown.out and said in shown.out, str(shown)
    checked = line.here(root, "status", "--check", "--json")
    (finding,) = [f for f in json.loads(checked.out)["findings"] if "leaf" in f["what"]]
    assert (finding["kind"], finding["severity"]) == ("schema-owner", "critical")
    assert finding["do"].startswith("if the node is elsewhere: londiste move-node leaf CONNECTION;")
    refused = line.here(root, "pause", "--node", "leaf")
    assert refused.code == 4 and said in refused.err, str(refused)
    assert not trap.value("select is_called from public.runs")
