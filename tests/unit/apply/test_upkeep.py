"""The maintenance of a leaf takes little of its worker's time."""

from __future__ import annotations

import pytest

from londiste.replication.worker.upkeep import next_in


@pytest.mark.parametrize(("took", "wait"), [(0.0, 120.0), (1.2, 120.0), (5.0, 500.0)])
def test_maintenance_takes_one_percent_of_the_time_at_most(took: float, wait: float) -> None:
    assert next_in(took) == pytest.approx(wait)
