"""A cascade of which a node can be silent, hung, down or locked while a command changes it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import create_database
from tests.support.lines import Line
from tests.support.scenarios.forks import Fork
from tests.support.scenarios.harness import QUEUE
from tests.support.scenarios.interrupting import BRANCH, LEAF, Operation
from tests.support.scenarios.quick_cascade import QuickCascade, running

#: Locks and answers are waited for so long, in seconds, and a node for which a command waits.
PATIENCE = {"LONDISTE_LOCK_TIMEOUT": "1", "LONDISTE_RESPONSE_TIMEOUT": "1"}
TIMEOUT, BLOCK = "15", "10"
#: Seconds in which a command has ended, whatever is wrong: generous, for a busy machine.
LIMIT = 60.0


@dataclass(frozen=True)
class Fault:
    """What is wrong, with which node, and from which part of the steps on; 0: from before."""

    kind: str
    node: str
    part: float = 0.0


@dataclass
class Lined:
    """The cascade of ``changes``, and the lines by which others reach its nodes."""

    cascade: QuickCascade
    lines: dict[str, Line]

    def mend(self) -> None:
        for line in self.lines.values():
            line.mend()


@contextlib.contextmanager
def lined_up(directory: Path, own_servers: Callable[[str], Cluster]) -> Iterator[Lined]:
    """n1 on server A, n2 on B, n3 and n4 on C: n1 <- n2 <- n4, n1 <- n3."""
    a, b, c = own_servers("A"), own_servers("B"), own_servers("C")
    with running(QuickCascade(directory, workers=PATIENCE)) as cascade:
        lines: dict[str, Line] = {}
        try:
            for name, kind, server, provider in (
                ("n1", NodeType.ROOT, a, None),
                ("n2", BRANCH, b, "n1"),
                ("n3", BRANCH, c, "n1"),
                ("n4", LEAF, c, "n2"),
            ):
                database = create_database(server, pgq=True)
                lines[name] = Line(database.dsn)
                location = psycopg.conninfo.make_conninfo(lines[name].dsn, connect_timeout=2)
                cascade.make(name, kind, database, provider, location)
            cascade.save()
            yield Lined(cascade, lines)
        finally:
            for line in lines.values():
                line.close()


def patient(argv: tuple[str, ...]) -> tuple[str, ...]:
    argv = tuple(BLOCK if word == "60" else word for word in argv)
    waits = argv[0] in {"switchover", "takeover", "change-provider"}
    return (*argv, "--timeout", TIMEOUT) if waits else argv


def begin(lined: Lined, operation: Operation) -> None:
    lined.mend()
    lined.cascade.restore()
    # All have heard of each other.
    lined.cascade.converge()
    for argv in operation.before:
        lined.cascade.do("n1", *argv)


def disturbed(
    cascade: QuickCascade,
    operation: Operation,
    fault: Fault,
    steps: int,
    happen: Callable[[], None],
    **more: str,
) -> tuple[Fork, float]:
    """The command, and the seconds from the fault to its end; ``more`` is environment."""
    if not fault.part:
        happen()
        began = time.monotonic()
        fork = cascade.londiste(operation.at, *operation.argv, **PATIENCE, **more)
        return fork, time.monotonic() - began
    number = max(1, round(fault.part * steps))
    mark = cascade.directory / "crashed"
    mark.unlink(missing_ok=True)
    env = {
        "LONDISTE_CRASH": f"plan.before-step:{number}",
        "LONDISTE_CRASH_MARK": str(mark),
        "LONDISTE_CRASH_SIGNAL": "STOP",
    }
    config = cascade.nodes[operation.at].config
    fork = cascade.forks.start(config, *operation.argv, **env, **PATIENCE, **more)
    cascade.wait(lambda: mark.exists() or fork.code() is not None, f"step {number}")
    assert mark.exists(), str(fork)
    happen()
    began = time.monotonic()
    fork.send(signal.SIGCONT)
    fork.wait()
    return fork, time.monotonic() - began


@contextlib.contextmanager
def wrong(lined: Lined, fault: Fault) -> Iterator[Callable[[], None]]:
    """What makes it happen; behind the block all is well."""
    with contextlib.ExitStack() as stack:

        def happen() -> None:
            match fault.kind:
                case "silent":
                    lined.lines[fault.node].cut()
                    stack.callback(lined.lines[fault.node].mend)
                case "down":
                    node = lined.cascade.nodes[fault.node]
                    node.database.cluster.stop("immediate")
                    stack.callback(node.database.cluster.up)
                case "hung":
                    for pid in _backends(lined.cascade, fault.node):
                        os.kill(pid, signal.SIGSTOP)
                        stack.callback(_go_on, pid)
                case "locked":
                    node = lined.cascade.nodes[fault.node]
                    conn = stack.enter_context(psycopg.connect(node.database.dsn))
                    if node.kind is NodeType.ROOT:
                        conn.execute("insert into public.written values ('lock', 0, 'x')")
                    conn.execute("select from pgq.queue where queue_name = %s for update", [QUEUE])
                    stack.callback(conn.rollback)

        yield happen


def _backends(cascade: QuickCascade, node: str) -> list[int]:
    found = cascade.nodes[node].database.execute(
        "select pid from pg_stat_activity"
        " where datname = current_database() and application_name = 'londiste admin'"
    )
    assert found, f"the command has no session at {node}"
    return [pid for (pid,) in found]


def _go_on(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def said(fork: Fork) -> str:
    """In a word what it ended with; one line each of what is wrong and of what to type."""
    code = fork.code()
    if code == 0:
        return "done"
    lines = fork.err.splitlines()
    assert code in {3, 6}, str(fork)
    assert sum(line.startswith("error: ") for line in lines) == 1, str(fork)
    assert sum(line.startswith("hint: ") for line in lines) == 1, str(fork)
    assert "Traceback" not in fork.err, str(fork)
    return "refused" if code == 3 else "given up"
