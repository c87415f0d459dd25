"""History: bounded in points and series, and right about rates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from londiste.console.collect import Snapshot
from londiste.console.facts import NodeFacts
from londiste.console.history import MOST_SERIES, POINTS, History, Series
from londiste.monitor.lag import Behind
from londiste.monitor.queues.model import ConsumerFacts, MonitorFacts, QueueFacts
from londiste.monitor.status import NodeStatus, Status

START = datetime(2026, 1, 2, 3, 4, 0, tzinfo=UTC)


def snapshot(
    after: float, *, written: int = 0, read: int = 0, lag: float = 0.0, queues: int = 1
) -> Snapshot:
    facts = MonitorFacts(
        "db",
        tuple(QueueFacts(f"q{n}", last_id=written) for n in range(queues)),
        (ConsumerFacts("q0", "c", event_seq=read, pending=written - read),),
    )
    nodes = (
        NodeStatus("root", "root", behind=Behind(0, 0, 0.0)),
        NodeStatus("leaf", "leaf", provider="root", behind=Behind(1, 5, lag)),
    )
    at = START + timedelta(seconds=after)
    return Snapshot(at, Status("q0", "root", nodes), {"root": NodeFacts("db", queues=facts)})


def test_a_series_keeps_the_largest_value_of_a_span_and_a_bounded_number_of_points() -> None:
    series = Series(10.0)
    for second, value in ((100, 1.0), (105, 7.0), (109, 2.0), (110, 3.0)):
        series.add(second, value)
    assert series.points(120) == [(20.0, 7.0), (10.0, 3.0)]
    # The clock goes back: no second point of a span.
    series.add(101, 4.0)
    assert series.points(120) == [(20.0, 7.0), (10.0, 4.0)]
    for span in range(3 * POINTS):
        series.add(1000.0 + 10 * span, 1.0)
    assert len(series.points(1000.0 + 30 * POINTS)) <= POINTS
    # A pause is no room for values that are too old.
    assert series.points(1e6) == []


def test_rates_are_between_two_snapshots_and_a_queue_made_again_has_none_below_zero() -> None:
    history = History(hours=1.0)
    history.add(snapshot(0, written=100, read=50, lag=3.0))
    now = START.timestamp()
    assert history.latest(("written", "root", "q0"), now) is None
    history.add(snapshot(10, written=300, read=150, lag=4.0))
    now += 10
    assert history.latest(("written", "root", "q0"), now) == 20.0
    assert history.latest(("read", "root", "q0", "c"), now) == 10.0
    assert history.latest(("pending", "root", "q0"), now) == 150.0
    assert [value for _, value in history.points(("lag", "leaf"), now)] == [3.0, 4.0]
    # The root is behind nothing.
    assert history.points(("lag", "root"), now) == []
    history.add(snapshot(20, written=0, read=0))
    assert history.latest(("written", "root", "q0"), now + 10) == 0.0
    # An old value is not the present one.
    assert history.latest(("written", "root", "q0"), now + 3600) is None


def test_the_number_of_series_is_bounded_and_the_oldest_ones_end() -> None:
    history = History(hours=1.0)
    history.add(snapshot(0, lag=1.0))
    history.add(snapshot(10, written=1, queues=MOST_SERIES + 10))
    history.add(snapshot(20, written=2, queues=MOST_SERIES + 10))
    assert len(history._series) <= MOST_SERIES
