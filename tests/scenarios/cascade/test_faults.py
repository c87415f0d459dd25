"""Cascade commands during a fault of a node: they end in time and can be repeated.

Each reports the reason, and the same command finishes the change after the fault.

What may be wrong:

    silent   the line to a node keeps its connections and lets nothing through, from before the
             command or from its middle on; mended, it brings what was on its way
    hung     the processes of the server that serve the command stand still (SIGSTOP)
    down     the server does not run
    locked   a transaction of the root that has written, and holds the row of the queue, stays open

All the while somebody tries to write on every node, and nobody may find two roots.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database, create_database
from tests.fixtures.line import Line
from tests.scenarios.cascade.test_interrupted import OPERATIONS
from tests.support import lines
from tests.support.scenarios.faulty_cascade import (
    LIMIT,
    PATIENCE,
    Fault,
    Lined,
    begin,
    disturbed,
    lined_up,
    patient,
    said,
    wrong,
)
from tests.support.scenarios.forks import Fork, Forks
from tests.support.scenarios.interrupting import LEAF, NOTES, Operation, same, stands
from tests.support.scenarios.quick_cascade import QuickCascade
from tests.support.scenarios.writer_on_every_node import Everywhere
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def lined(
    tmp_path_factory: pytest.TempPathFactory, own_servers: Callable[[str], Cluster]
) -> Iterator[Lined]:
    with lined_up(tmp_path_factory.mktemp("lined"), own_servers) as made:
        yield made


def _faults(operation: Operation, parts: tuple[float, ...]) -> Iterator[Fault]:
    for node in ("n1", "n2"):
        if node == operation.at:
            continue
        yield Fault("silent", node)
        if node != operation.lost:
            yield from (Fault("silent", node, part) for part in parts)
            yield from (Fault("hung", node, part) for part in parts)
            yield Fault("down", node)
    if operation.lost != "n1":
        yield Fault("locked", "n1")


CASES = [
    pytest.param(name, fault, id=f"{name}-{fault.kind}-{fault.node}-{fault.part:g}")
    for name, operation in OPERATIONS.items()
    if not operation.reports
    for fault in _faults(operation, (0.2, 0.5, 0.8) if "switchover" in name else (0.5,))
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault"), CASES)
def test_a_change_with_something_wrong(name: str, fault: Fault, lined: Lined) -> None:
    _run(lined, name, fault)


#: Commands that are given at a node that answers while n1, the root, does not.
ASKING = {
    "status": ("status",),
    "check": ("check", "--all-nodes"),
    "status --json": ("status", "--json"),
    "check --json": ("check", "--all-nodes", "--json"),
    "node-info": ("node-info", "--node", "n1"),
    "wait-root": ("wait-root", "--timeout", "5"),
    "pause": ("pause", "--node", "n1", "--timeout", "5"),
    "resume": ("resume", "--node", "n1", "--timeout", "5"),
    "sync-watermark": ("sync-watermark", "n4", "--node", "n1"),
    "resurrect": ("resurrect", "--node", "n1"),
    "switchover": ("switchover", "--to", "n2"),
    "takeover": ("takeover", "n1", "--node", "n2"),
    "change-provider": ("change-provider", "--node", "n4", "--provider", "n1"),
    "rename-node": ("rename-node", "n2", "other"),
    "create-leaf": ("create-leaf", "n5", "dbname=n5 host=127.0.0.1", "--nocheck"),
    "create-branch": ("create-branch", "n6", "dbname=n6 host=127.0.0.1", "--nocheck"),
}
#: Those that look at what there is, and say of n1 that it does not answer.
LOOKING = {"status": 0, "check": 2, "status --json": 0, "check --json": 2}


@pytest.mark.slow
def test_commands_end_while_the_root_is_silent(lined: Lined, bare: Database) -> None:
    cascade, root = lined.cascade, lined.lines["n1"]
    begin(lined, OPERATIONS["switchover"])
    below = ("--provider", root.dsn)
    before = cascade.digest()
    root.cut()
    began = time.monotonic()
    forks = {}
    for name, argv in ASKING.items():
        env = {"LONDISTE_DB": bare.dsn} if name.startswith("create-") else {}
        words = (*argv, *below) if name.startswith("create-") else argv
        forks[name] = cascade.forks.start(cascade.nodes["n3"].config, *words, **env, **PATIENCE)
    ended = _ends(forks, began)
    print("".join(f"CASE {n} asks silent n1: {s:.1f} s\n{f}" for n, (f, s) in ended.items()))
    for name, (fork, seconds) in ended.items():
        assert seconds < LIMIT, str(fork)
        if name in LOOKING:
            assert fork.code() == LOOKING[name], str(fork)
            assert "n1" in fork.out
            assert all(node in fork.out for node in ("n2", "n3", "n4")) or "check" in name
        else:
            assert fork.code() == 6, str(fork)
            assert "n1" in fork.err or "127.0.0.1" in fork.err
            said(fork)
    shown = ended["status --json"][0].out
    states = {node["name"]: node for node in json.loads(shown)["nodes"]}
    assert states["n1"]["type"] == "dead"
    assert "timeout expired" in states["n1"]["unreachable"]
    assert [states[n]["type"] for n in ("n2", "n3", "n4")] == ["branch", "branch", "leaf"]
    findings = json.loads(ended["check --json"][0].out)["findings"]
    assert [f["what"] for f in findings if f["kind"] == "unreachable"] == [
        "node n1 was not checked"
    ]
    root.mend()
    cascade.converge()
    assert cascade.digest() == before, "a command has left something behind"


def test_commands_end_that_are_given_at_a_silent_node(line: Line) -> None:
    n1 = line.node("n1", NodeType.ROOT)
    n3 = line.node("n3", NodeType.BRANCH, n1)
    forks = Forks(line.processes)
    here = {
        **ASKING,
        "members": ("members",),
        "tag-dead": ("tag-dead", "n4"),
        "tag-alive": ("tag-alive", "n4"),
        "pause": ("pause",),
        "resume": ("resume",),
        "create-leaf": ("create-leaf", "n5", "--provider", n1.database.dsn),
        "create-branch": ("create-branch", "n6", "--provider", n1.database.dsn),
        "create-root": ("create-root", "n7"),
    }
    with contextlib.closing(lines.Line(n3.database.dsn)) as own:
        own.cut()
        location = psycopg.conninfo.make_conninfo(own.dsn, connect_timeout=2)
        began = time.monotonic()
        given = {
            name: forks.start(n3.config, *argv, LONDISTE_DB=location, **PATIENCE)
            for name, argv in here.items()
        }
        for name, (fork, seconds) in _ends(given, began).items():
            assert seconds < LIMIT, f"{name}: {fork}"
            assert fork.code() == 6, f"{name}: {fork}"
            assert "127.0.0.1" in fork.err
            said(fork)


def _ends(forks: dict[str, Fork], began: float) -> dict[str, tuple[Fork, float]]:
    """The commands, once all have ended, and how many seconds each has taken."""
    seconds: dict[str, float] = {}

    def ended() -> bool:
        for name, fork in forks.items():
            if name not in seconds and fork.code() is not None:
                seconds[name] = time.monotonic() - began
        return len(seconds) == len(forks)

    wait_for(ended, timeout=2 * LIMIT, what="the end of the commands")
    return {name: (fork, seconds[name]) for name, fork in forks.items()}


@pytest.fixture
def bare(lined: Lined) -> Iterator[Database]:
    """A database on C that is no node."""
    database = create_database(lined.cascade.nodes["n4"].database.cluster, pgq=True)
    yield database
    database.drop()


@pytest.mark.slow
def test_a_worker_whose_provider_is_silent_stands_still_when_it_is_asked(lined: Lined) -> None:
    cascade, line = lined.cascade, lined.lines["n1"]
    begin(lined, OPERATIONS["switchover"])
    line.cut()
    for word in ("pause", "resume"):
        assert cascade.londiste("n3", word, "--timeout", "60").code() == 0
    asked = (
        "select cur_error like '%not responded%' or cur_error like '%timeout%'"
        " from pgq_node.local_state"
    )
    cascade.wait(lambda: cascade.look(cascade.nodes["n3"], asked), "word of what is wrong")
    line.mend()
    cascade.converge()


@pytest.mark.slow
def test_pause_ends_when_the_line_falls_silent_while_it_waits(lined: Lined) -> None:
    cascade, line = lined.cascade, lined.lines["n2"]
    begin(lined, OPERATIONS["switchover"])
    worker = cascade.nodes["n2"].worker
    assert worker is not None
    worker.send(signal.SIGSTOP)
    config = cascade.nodes["n3"].config
    fork = cascade.forks.start(config, "pause", "--node", "n2", "--timeout", "120", **PATIENCE)
    asked = "select paused and not uptodate from pgq_node.local_state"
    cascade.wait(lambda: cascade.look(cascade.nodes["n2"], asked), "the request to pause")
    line.cut()
    began = time.monotonic()
    assert fork.wait(LIMIT) == 6, str(fork)
    print(f"CASE pause, silent while it waits: {time.monotonic() - began:.1f} s\n{fork.err}")
    assert "n2" in fork.err
    said(fork)
    line.mend()
    worker.send(signal.SIGCONT)
    assert "already" in cascade.do("n3", "pause", "--node", "n2").err
    cascade.do("n3", "resume", "--node", "n2")
    cascade.converge()


_wanted: dict[str, tuple[dict[str, Any], int]] = {}


def _run(
    lined: Lined,
    name: str,
    fault: Fault,
) -> None:
    cascade = lined.cascade
    operation = replace(OPERATIONS[name], argv=patient(OPERATIONS[name].argv))
    if name not in _wanted:
        _wanted[name] = _undisturbed(lined, operation)
    wanted, steps = _wanted[name]
    begin(lined, operation)
    branches = {n.name: n.database for n in cascade.nodes.values() if n.kind is not LEAF}
    dropped = {operation.argv[1]} if operation.argv[0] == "drop-node" else set()
    own = "is not a node of queue"
    split = operation.lost == fault.node
    with Everywhere(branches) as writer:
        writer.wait(5, on="n1")
        if operation.lost and not split:
            cascade.converge()
            cascade.nodes[operation.lost].database.cluster.stop("immediate")
        with wrong(lined, fault) as happen:
            fork, seconds = disturbed(cascade, operation, fault, steps, happen)
            word = said(fork)
            if not split and fault.kind != "down":
                # Somebody can write, or a person is told what to type.
                with contextlib.suppress(AssertionError):
                    writer.wait(3, 3.0)
                    word += ", writes go on"
        print(f"CASE {name} {fault} {seconds:.1f} s, {fork.code()}, {word}\n{fork.err}")
        assert seconds < LIMIT, str(fork)
        # Nobody is patient or impatient any more.
        again = cascade.londiste(operation.at, *OPERATIONS[name].argv)
        if split:
            _back(cascade, operation, fork, again)
            writer.wait(5, on="n1" if fork.code() else operation.roots[-1])
            return
        gone = dropped and again.code() == 2 and ("has no node" in again.err or own in again.err)
        assert again.code() == 0 or gone, f"first {fork}\nthen {again}\n{cascade.report()}"
        for silent in re.findall(r"node (\w+) does not answer and keeps the node", fork.err):
            # What the warning says about it, unless its worker has heard of it meanwhile.
            there = cascade.londiste(silent, "drop-node", *dropped)
            assert there.code() == 0 or "has no node" in there.err, str(there)
        writer.wait(5, on=operation.roots[-1])
        writer.stop()
        history = writer.history(ignoring=dropped)
    assert history == list(operation.roots), f"two roots, or another: {history}\n{fork}"
    same(stands(cascade, operation, writer), wanted, str(fork))


def _undisturbed(lined: Lined, operation: Operation) -> tuple[dict[str, Any], int]:
    """How everything stands behind the operation, and the number of its steps."""
    cascade = lined.cascade
    begin(lined, operation)
    branches = {n.name: n.database for n in cascade.nodes.values() if n.kind is not LEAF}
    with Everywhere(branches) as writer:
        writer.wait(5, on="n1")
        if operation.lost:
            cascade.converge()
            cascade.nodes[operation.lost].database.cluster.stop("immediate")
        steps = len(json.loads(cascade.do(operation.at, *operation.argv, "--json").out)["done"])
        writer.wait(5, on=operation.roots[-1])
        writer.stop()
    return stands(cascade, operation, writer), steps


def _back(cascade: QuickCascade, operation: Operation, fork: Fork, again: Fork) -> None:
    """A node that only seemed to be lost is back, and the takeover is through or can be undone."""
    told = f"first {fork}\nthen {again}\n{cascade.report()}"
    assert again.code() == 3, told
    assert "answers and has not failed" in again.err, told
    (hint,) = (line for line in again.err.splitlines() if line.startswith("hint: "))
    if fork.code():
        ways = [way for way in hint.split("; ") if "londiste " in way and "or " not in way[:3]]
        assert ways, told
        for way in ways:
            done = cascade.londiste(operation.at, *way.partition("londiste ")[2].split())
            assert done.code() == 0, f"{told}\n{done}"
    left = [n.name for n in cascade.live() if cascade.look(n, NOTES)]
    assert not left, f"still under way at {left}\n{told}"
    if fork.code():
        dead = "select count(*) from pgq_node.node_location where dead"
        assert not any(cascade.look(n, dead) for n in cascade.live()), told
        return
    # A root takes nothing more once it hears that it is not one.
    node = cascade.nodes[operation.lost]
    if operation.roots[-1] != operation.lost and node.kind is NodeType.ROOT:
        cascade.wait(
            lambda: cascade.look(node, "select queue_disable_insert from pgq.queue"),
            f"{operation.lost} to refuse events",
        )
