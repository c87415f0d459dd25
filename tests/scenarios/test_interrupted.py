"""Changes of a cascade interrupted at every step: the same command again ends in the same place.

Nothing here names a step.  Each operation is carried out once without an interruption, which says
how everything has to stand in the end; then it is begun anew and interrupted at its first step, its
second, and so on, until it has no more.  All the while somebody tries to write on every node.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
    "takeover-dead-branch": Operation(("takeover", "n2", "--dead", "--node", "n3"), lost="n2"),
    "drop-leaf": Operation(("drop-node", "n4")),
    "drop-branch": Operation(("drop-node", "n3"), at="n2"),
    "rename-branch": Operation(("rename-node", "n2", "other")),
    "rename-root": Operation(("rename-node", "n1", "other")),
    "rename-self": Operation(("rename-node", "n3", "other")),
    "tag-dead": Operation(("tag-dead", "n4")),
    "tag-alive": Operation(("tag-alive", "n4"), before=(("tag-dead", "n4"),)),
}
FAULTS = ("command", "workers", "A", "B", "C")
#: Operation, fault, and every how many steps: the others are in the slow run.
SHORT = [("switchover", "command", 5), ("change-provider", "workers", 6), ("rename-branch", "B", 4)]


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


@pytest.mark.parametrize(("name", "fault", "stride"), SHORT)
def test_a_change_that_is_interrupted_now_and_then(
    name: str, fault: str, stride: int, four: QuickCascade
) -> None:
    _interrupt(four, OPERATIONS[name], fault, stride)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_change_that_is_interrupted_at_every_step(
    name: str, fault: str, four: QuickCascade
) -> None:
    operation = OPERATIONS[name]
    if operation.lost and fault == {"n1": "A", "n2": "B"}[operation.lost]:
        pytest.skip("that server is gone anyway")
    _interrupt(four, operation, fault, 1)


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


def _interrupt(cascade: QuickCascade, operation: Operation, fault: str, stride: int) -> None:
    wanted = _once(cascade, operation, None)
    assert wanted is not None
    number = 1
    while True:
        found = _once(cascade, operation, (fault, "plan.before-step", number))
        if found is None:
            break
        assert found == wanted, f"interrupted before step {number}"
        number += stride
    assert number > 1
    # Behind the last step as well: before the one after it there is none.
    if stride == 1:
        assert _once(cascade, operation, (fault, "plan.after-step", number - 1)) == wanted


def _once(
    cascade: QuickCascade, operation: Operation, interruption: tuple[str, str, int] | None
) -> object:
    """The operation from the beginning; how all stands in the end, None if it had fewer steps."""
    cascade.restore()
    for argv in operation.before:
        cascade.do("n1", *argv)
    branches = {n.name: n.database for n in cascade.nodes.values() if n.kind is not LEAF}
    with Everywhere(branches) as writer:
        writer.wait(5, on="n1")
        if operation.lost:
            cascade.converge()
            cascade.nodes[operation.lost].database.cluster.stop("immediate")
        met = True
        if interruption is not None:
            met = _interrupted(cascade, operation, *interruption)
        dropped = {operation.argv[1]} if operation.argv[0] == "drop-node" else set()
        if met:
            again = cascade.londiste(operation.at, *operation.argv)
            gone = dropped and again.code() == 2 and "has no node" in again.err
            assert again.code() == 0 or gone, f"{again}\n{cascade.report()}"
        writer.wait(5, on=operation.roots[-1])
        writer.stop()
        # A node that was dropped is an ordinary database.
        history = writer.history(ignoring=dropped)
    if not met:
        return None
    assert history == list(operation.roots), f"two roots, or another: {history}"
    return _stands(cascade, operation, writer)


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
    _go_on(fork)
    return True


def _happen(cascade: QuickCascade, operation: Operation, fault: str) -> None:
    if fault == "workers":
        for name in cascade.nodes:
            if name != operation.lost:
                cascade.kill_worker(name)
        return
    node = {"A": "n1", "B": "n2", "C": "n3"}[fault]
    cascade.nodes[node].database.cluster.restart("immediate")


def _go_on(fork: Fork) -> None:
    fork.send(signal.SIGCONT)
    code = fork.wait()
    # Finished, or an error that says what to do: no traceback.
    assert code in {0, 3, 6}, str(fork)
    assert code == 0 or ("hint:" in fork.err and "Traceback" not in fork.err), str(fork)


def _stands(cascade: QuickCascade, operation: Operation, writer: Everywhere) -> object:
    cascade.converge()
    kept = writer.confirmed(*[n for n in operation.roots if n != operation.lost])
    may_be = writer.confirmed() | writer.unknown()
    for node in cascade.live():
        found = rows(node.database)
        assert len(found) == len(set(found)), f"{node.name}: rows that came twice"
        assert kept <= set(found), f"{node.name}: lost {sorted(kept - set(found))[:9]}"
        assert set(found) <= may_be, f"{node.name}: {sorted(set(found) - may_be)[:9]}"

    def settled() -> object:
        digest = cascade.digest()
        waiting = any(
            row[0] == "reads" and (not row[4] or row[5])
            for found in digest.values()
            if found != "down"
            for row in found
        )
        return None if waiting else digest

    return cascade.wait(settled, "workers that have seen the change", 30)
