"""What a worker remembers of its provider, and what it notes in a combined queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from londiste.cascade.forward import Combiner
from londiste.errors import EventError
from londiste.pgq import queues
from londiste.pgq.blocks import EventBlock
from londiste.replication.apply.proofs import Control, Proofs
from tests.fixtures.cluster import Database


def test_a_provider_that_is_upgraded_is_asked_by_workers_that_are_connected(
    pgq_db: Database,
) -> None:
    with pgq_db.connect() as conn:
        conn.execute(
            "select pgq_node.register_location('q', 'root', 'dbname=root', false);"
            " select pgq_node.create_node('q', 'root', 'root', 'root.w', null, null, null);"
            " alter function pgq.unproven_events(text, int8[], int8[], text[]) rename to later"
        )
        proofs = Proofs(conn, "q", pgq_db.dsn)
        forged = [Control(9, 1 << 40, "EXECUTE")]
        proofs.check(forged)
        conn.execute(
            "alter function pgq.later(text, int8[], int8[], text[]) rename to unproven_events"
        )
        proofs.begin()
        with pytest.raises(EventError, match="event 9 of type"):
            proofs.check(forged)


def test_a_row_with_the_number_of_a_script_gets_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fit a script that somebody puts in the place of the row."""
    noted: list[tuple[int, str]] = []

    def write(_: Any, block: EventBlock, proven: Sequence[tuple[int, str]], ids: bool) -> int:
        noted.extend(proven)
        return len(block)

    monkeypatch.setattr(queues, "take_ids", lambda *_: [21, 22])
    monkeypatch.setattr(Combiner, "_write", write)
    rest = b"2026-01-01 00:00:00+00\t5\t\\N\t%b\td\tx\t\\N\t\\N\t\\N\n"
    block = EventBlock(b"7\t" + rest % b"EXECUTE" + b"7\t" + rest % b"I:id", 2)
    Combiner(None, "all", "part").forward(block, [(7, "EXECUTE")])  # type: ignore[arg-type]
    assert noted == [(21, "EXECUTE")]
