"""What a snapshot of a standby sees of a queue, as text that can be compared with ticks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from londiste.db.snapshot import Snapshot
from londiste.standby.snapshot import exact


def test_what_runs_at_the_tick_and_shows_no_event_still_runs() -> None:
    last = Snapshot.parse("10:20:10,15")
    assert str(exact(last, 20, ())) == "10:20:10,15"
    assert str(exact(last, 25, ())) == "10:20:10,15"
    assert str(exact(last, 25, {15, 22})) == "10:23:10,20,21"
    assert str(exact(last, 25, {10, 15, 20, 21, 22, 23, 24})) == "25:25:"


@given(
    low=st.integers(1, 20),
    running=st.sets(st.integers(0, 15), max_size=6),
    length=st.integers(0, 20),
    late=st.integers(0, 15),
    data=st.data(),
)
def test_it_covers_the_tick_and_sees_the_later_transactions_with_events(
    low: int, running: set[int], length: int, late: int, data: st.DataObject
) -> None:
    xip = frozenset(low + one for one in running if one < length)
    last = Snapshot(min(xip, default=low + length), low + length, xip)
    high = last.xmax + late
    new = [*sorted(xip), *range(last.xmax, high)]
    seen = data.draw(st.sets(st.sampled_from(new))) if new else set()
    found = exact(last, high, seen)
    assert found == Snapshot.parse(str(found))
    assert found.covers(last)
    for xid in range(1, high + 5):
        assert found.sees(xid) == (last.sees(xid) or xid in seen)
