"""Changes of a cascade interrupted at every step: the same command again ends in the same place.

Nothing here names a step.  Each operation is carried out once without an interruption, which says
how everything has to stand in the end; then it is begun anew and interrupted

* at every one of its steps, one after the other, until it is through: takes some seconds;
* in the long form at its first step only, then from the beginning at its second one only, and so
  on: takes minutes.

All the while somebody tries to write on every node.  ``-rP`` shows how often it was interrupted.
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.types import NodeType
from londiste.embedded.postgres import Cluster
from tests.scenarios.everywhere import Everywhere, rows
from tests.scenarios.forks import Fork
from tests.scenarios.quick_cascade import QuickCascade, running

POINTS = ("plan.before-step", "plan.after-step")
BRANCH, LEAF = NodeType.BRANCH, NodeType.LEAF


@dataclass(frozen=True)
class Operation:
    """A command that changes the cascade n1 <- n2 <- n4, n1 <- n3 (n4 is a leaf).

    roots -- who takes writes, in its order.
    at -- the node at which it is given.
    lost -- the node whose server is gone.
    before -- commands that come first, at n1.
    """

    argv: tuple[str, ...]
    roots: tuple[str, ...] = ("n1",)
    at: str = "n3"
    lost: str = ""
    before: tuple[tuple[str, ...], ...] = ()


OPERATIONS = {
    "change-provider": Operation(("change-provider", "--node", "n4", "--provider", "n3")),
    "change-provider-of-branch": Operation(
        ("change-provider", "--node", "n2", "--provider", "n3"), at="n1"
    ),
    "switchover": Operation(("switchover", "--block", "60", "--to", "n2"), ("n1", "n2")),
    "switchover-all": Operation(
        ("switchover", "--block", "60", "--to", "n2", "--all"), ("n1", "n2")
    ),
    "switchover-below": Operation(
        ("switchover", "--block", "60", "--to", "n3", "--all"),
        ("n1", "n3"),
        before=(("change-provider", "--node", "n3", "--provider", "n2"),),
    ),
    "takeover-branch": Operation(("takeover", "n2", "--all", "--node", "n3")),
    "takeover-provider": Operation(
        ("takeover", "n2", "--all", "--node", "n3"),
        before=(("change-provider", "--node", "n3", "--provider", "n2"),),
    ),
    "takeover-dead-root": Operation(
        ("takeover", "n1", "--dead", "--node", "n2"), ("n1", "n2"), lost="n1"
    ),
    # What a lost branch held of tables cannot be asked: --force says that it was all.
    "takeover-dead-branch": Operation(
        ("takeover", "n2", "--dead", "--force", "--node", "n3"), lost="n2"
    ),
    "drop-leaf": Operation(("drop-node", "n4")),
    "drop-branch": Operation(("drop-node", "n3"), at="n2"),
    "rename-branch": Operation(("rename-node", "n2", "other")),
    "rename-root": Operation(("rename-node", "n1", "other")),
    "rename-self": Operation(("rename-node", "n3", "other")),
    "tag-dead": Operation(("tag-dead", "n4")),
    "tag-alive": Operation(("tag-alive", "n4"), before=(("tag-dead", "n4"),)),
}
#: Whose server each one is, by a node on it.
SERVERS = {"A": "n1", "B": "n2", "C": "n3"}
FAULTS = ("command", "workers", *SERVERS)
#: Operation and fault: the others are in the slow run.
SHORT = [("takeover-dead-root", "command"), ("switchover", "workers"), ("rename-branch", "B")]


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


CASES = [
    (name, fault)
    for name, operation in OPERATIONS.items()
    for fault in FAULTS
    # The server of a lost node is gone anyway.
    if not operation.lost or SERVERS.get(fault) != operation.lost
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "fault"),
    [pytest.param(*case, marks=() if case in SHORT else pytest.mark.slow) for case in CASES],
)
def test_a_change_that_is_interrupted_again_and_again(
    name: str, fault: str, four: QuickCascade
) -> None:
    operation, began = OPERATIONS[name], time.monotonic()
    wanted = _once(four, operation)
    count = 0

    def interrupt() -> bool:
        nonlocal count
        count = _again_and_again(four, operation, fault)
        return True

    _same(_once(four, operation, interrupt), wanted, f"interrupted {count} times")
    assert count >= 2
    print(f"{name} {fault}: {count} interruptions, {time.monotonic() - began:.0f} s")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "fault"), CASES)
def test_a_change_that_is_interrupted_once_at_every_step(
    name: str, fault: str, four: QuickCascade
) -> None:
    operation, began = OPERATIONS[name], time.monotonic()
    wanted = _once(four, operation)

    def once(point: str, number: int) -> dict[str, Any] | None:
        return _once(four, operation, lambda: _interrupted(four, operation, fault, point, number))

    number = 1
    while (found := once("plan.before-step", number)) is not None:
        _same(found, wanted, f"interrupted before step {number}")
        number += 1
    assert number > 1
    # Behind the last step as well: before the one after it there is none.
    last = once("plan.after-step", number - 1)
    _same(last, wanted, f"interrupted after step {number - 1}, the last one")
    print(f"{name} {fault}: {number} interruptions, {time.monotonic() - began:.0f} s")


def test_a_second_operator_is_refused_while_the_first_one_works(four: QuickCascade) -> None:
    four.restore()
    mark = four.directory / "crashed"
    mark.unlink(missing_ok=True)
    env = {"LONDISTE_CRASH": "plan.before-step:2", "LONDISTE_CRASH_SIGNAL": "STOP"}
    argv = ("change-provider", "--node", "n4", "--provider", "n3")
    first = four.forks.start(four.nodes["n3"].config, *argv, LONDISTE_CRASH_MARK=str(mark), **env)
    four.wait(mark.exists, "the first command at its second step")
    # The same one and another, from elsewhere.
    for second in (argv, ("drop-node", "n4")):
        refused = four.londiste("n1", *second)
        assert refused.code() == 3, str(refused)
        assert "under way" in refused.err or "another command is changing" in refused.err
        assert "hint:" in refused.err
    assert "londiste admin" in four.londiste("n1", *argv).err
    first.send(signal.SIGCONT)
    assert first.wait() == 0, str(first)
    four.converge()
    assert "already" in four.do("n1", *argv).err


def _same(found: dict[str, Any] | None, wanted: dict[str, Any] | None, when: str) -> None:
    """Every node stands as it does without an interruption."""
    assert found is not None and wanted is not None, f"{when}: not reached"
    for node in wanted:
        less, more = set(wanted[node]) - set(found[node]), set(found[node]) - set(wanted[node])
        assert not less and not more, f"{when}, at {node}: not {less}, but {more}"


def _once(
    cascade: QuickCascade, operation: Operation, interrupt: Callable[[], bool] = lambda: True
) -> dict[str, Any] | None:
    """The operation from the beginning; how all stands in the end.

    interrupt -- begins it and is in its way; False, and None of this, when it had fewer steps.
    """
    cascade.restore()
    for argv in operation.before:
        cascade.do("n1", *argv)
    branches = {n.name: n.database for n in cascade.nodes.values() if n.kind is not LEAF}
    with Everywhere(branches, pause=0.01) as writer:
        writer.wait(5, on="n1")
        if operation.lost:
            cascade.converge()
            cascade.nodes[operation.lost].database.cluster.stop("immediate")
        met = interrupt()
        dropped = {operation.argv[1]} if operation.argv[0] == "drop-node" else set()
        if met:
            again = cascade.londiste(operation.at, *operation.argv)
            assert again.code() == 0 or _gone(operation, again), f"{again}\n{cascade.report()}"
        writer.wait(5, on=operation.roots[-1])
        writer.stop()
        # A node that was dropped is an ordinary database.
        history = writer.history(ignoring=dropped)
    if not met:
        return None
    assert history == list(operation.roots), f"two roots, or another: {history}"
    return _stands(cascade, operation, writer)


def _again_and_again(cascade: QuickCascade, operation: Operation, fault: str) -> int:
    """Gives the command until it is through, and lets the fault happen before each step.

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
                fork.send(signal.SIGCONT)
        if fork.code() == 0 or _gone(operation, fork):
            return count
        if fork.code() != -signal.SIGKILL:
            _told(fork)
        steps = {line for line in fork.err.splitlines() if re.match(r"(n\d|other): ", line)}
        free = (fault == "command") if steps - seen else free + 1
        seen |= steps
        assert free < 50, f"no way through\n{fork}"


def _stands_still(cascade: QuickCascade, fork: Fork) -> bool:
    """Waits until the command is stopped, or has ended: then False."""

    def state() -> str:
        if fork.code() is not None:
            return "ended"
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{fork.pid}/stat").read_text().rpartition(")")[2].split()
            return "stopped" if words[0] == "T" else ""
        return ""

    return str(cascade.wait(state, f"a stop of {fork.argv}", 120)) == "stopped"


def _interrupted(
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
    fork.send(signal.SIGCONT)
    _told(fork)
    return True


def _happen(cascade: QuickCascade, operation: Operation, fault: str) -> None:
    if fault == "workers":
        for name in cascade.nodes:
            if name != operation.lost:
                cascade.kill_worker(name)
        return
    cascade.nodes[SERVERS[fault]].database.cluster.restart("immediate")


def _gone(operation: Operation, fork: Fork) -> bool:
    """Nobody knows the node any more that is dropped: it was done before."""
    dropping = operation.argv[0] == "drop-node"
    return dropping and fork.code() == 2 and "has no node" in fork.err


def _told(fork: Fork) -> None:
    """It has finished, or has ended with an error that says what to do: no traceback."""
    code = fork.wait()
    assert code in {0, 3, 6}, str(fork)
    assert code == 0 or ("hint:" in fork.err and "Traceback" not in fork.err), str(fork)


def _stands(cascade: QuickCascade, operation: Operation, writer: Everywhere) -> dict[str, Any]:
    cascade.converge()
    kept = writer.confirmed(*[n for n in operation.roots if n != operation.lost])
    may_be = writer.confirmed() | writer.unknown()
    for node in cascade.live():
        found = rows(node.database)
        assert len(found) == len(set(found)), f"{node.name}: rows that came twice"
        assert kept <= set(found), f"{node.name}: lost {sorted(kept - set(found))[:9]}"
        assert set(found) <= may_be, f"{node.name}: {sorted(set(found) - may_be)[:9]}"

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
