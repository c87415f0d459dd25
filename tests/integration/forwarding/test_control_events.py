"""A control event from an unauthorised writer halts its readers and has no effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import Node, silent
from tests.fixtures.line import QUEUE, Command, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import only
from tests.support.waiting import wait_for

SCHEMA = "create table t (id int primary key, v text)"
#: Type, data and extra1 of a forged event, and what its effect on a node would be.
FORGED = {
    "EXECUTE": ("create table forged_secret ()", "x.sql", "select to_regclass('forged_secret')"),
    "pgq.location-info": (
        "forged_secret",
        QUEUE,
        "select node_location from pgq_node.node_location where node_name = 'forged_secret'",
    ),
    "londiste.add-table": (
        "public.forged_secret",
        "",
        "select table_name from londiste.table_info where table_name = 'public.forged_secret'",
    ),
}


@kept_nodes
def _root(line: Line) -> LineNode:
    return line.node("root", NodeType.ROOT, schema=SCHEMA)


@pytest.fixture
def forger(line: Line) -> Iterator[str]:
    """A role, to be given rights by hand."""
    root = _root(line)
    role = f"forger_{root.database.name}"
    root.database.execute(f"create role {role}")
    yield role
    for node in line.nodes.values():
        node.database.execute(f"drop owned by {role}")
    root.database.execute(f"drop role {role}")


def below(line: Line, name: str, kind: NodeType, provider: LineNode) -> LineNode:
    return line.node(name, kind, provider, schema=SCHEMA)


def forge(node: LineNode, role: str, kind: str, *, size: int = 0) -> int:
    """Puts an event straight into the table of the queue; its id."""
    data, extra, _ = FORGED[kind]
    with node.database.connect() as conn:
        table = conn.execute("select pgq.current_event_table(%s)", [QUEUE]).fetchone()
        assert table is not None
        conn.execute(f"grant insert on {table[0]} to {role}")
        conn.execute(f"grant usage on all sequences in schema pgq to {role}")
        conn.execute(f"set role {role}")
        extra2 = "dbname=forged" if kind == "pgq.location-info" else None
        conn.execute(
            f"insert into {table[0]} (ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3)"
            " values (now(), %s, %s, %s, %s, 'false')",
            [kind, data + " " * size, extra, extra2],
        )
        conn.execute("reset role")
        found = conn.execute(f"select max(ev_id) from {table[0]}").fetchone()
        assert found is not None
        return int(found[0])


def effect(node: LineNode, kind: str) -> Any:
    rows = node.database.execute(FORGED[kind][2])
    return rows[0][0] if rows else None


def halted(line: Line, node: LineNode, event: int) -> None:
    """The node's worker, run once, halts in front of the event and has done nothing."""
    before = line.position(node)
    done = line.here(node, "worker", "--once")
    assert done.code == 5, str(done)
    assert f"event {event} of type" in done.err
    assert "is not proven" in done.err
    accept = f"pgq.accept_control_event('{QUEUE}', {event})"
    assert accept in done.err
    assert accept in line.here(node, "events", "show").out
    assert "secret" not in done.err + done.out + str(line.error(node))
    assert line.position(node) == before


@pytest.mark.parametrize("kind", only(FORGED, "EXECUTE"))
def test_a_forged_event_halts_a_leaf_and_a_branch(line: Line, forger: str, kind: str) -> None:
    root = line.nodes["root"]
    branch = below(line, "branch", NodeType.BRANCH, root)
    leaf = below(line, "leaf", NodeType.LEAF, root)
    low = below(line, "low", NodeType.LEAF, branch)
    for node in (branch, leaf, low):
        line.once(node)
    event = forge(root, forger, kind)
    tick = line.tick()
    for node in (branch, leaf):
        halted(line, node, event)
        assert effect(node, kind) is None
    line.once(low)
    # Left out on the branch, it is no event for those below it either.
    assert line.here(branch, "events", "skip", str(event)).code == 0
    line.once(branch)
    assert line.position(branch) == tick
    halted(line, low, event)
    assert line.here(low, "events", "skip", str(event)).code == 0
    line.once(low)
    assert line.position(low) == tick
    # Accepted, it is obeyed.
    root.database.execute("select pgq.accept_control_event(%s, %s)", QUEUE, event)
    line.once(leaf)
    assert line.position(leaf) == tick
    assert effect(branch, kind) is effect(low, kind) is None
    assert effect(leaf, kind) is not None

    # Another one is accepted before anybody has left it out: the branch proves it to its leaf.
    root.database.execute("select pgq.insert_event(%s, 'x', '')", QUEUE)
    again = forge(root, forger, "londiste.add-table")
    root.database.execute("select pgq.accept_control_event(%s, %s)", QUEUE, again)
    tick = line.tick()
    for node in (branch, low):
        line.once(node)
        assert line.position(node) == tick
        assert effect(node, "londiste.add-table") is not None


def test_what_is_handed_on_stays_proven_also_after_a_switchover(
    line: Line, forger: str, command: Command
) -> None:
    root = line.nodes["root"]
    branch = below(line, "branch", NodeType.BRANCH, root)
    low = below(line, "low", NodeType.LEAF, branch)
    script = line.directory / "one.sql"
    script.write_text("alter table t add column one int;")
    assert command(root, "execute", str(script)).code == 0
    assert command(root, "add-table", "t").code == 0
    assert command(root, "remove-table", "t").code == 0
    line.start(root)
    for node in (branch, low):
        line.start(node)
        line.wait_position(node, line.tick())
    assert low.database.value("select count(one) from t") == 0
    proofs = (
        "select count(*) from pgq.event_1"
        " join pgq.control_event c using (ev_id, ev_txid, ev_type)"
        " where ev_type ~ '^(EXECUTE|londiste)'"
    )
    assert branch.database.value(proofs) == root.database.value(proofs) == 3

    done = line.here(root, "switchover", "--to", "branch")
    assert done.code == 0, str(done)
    script.rename(line.directory / "two.sql")
    (line.directory / "two.sql").write_text("alter table t add column two int;")
    assert command(branch, "execute", str(line.directory / "two.sql")).code == 0
    for node in (low, root):
        line.wait_position(node, line.tick(branch))
        assert node.database.value("select count(two) from t") == 0
    event = forge(branch, forger, "EXECUTE")
    line.tick(branch)
    for node in (low, root):
        line.wait(lambda n=node: f"event {event} of type" in (line.error(n) or ""), "a halt")
        assert effect(node, "EXECUTE") is None
    branch.database.execute("select pgq.accept_control_event(%s, %s)", QUEUE, event)
    for node in (low, root):
        line.wait_position(node, line.tick(branch))
        assert effect(node, "EXECUTE") is not None


def test_a_new_root_in_the_place_of_a_lost_one_has_proven_what_it_handed_on(
    line: Line, forger: str, command: Command
) -> None:
    root = line.nodes["root"]
    branch = below(line, "branch", NodeType.BRANCH, root)
    low = below(line, "low", NodeType.LEAF, branch)
    script = line.directory / "one.sql"
    script.write_text("alter table t add column one int;")
    assert command(root, "execute", str(script)).code == 0
    line.tick()
    line.once(branch)
    line.start(branch)
    with silent(Node(root.name, root.database)):
        taken = command(branch, "takeover", "root", "--failover", "--timeout", "0")
        assert taken.code == 0, taken
    # The leaf reads it only now.
    line.start(low)
    line.wait_position(low, line.tick(branch))
    assert low.database.value("select count(one) from t") == 0
    event = forge(branch, forger, "EXECUTE")
    line.tick(branch)
    line.wait(lambda: f"event {event} of type" in (line.error(low) or ""), "a halt")


def test_a_long_batch_is_asked_about_before_it_is_obeyed(line: Line, forger: str) -> None:
    root = line.nodes["root"]
    leaf = below(line, "leaf", NodeType.LEAF, root)
    branch = below(line, "branch", NodeType.BRANCH, root)
    fill = "select pgq.insert_event(%s, 'x', repeat('y', 100000)) from generate_series(1, 30)"
    root.database.execute("select pgq.insert_event(%s, 'londiste.add-table', 'public.t')", QUEUE)
    root.database.execute(fill, QUEUE)
    tick = line.tick()
    for node in (leaf, branch):
        line.once(node)
        assert line.position(node) == tick
        known = "select table_name from londiste.table_info"
        assert node.database.execute(known) == [("public.t",)]
    event = forge(root, forger, "londiste.add-table")
    root.database.execute(fill, QUEUE)
    line.tick()
    for node in (leaf, branch):
        halted(line, node, event)
        assert effect(node, "londiste.add-table") is None


def test_a_batch_that_was_read_ahead_is_asked_about(line: Line, forger: str) -> None:
    root = line.nodes["root"]
    branch = below(line, "branch", NodeType.BRANCH, root)
    fill = "select pgq.insert_event(%s, 'x', repeat('y', 1000)) from generate_series(1, 200)"
    root.database.execute(fill, QUEUE)
    first = line.tick()
    event = forge(root, forger, "londiste.add-table")
    root.database.execute(fill, QUEUE)
    line.tick()
    done = line.here(branch, "worker", "--once")
    assert done.code == 5, str(done)
    assert f"event {event} of type" in done.err
    assert line.position(branch) == first
    assert effect(branch, "londiste.add-table") is None
    assert branch.database.value("select count(*) from pgq.event_1 where ev_type = 'x'") == 200


def test_an_event_that_takes_the_number_of_a_proven_one_is_refused(line: Line, forger: str) -> None:
    root = line.nodes["root"]
    leaf = below(line, "leaf", NodeType.LEAF, root)
    root.database.execute("select pgq.insert_event(%s, 'londiste.add-table', 'public.t')", QUEUE)
    forged = forge(root, forger, "londiste.add-table")
    event = root.database.value(
        "select ev_id from pgq.event_1 where ev_data = 'public.t' and ev_type like 'londiste.%%'"
    )
    root.database.execute(
        "update pgq.event_1 f set ev_id = g.ev_id, ev_txid = g.ev_txid from pgq.event_1 g"
        " where f.ev_id = %s and g.ev_id = %s",
        forged,
        event,
    )
    line.tick()
    halted(line, leaf, event)
    assert effect(leaf, "londiste.add-table") is None


def test_a_provider_that_keeps_no_proofs_is_believed(line: Line, forger: str) -> None:
    root = line.nodes["root"]
    leaf = below(line, "leaf", NodeType.LEAF, root)
    forge(root, forger, "londiste.add-table")
    root.database.execute("drop function pgq.unproven_events(text, int8[], int8[], text[])")
    tick = line.tick()
    line.once(leaf)
    assert line.position(leaf) == tick
    assert effect(leaf, "londiste.add-table") is not None


def test_a_worker_is_woken_by_the_decision(line: Line, forger: str) -> None:
    root = line.nodes["root"]
    leaf = below(line, "leaf", NodeType.LEAF, root)
    event = forge(root, forger, "EXECUTE")
    tick = line.tick()
    worker = line.start(leaf)
    line.wait(lambda: f"event {event} of type" in (line.error(leaf) or ""), "a halt")
    shown = line.here(leaf, "events", "show")
    assert f"events skip {event} --reason" in shown.out, str(shown)
    assert "secret" not in shown.out + worker.said()
    assert line.here(leaf, "events", "skip", str(event)).code == 0
    line.wait_position(leaf, tick)
    wait_for(lambda: line.error(leaf) is None, what="the error to be over")
    assert effect(leaf, "EXECUTE") is None
