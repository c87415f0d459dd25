"""Changes of a cascade interrupted at every step: the same command again ends in the same place.

Nothing here names a step.  Each operation is carried out once without an interruption, which says
how everything has to stand in the end; then it is begun anew and interrupted

* at every one of its steps, one after the other, until it is through: takes some seconds;
* in the long form at its first step only, then from the beginning at its second one only, and so
  on: takes minutes.

All the while somebody tries to write on every node.  ``-rP`` shows how often it was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.scenarios.interrupting import (
    FAULTS,
    LEAF,
    SERVERS,
    Operation,
    again_and_again,
    gone,
    interrupted,
    same,
    stands,
)
from tests.support.scenarios.quick_cascade import QuickCascade
from tests.support.scenarios.writer_on_every_node import Everywhere

OPERATIONS = {
    "change-provider": Operation(("change-provider", "--node", "n4", "--provider", "n3")),
    "change-provider-of-branch": Operation(
        ("change-provider", "--node", "n2", "--provider", "n3"), at="n1"
    ),
    "change-provider-of-consumer": Operation(
        ("change-provider", "--node", "n4", "--consumer", "reports", "--provider", "n3"),
        reports="n4",
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
        ("takeover", "n1", "--failover", "--node", "n2"), ("n1", "n2"), lost="n1"
    ),
    # It reads from n3 until it has what n3 has, and n3 from it afterwards.
    "takeover-dead-root-behind": Operation(
        ("takeover", "n1", "--failover", "--node", "n2"), ("n1", "n2"), lost="n1", behind="n2"
    ),
    # What a lost branch held of tables cannot be asked: --allow-resync says that it was all.
    "takeover-dead-branch": Operation(
        ("takeover", "n2", "--failover", "--allow-resync", "--node", "n3"), lost="n2"
    ),
    "drop-leaf": Operation(("drop-node", "n4")),
    "drop-self": Operation(("drop-node", "n4"), at="n4"),
    "drop-branch": Operation(("drop-node", "n3"), at="n2"),
    "rename-branch": Operation(("rename-node", "n2", "other")),
    "rename-root": Operation(("rename-node", "n1", "other")),
    "rename-self": Operation(("rename-node", "n3", "other")),
    "tag-dead": Operation(("tag-dead", "n4")),
    "tag-alive": Operation(("tag-alive", "n4"), before=(("tag-dead", "n4"),)),
}

#: Where the commands are interrupted.
POINTS = ("plan.before-step", "plan.after-step")
#: Operation and fault: by default at some of the steps; at each, and the others, in the slow run.
SHORT = [
    ("takeover-dead-root-behind", "command"),
]


CASES = [
    (name, fault)
    for name, operation in OPERATIONS.items()
    for fault in FAULTS
    # The server of a lost node is gone anyway.
    if not operation.lost or SERVERS.get(fault) != operation.lost
]


@pytest.mark.parametrize(
    ("name", "fault", "stride"),
    [(*case, 5) for case in SHORT]
    + [pytest.param(*case, 1, marks=pytest.mark.slow) for case in CASES],
)
def test_a_change_that_is_interrupted_again_and_again(
    name: str, fault: str, stride: int, four: QuickCascade
) -> None:
    operation, began = OPERATIONS[name], time.monotonic()
    wanted = _once(four, operation)
    count = 0

    def interrupt() -> bool:
        nonlocal count
        count = again_and_again(four, operation, fault, stride)
        return True

    same(_once(four, operation, interrupt), wanted, f"interrupted {count} times")
    # A mark is passed on by the root, too: the second command may find nothing to do.
    assert count >= (1 if name.startswith("tag-") else 2)
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
        return _once(four, operation, lambda: interrupted(four, operation, fault, point, number))

    number = 1
    while (found := once(POINTS[0], number)) is not None:
        same(found, wanted, f"interrupted before step {number}")
        number += 1
    assert number > 1
    # Behind the last step as well.  Ticks that the nodes have decide how many steps there are.
    reached = (once(POINTS[1], last) for last in range(number - 1, 0, -1))
    same(next(filter(None, reached), None), wanted, "interrupted after the last step")
    print(f"{name} {fault}: {number} interruptions, {time.monotonic() - began:.0f} s")


@pytest.mark.slow
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
    first.go_on()
    assert first.wait() == 0, str(first)
    four.converge()
    assert "already" in four.do("n1", *argv).err


def _once(
    cascade: QuickCascade, operation: Operation, interrupt: Callable[[], bool] = lambda: True
) -> dict[str, Any] | None:
    """The operation from the beginning; how all stands in the end.

    interrupt -- begins it and is in its way; False, and None of this, when it had fewer steps.
    """
    cascade.restore()
    for argv in operation.before:
        cascade.do("n1", *argv)
    if operation.reports:
        cascade.start_reports(operation.reports, register=True)
    branches = {n.name: n.database for n in cascade.nodes.values() if n.kind is not LEAF}
    with Everywhere(branches, pause=0.01) as writer:
        writer.wait(5, on="n1")
        if operation.lost:
            cascade.converge()
            if operation.behind:
                cascade.stop_worker(operation.behind)
                cascade.ahead("n3", operation.behind)
            cascade.nodes[operation.lost].database.cluster.stop("immediate")
            if operation.behind:
                cascade.start_worker(operation.behind)
        met = interrupt()
        dropped = {operation.argv[1]} if operation.argv[0] == "drop-node" else set()
        if met:
            again = cascade.londiste(operation.at, *operation.argv)
            assert again.code() == 0 or gone(operation, again), f"{again}\n{cascade.report()}"
        writer.wait(5, on=operation.roots[-1])
        writer.stop()
        # A node that was dropped is an ordinary database.
        history = writer.history(ignoring=dropped)
    if not met:
        return None
    assert history == list(operation.roots), f"two roots, or another: {history}"
    return stands(cascade, operation, writer)
