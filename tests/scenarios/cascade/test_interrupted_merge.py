"""Queues that merge into one, interrupted at every step: a source that joins, moves and leaves.

The part "two" is made and left alone; "one" is made, moved and taken off while the fault happens
before each step of each command.  In the end both stand the same, and each row of the sources,
which are written to all the while, is in the combined database once.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database
from tests.support.scenarios.combined_cascade import ALL, PARTS, Combined, Source
from tests.support.scenarios.interrupting import FAULTS, Operation, again_and_again, gone
from tests.support.scenarios.quick_cascade import QuickCascade, QuickNode

PLACES = ("first", "second")

#: What a part is at a place, without its name and without positions, which move.
_STANDS = (
    "select 'node', node_type, node_name, worker_name, combined_queue from pgq_node.node_info"
    " where queue_name = %s",
    "select 'reads', consumer_name, provider_node, paused, uptodate, cur_error"
    " from pgq_node.local_state where queue_name = %s order by 2",
    "select 'knows', node_name, dead from pgq_node.node_location where queue_name = %s order by 2",
    "select 'gives', subscriber_node, worker_name, watermark_name from pgq_node.subscriber_info"
    " where queue_name = %s order by 2",
    "select 'consumer', co_name from pgq.get_consumer_info(%s) i join pgq.consumer c"
    " on c.co_name = i.consumer_name order by 2",
    "select 'table', table_name, merge_state, local from londiste.table_info"
    " where queue_name = %s order by 2",
)


class Interrupted:
    """The databases of ``Combined``; their programs are forked."""

    def __init__(self, combined: Combined, fault: str) -> None:
        self.combined = combined
        self.fault = fault
        self.count = 0
        self.cascade = QuickCascade(combined.directory)
        for part in PARTS:
            self._node(part, part, NodeType.ROOT)
        for queue in (ALL, *PARTS):
            for place in PLACES:
                self._node(queue, place, NodeType.LEAF)

    def _node(self, queue: str, place: str, kind: NodeType) -> None:
        config = self.combined.configure(queue, place)
        node = QuickNode(place, self.combined.at[place], config, kind, None)
        self.cascade.nodes[f"{queue}@{place}"] = node

    def start(self, *names: str) -> None:
        """Starts workers."""
        for name in names:
            self.cascade.start_worker(name)

    def do(self, at: str, *argv: str, lost: str = "") -> None:
        """The command, interrupted before each of its steps; then once more, for nothing."""
        operation = Operation(argv, at=at, lost=lost)
        self.count += again_and_again(self.cascade, operation, self.fault)
        again = self.cascade.londiste(at, *argv)
        assert again.code() == 0 or gone(operation, again), str(again)

    def stands(self, part: str) -> list[str]:
        """How a part stands at its source and at both places; its name is left out."""
        found = []
        for place in (part, *PLACES):
            for query in _STANDS:
                rows = self.combined.at[place].execute(query, part)
                # Not the end of None.
                found += [
                    re.sub(rf"(?<![A-Za-z]){part}", "PART", f"{place}: {row}") for row in rows
                ]
        return sorted(found)

    def same(self) -> None:
        """Both parts stand alike, and nothing is under way."""
        one, two = PARTS

        def alike() -> bool:
            found = self.stands(two)
            return self.stands(one) == found

        try:
            self.cascade.wait(alike, "parts that stand alike", 15)
        except AssertionError as error:
            less = set(self.stands(two)) - set(self.stands(one))
            more = set(self.stands(one)) - set(self.stands(two))
            raise AssertionError(f"not {less}, but {more}\n{error}") from None
        for place in PLACES:
            if self.combined.at[place].cluster.running():
                left = self.combined.at[place].execute("select * from pgq_node.operation")
                assert not left, (place, left)


def _make_leaves(run: Interrupted, place: str) -> None:
    """The part "two" joins at a place at once, "one" with interruptions."""
    at = run.combined.at
    argv = ("create-leaf", place, at[place].dsn, "--merge", ALL)
    run.cascade.do(f"two@{place}", *argv, "--provider", at["two"].dsn)
    run.start(f"two@{place}")
    run.do(f"one@{place}", *argv, "--provider", at["one"].dsn)
    run.start(f"one@{place}")


def test_a_source_joins_while_its_command_is_killed_again_and_again(
    tmp_path: Path, new_database: Callable[..., Database]
) -> None:
    combined = Combined(tmp_path, new_database)
    run = Interrupted(combined, "command")
    with contextlib.ExitStack() as stack:
        stack.callback(combined.close)
        stack.callback(run.cascade.close)
        _make_leaves(run, "first")
        run.same()
        assert run.count >= 5


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_source_that_merges_is_made_moved_and_taken_off(
    fault: str,
    tmp_path: Path,
    new_cluster: Callable[..., Cluster],
    new_database: Callable[..., Database],
) -> None:
    began = time.monotonic()
    a, b, c = (new_cluster(name, settings={"fsync": "on"}) for name in "ABC")
    servers = {"one": a, "two": a, "first": b, "second": c}
    made = Combined(tmp_path, new_database, servers=servers)
    run = Interrupted(made, fault)
    with contextlib.ExitStack() as stack:
        stack.callback(made.close)
        stack.callback(run.cascade.close)
        run.cascade.start_ticker()
        run.start("one@one", "two@two", f"{ALL}@first", f"{ALL}@second")
        for place in PLACES:
            _make_leaves(run, place)
        run.same()
        made.add_tables()
        made.wait_sync()
        run.same()
        sources = [stack.enter_context(Source(part, made.at[part])) for part in PARTS]
        for source in sources:
            source.wait(5)
        run.do(f"{ALL}@first", "switchover", "--to", "second", "--block", "60")
        assert (made.kind("first"), made.kind("second")) == ("branch", "root")
        for source in sources:
            source.wait(5)
            source.stop()
        made.assert_equal()
        run.same()
        run.do("one@first", "drop-node", "first")
        run.cascade.do("two@first", "drop-node", "first")
        run.same()
    print(f"merge {fault}: {run.count} interruptions, {time.monotonic() - began:.0f} s")
