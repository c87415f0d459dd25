"""Whether a copy that has caught up with a batch looks for more before the hand-over."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from londiste.copy.catchup import JOIN_EVENTS, Replayed
from londiste.pgq.types import Batch

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ids", "events", "long"),
    [
        (10, 10, False),
        (JOIN_EVENTS, 10, True),  # ids have gaps
        (10, 1_000_000, True),  # a transaction that was open at the first tick
    ],
)
def test_a_batch_is_long_by_its_ids_or_by_its_events(ids: int, events: int, long: bool) -> None:
    batch = Batch(1, "q", "c", 1, 2, NOW, NOW, 100, 100 + ids)
    assert Replayed(batch, events).is_long is long
