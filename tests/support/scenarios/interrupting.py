"""Interrupts a command that changes a cascade: at one of its steps, or at every one in turn."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from tests.support.programs import reporting_consumer as reports
from tests.support.scenarios.forks import Fork
from tests.support.scenarios.processes import is_stopped
from tests.support.scenarios.quick_cascade import QuickCascade, running
from tests.support.scenarios.writer_on_every_node import Everywhere, rows

BRANCH, LEAF = NodeType.BRANCH, NodeType.LEAF
#: Whose server each one is, by a node on it.
SERVERS = {"A": "n1", "B": "n2", "C": "n3"}
FAULTS = ("command", "workers", *SERVERS)


NOTES = "select count(*) from pgq_node.operation"


@dataclass(frozen=True)
class Operation:
    """A command that changes the cascade n1 <- n2 <- n4, n1 <- n3 (n4 is a leaf).

    roots -- who takes writes, in its order.
    at -- the node at which it is given.
    lost -- the node whose server is gone.
    behind -- the node that has not got what others have when that happens.
    before -- commands that come first, at n1.
    reports -- the node at which a consumer of a user runs.
    """

    argv: tuple[str, ...]
    roots: tuple[str, ...] = ("n1",)
    at: str = "n3"
    lost: str = ""
    behind: str = ""
    before: tuple[tuple[str, ...], ...] = ()
    reports: str = ""


@pytest.fixture(scope="module")
def four(
    tmp_path_factory: pytest.TempPathFactory, own_servers: Callable[[str], Cluster]
) -> Iterator[QuickCascade]:
    """n1 on server A, n2 on B, n3 and n4 on C; saved, and at work."""
    a, b, c = own_servers("A"), own_servers("B"), own_servers("C")
    with running(QuickCascade(tmp_path_factory.mktemp("four"))) as cascade:
        cascade.node("n1", NodeType.ROOT, a)
        cascade.node("n2", BRANCH, b, "n1")
        cascade.node("n3", BRANCH, c, "n1")
        cascade.node("n4", LEAF, c, "n2")
        cascade.save()
        yield cascade


def same(found: dict[str, Any] | None, wanted: dict[str, Any] | None, when: str) -> None:
    """Every node stands as it does without an interruption."""
    assert found is not None and wanted is not None, f"{when}: not reached"
    for node in wanted:
        less, more = set(wanted[node]) - set(found[node]), set(found[node]) - set(wanted[node])
        assert not less and not more, f"{when}, at {node}: not {less}, but {more}"


def again_and_again(
    cascade: QuickCascade, operation: Operation, fault: str, stride: int = 1
) -> int:
    """Gives the command until it is through, and lets the fault happen before each step.

    stride -- steps between two kills of the command.

    A step that is there to be repeated comes first again and again: a command that has done nothing
    new has its first step for itself the next time, then two of them.  The number of the faults.
    """
    count, free = 0, 0
    seen: set[str] = set()
    config = cascade.nodes[operation.at].config
    while True:
        if fault == "command":
            point = f"plan.before-step:{free + 1}"
            fork = cascade.londiste(operation.at, *operation.argv, LONDISTE_CRASH=point)
            count += fork.code() == -signal.SIGKILL
        else:
            env = {"LONDISTE_CRASH": "plan.before-step:*", "LONDISTE_CRASH_SIGNAL": "STOP"}
            fork = cascade.forks.start(config, *operation.argv, **env)
            step = 0
            while _stands_still(cascade, fork):
                if step >= free:
                    _happen(cascade, operation, fault)
                    count += 1
                step += 1
                fork.go_on()
        if fork.code() == 0 or gone(operation, fork):
            # Who is told that it is done must not have to give it once more.
            left = [n.name for n in cascade.live() if cascade.look(n, NOTES)]
            assert not left, f"it is done, and still under way at {left}\n{fork}"
            return count
        if fork.code() != -signal.SIGKILL:
            told(fork)
        names = {node.name for node in cascade.nodes.values()} | {"other"}
        steps = {line for line in fork.err.splitlines() if line.partition(": ")[0] in names}
        free = stride * (fault == "command") if steps - seen else free + 1
        seen |= steps
        assert free < 50, f"no way through\n{fork}"


def _stands_still(cascade: QuickCascade, fork: Fork) -> bool:
    """Waits until the command is stopped, or has ended: then False."""

    def state() -> str:
        if fork.code() is not None:
            return "ended"
        return "stopped" if is_stopped(fork.pid) else ""

    return str(cascade.wait(state, f"a stop of {fork.argv}", 120)) == "stopped"


def interrupted(
    cascade: QuickCascade, operation: Operation, fault: str, point: str, number: int
) -> bool:
    """Begins the operation and lets the fault happen; False when there is no such step."""
    mark = cascade.directory / "crashed"
    mark.unlink(missing_ok=True)
    env = {"LONDISTE_CRASH": f"{point}:{number}", "LONDISTE_CRASH_MARK": str(mark)}
    if fault == "command":
        fork = cascade.londiste(operation.at, *operation.argv, **env)
        if not mark.exists():
            assert fork.code() == 0, f"{fork}\n{cascade.report()}"
            return False
        assert fork.code() == -signal.SIGKILL
        return True
    fork = cascade.forks.start(
        cascade.nodes[operation.at].config, *operation.argv, LONDISTE_CRASH_SIGNAL="STOP", **env
    )
    cascade.wait(lambda: mark.exists() or fork.code() is not None, f"step {number}")
    if not mark.exists():
        assert fork.code() == 0, f"{fork}\n{cascade.report()}"
        return False
    _happen(cascade, operation, fault)
    fork.go_on()
    told(fork)
    return True


def _happen(cascade: QuickCascade, operation: Operation, fault: str) -> None:
    if fault == "workers":
        for name, node in cascade.nodes.items():
            # One that is not made yet has none.
            if name != operation.lost and node.worker is not None:
                cascade.kill_worker(name)
        if operation.reports:
            cascade.start_reports(operation.reports)
        return
    cascade.servers()["ABC".index(fault)].restart("immediate")


def gone(operation: Operation, fork: Fork) -> bool:
    """Nobody knows the node any more that is dropped, nor does it itself: it was done before."""
    dropping = operation.argv[0] == "drop-node"
    said = any(words in fork.err for words in ("has no node", "is not a node"))
    return dropping and fork.code() == 2 and said


def told(fork: Fork) -> None:
    """It has finished, or has ended with an error that says what to do: no traceback."""
    code = fork.wait()
    assert code in {0, 3, 6}, str(fork)
    assert code == 0 or ("hint:" in fork.err and "Traceback" not in fork.err), str(fork)


def stands(
    cascade: QuickCascade,
    operation: Operation,
    writer: Everywhere,
    before: Collection[tuple[str, int]] = (),
) -> dict[str, Any]:
    """How all stands in the end; nothing that a live root has confirmed is lost.

    before -- what others have written, and may be there.
    """
    cascade.converge()
    kept = writer.confirmed(*[n for n in operation.roots if n != operation.lost])
    may_be = writer.confirmed() | writer.unknown() | set(before)
    for node in cascade.live():
        found = rows(node.database)
        assert len(found) == len(set(found)), f"{node.name}: rows that came twice"
        assert kept <= set(found), f"{node.name}: lost {sorted(kept - set(found))[:9]}"
        assert set(found) <= may_be, f"{node.name}: {sorted(set(found) - may_be)[:9]}"

    if operation.reports:
        there = cascade.nodes[operation.reports].database
        wanted = set(rows(there))
        cascade.wait(
            lambda: {*there.execute(reports.LISTED)} >= wanted, "the rows that the consumer lists"
        )
        assert {*there.execute(reports.LISTED)} <= may_be

    def settled() -> dict[str, Any] | None:
        digest = cascade.digest()
        waiting = any(
            row[0] == "reads" and (not row[4] or row[5])
            for found in digest.values()
            if found != "down"
            for row in found
        )
        return None if waiting else digest

    found: dict[str, Any] = cascade.wait(settled, "workers that have seen the change")
    return found
