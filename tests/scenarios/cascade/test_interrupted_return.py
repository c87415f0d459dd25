"""A lost root that comes back, interrupted at every step of its return.

It was killed with rows that no other node had.  Another one took its place, and takes writes all
the while.  In the end the old root is a branch with the same rows as all others, and what it had
alone is in the export, whole.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.scenarios.interrupting import (
    FAULTS,
    Operation,
    again_and_again,
    same,
    stands,
)
from tests.support.scenarios.quick_cascade import QuickCascade
from tests.support.scenarios.writer_on_every_node import Everywhere, rows


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_return_that_is_interrupted_again_and_again(
    fault: str,
    four: QuickCascade,
) -> None:
    began = time.monotonic()
    wanted, _ = _once(four, "")
    found, count = _once(four, fault)
    same(found, wanted, f"interrupted {count} times")
    assert count >= 4
    print(f"resurrect {fault}: {count} interruptions, {time.monotonic() - began:.0f} s")


def _once(cascade: QuickCascade, fault: str) -> tuple[dict[str, Any], int]:
    """Loses the root, replaces it, and brings it back; how all stands, and the number of faults."""
    cascade.restore()
    n1, n2 = cascade.nodes["n1"], cascade.nodes["n2"]
    with Everywhere({"n1": n1.database}, pause=0.01) as before:
        before.wait(5)
        cascade.converge()
        n1.database.execute("update pgq.queue set queue_ticker_paused = true")
        before.wait(5)
        before.stop()
    n1.database.cluster.stop("immediate")
    cascade.do("n2", "takeover", "n1", "--failover")
    n1.database.cluster.up()
    cascade.wait(
        lambda: n1.database.value("select queue_disable_insert from pgq.queue"),
        "the old root that refuses events",
    )
    n1.database.execute("update pgq.queue set queue_ticker_paused = false")
    for path in cascade.directory.glob("lost*"):
        path.unlink()
    export = cascade.directory / "lost"
    operation = Operation(
        ("resurrect", "--node", "n1", "--undo", "--export", str(export)), roots=("n2",)
    )
    count = 0
    kinds = ("n1", "n2", "n3")
    with Everywhere(
        {n: cascade.nodes[n].database for n in kinds}, pause=0.01, first=100_000
    ) as writer:
        writer.wait(5, on="n2")
        if fault:
            count = again_and_again(cascade, operation, fault)
        again = cascade.do(operation.at, *operation.argv)
        assert not fault or "nothing to do" in again.err, str(again)
        writer.wait(5, on="n2")
        writer.stop()
        assert writer.history() == ["n2"]
    mine = before.confirmed() | before.unknown()
    found = stands(cascade, operation, writer, mine)
    assert set(rows(n1.database)) == set(rows(n2.database))
    gone = before.confirmed() - set(rows(n2.database))
    exported = export.with_suffix(".jsonl").read_text().count('\\"node\\":')
    assert len(gone) >= 5 and exported >= len(gone)
    return found, count
