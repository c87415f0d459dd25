"""While tables wait for their copies, ``wait-sync`` reports a worker that does not run."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import pytest

from londiste.cascade import daemons
from londiste.cascade.model import NodeType
from londiste.db.connection import session
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import wait
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = "create table t (id int primary key)"
NEVER = "worker: NOT RUNNING (never reported here); start it: londiste worker"


@pytest.fixture
@kept_nodes
def leaf(line: Line) -> LineNode:
    """A leaf whose table waits for its copy; no worker runs."""
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    root.database.execute("insert into t values (1)")
    line.add(root, "t")
    line.add(leaf, "t", expect_sync=False)
    return leaf


def reports(leaf: LineNode, act: Callable[[int], object]) -> list[str]:
    """What a wait until the copy's end reports of the worker.

    act -- called at each poll, with the number of reports so far; the copy ends after a tick.
    """
    said: list[str] = []

    def progress(_: list[ReplicatedTable]) -> None:
        act(len(said))

    def trouble(text: str) -> None:
        if text.startswith(("worker", "paused")):
            said.append(text)

    with session(leaf.database.dsn, name="test", autocommit=True) as conn:
        done = wait.wait_sync(conn, QUEUE, timeout=60, progress=progress, trouble=trouble)
    assert [one.state for one in done] == ["ok"]
    return said


def test_a_worker_that_never_reported_is_named_once(
    line: Line, leaf: LineNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "RECONNECT", 0.0)
    polls = 0

    def act(said: int) -> None:
        nonlocal polls
        polls += 1
        if polls == 5:
            assert said == 1
            line.start(leaf)
        line.tick()

    assert reports(leaf, act)[0] == NEVER


def test_one_that_was_just_started_is_not_named(line: Line, leaf: LineNode) -> None:
    line.start(leaf)
    assert reports(leaf, lambda _: line.tick()) == []


def test_a_killed_worker_is_named_and_named_again_when_the_next_is_killed(
    line: Line, leaf: LineNode
) -> None:
    reported = "select count(*) from pgq.daemon where dm_kind = 'worker'"

    def kill() -> None:
        leaf.database.execute("delete from pgq.daemon where dm_kind = 'worker'")
        worker = line.start(leaf)
        line.wait(lambda: leaf.database.value(reported), "its report")
        worker.send(signal.SIGKILL)
        worker.wait()
        # As a minute later.
        leaf.database.execute("update pgq.daemon set dm_seen = dm_seen - interval '1 minute'")

    kill()
    killed = 1

    def act(said: int) -> None:
        nonlocal killed
        if said == 1 and killed == 1:
            killed = 2
            kill()
        elif said == 2 and killed == 2:
            killed = 3
            line.start(leaf)
        if killed == 3:
            line.tick()

    said = reports(leaf, act)
    assert len(said) == 2
    assert all("worker: NOT RUNNING since" in text for text in said)
    assert all(text.endswith("start it: londiste worker") for text in said)


def test_a_paused_worker_is_named(line: Line, leaf: LineNode) -> None:
    paused = "update pgq_node.local_state set paused = %s where consumer_name = 'leaf_worker'"
    leaf.database.execute(paused, True)
    line.start(leaf)

    def act(said: int) -> None:
        if said == 1:
            leaf.database.execute(paused, False)
        line.tick()

    assert reports(leaf, act) == ["paused: londiste resume --node leaf"]


def test_the_command_ends_with_the_reason(line: Line, leaf: LineNode) -> None:
    done = line.here(leaf, "wait-sync", "--timeout", "0.1")
    assert done.code == 6, str(done)
    assert f"{NEVER}\n" in done.err
    assert "start the worker if it does not run: londiste worker;" in done.err


def test_events_that_wait_for_a_tick_are_not_in_sync(line: Line, leaf: LineNode) -> None:
    leaf.database.execute("select londiste.local_set_table_state('line', 'public.t', null, 'ok')")
    line.tick()
    root = line.nodes["root"].database
    # No ticker has run for an hour.
    root.execute("update pgq.tick set tick_time = tick_time - interval '1 h'")
    line.once(leaf)
    assert line.here(leaf, "wait-sync", "--timeout", "60").code == 0
    root.execute("insert into t values (2)")
    root.execute("update pgq.event_template set ev_time = ev_time - interval '1 h'")
    done = line.here(leaf, "wait-sync", "--timeout", "0.1")
    assert done.code == 6, str(done)
    assert "the tables are not current after" in done.err
    assert "warning: about 1 event waits for a tick, which is 1h" in done.err
    shown = line.here(leaf, "tables", "--json")
    assert [one["state"] for one in json.loads(shown.out)["tables"]] == ["stale"]
    assert "the tables are not current: about " in shown.err
    assert "(not current)" in line.here(leaf, "status").out
    line.tick()
    line.once(leaf)
    assert line.here(leaf, "wait-sync", "--timeout", "60").code == 0
    assert "(not current)" not in line.here(leaf, "status").out
