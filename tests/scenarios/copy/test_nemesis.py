"""Random faults together: kill, disconnect, pause, remove, copy again; the cascade recovers.

The order is that of a seed, which is the test's parameter; ``LONDISTE_NEMESIS_SEEDS=4,5,6``
chooses others.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import Cascade, Node
from tests.support.scenarios.processes import Done
from tests.support.scenarios.writers import TokenWriter

TABLES = (*writers.KEYED, *writers.KEYLESS, "scenario.bulk")
SEEDS = [int(seed) for seed in os.environ.get("LONDISTE_NEMESIS_SEEDS", "1,2,3").split(",")]


class Nemesis:
    """What can happen to a leaf and a branch between two transactions of the writer."""

    def __init__(self, cascade: Cascade, root: Node, lower: list[Node], seed: int) -> None:
        self.cascade = cascade
        self.root = root
        self.lower = lower
        self.random = random.Random(seed)
        self.did: list[str] = []
        self.refused: list[str] = []
        self.actions: list[Callable[[], None]] = [
            self.kill_worker,
            self.kill_worker,
            self.kill_copy,
            self.kill_ticker,
            self.end_sessions,
            self.resync,
            self.resync,
            self.remove_and_add,
            self.pause_and_resume,
            self.compare,
        ]

    def act(self) -> None:
        """One thing happens."""
        action = self.random.choice(self.actions)
        self.did.append(action.__name__)
        action()

    def kill_worker(self) -> None:
        node = self.random.choice(self.lower)
        assert node.worker is not None
        node.worker.kill()
        self.cascade.start_worker(node)

    def kill_copy(self) -> None:
        for pid in self.cascade.processes.find("copy"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_ticker(self) -> None:
        assert self.cascade.ticker is not None
        self.cascade.ticker.kill()
        self.cascade.start_ticker()

    def end_sessions(self) -> None:
        node = self.random.choice([self.root, *self.lower])
        node.database.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'londiste%'"
        )

    def resync(self) -> None:
        table = self.random.choice(TABLES)
        # Refused with a reason while the table is not there; that is part of the game.
        self.command(self.lower[-1], "resync", table)

    def remove_and_add(self) -> None:
        table = self.random.choice(TABLES)
        leaf = self.lower[-1]
        self.command(leaf, "remove-table", table)
        self.command(leaf, "add-table", table, "--insert-only")

    def pause_and_resume(self) -> None:
        node = self.random.choice(self.lower)
        self.command(node, "pause", "--timeout", "0")
        self.command(node, "resume", "--timeout", "0")

    def compare(self) -> None:
        done = self.command(self.lower[-1], "compare")
        assert "differs" not in done.err, str(done)

    def command(self, node: Node, *args: str) -> Done:
        """A command, which may be refused or come at a bad moment; never in any other way."""
        done = self.cascade.londiste(node, *args, accept=(0, 2, 3, 6))
        self.did.append(f"{args[0]} {done.code}")
        if done.code:
            self.refused.append(str(done))
        return done


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_in_this_order_all_nodes_end_equal(
    seed: int, cascade: Cascade, cluster16: Server
) -> None:
    cascade.settings["copy_chunk_bytes"] = str(512 * 1024)
    root = cascade.root(
        on=cluster16, schema=writers.SCHEMA + writers.DATA + writers.BULK + writers.BULK_ROWS
    )
    branch = cascade.branch(provider=root, schema=writers.SCHEMA + writers.BULK)
    leaf = cascade.leaf(provider=branch, on=cluster16, schema=writers.SCHEMA + writers.BULK)
    cascade.start_ticker()
    cascade.start_worker(branch)
    cascade.start_worker(leaf)
    nemesis = Nemesis(cascade, root, [branch, leaf], seed)
    with (
        TokenWriter(root.database, pause=0.02) as writer,
        TokenWriter(root.database, number=2, hold=0.25, two_phase=True) as slow,
    ):
        cascade.add_tables("--all", "--insert-only")
        for _ in range(30):
            writer.wait(nemesis.random.randint(1, 15))
            nemesis.act()
        # Whatever the last commands could not do, is done now.
        cascade.londiste(leaf, "add-table", *TABLES, "--insert-only")
        for node in (branch, leaf):
            cascade.londiste(node, "resume", "--timeout", "0")
            cascade.wait_sync(node)
        writer.wait(30)
        writer.stop()
        slow.stop()
    # Not a game of refusals: most commands did what they were asked for.
    assert len(nemesis.refused) <= 5, nemesis.refused
    for node in (branch, leaf):
        cascade.wait_root(node)
        what = f"{node.name} after {nemesis.did}"
        assert oracles.differences(root.database, node.database, TABLES) == {}, what
        assert oracles.applied_twice(node.database) == [], what
        assert cascade.compare(node)["equal"], what
