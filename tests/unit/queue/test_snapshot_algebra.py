"""Batches between ticks partition the committed transactions, in any commit order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from londiste.db.snapshot import Snapshot
from londiste.errors import BadOption
from tests.support.batch_model import Server, select

STEPS = (
    *("begin", "begin", "insert", "insert", "insert", "commit", "commit", "rollback"),
    *("savepoint", "release", "rollback_to", "burn few", "burn many", "tick", "tick", "own tick"),
)


@st.composite
def histories(draw: st.DrawFn) -> Server:
    """A server after random steps; everything is finished and ticked at the end."""
    server = Server()
    server.tick()
    for step, which in draw(
        st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1000)), max_size=60)
    ):
        if step == "begin":
            server.begin()
        elif step == "burn few":
            server.burn(which % 5)
        elif step == "burn many":
            server.burn(90 + which % 200)
        elif step == "tick":
            server.tick()
        elif step == "own tick":
            server.tick(events=which % 3)
        elif server.running:
            txid = sorted(server.running)[which % len(server.running)]
            getattr(server, step)(txid)
    for nr, txid in enumerate(sorted(server.running, reverse=True)):
        if nr % 2:
            server.commit(txid)
        else:
            server.rollback(txid)
    server.tick()
    server.tick()
    return server


@settings(max_examples=400)
@given(histories())
def test_batches_partition_the_committed_events(server: Server) -> None:
    delivered: list[int] = []
    for last, current in zip(server.ticks, server.ticks[1:], strict=False):
        selection = select(last, current)
        for event, txid in server.events.items():
            delivered += [event] * selection.takes(txid)
    first = server.ticks[0]
    assert sorted(delivered) == sorted(
        e for e, txid in server.events.items() if not first.sees(txid)
    )


@settings(max_examples=200)
@given(histories())
def test_a_batch_has_what_was_committed_between_its_ticks(server: Server) -> None:
    """But for events of the ticking transaction itself, which come with either of two."""
    for nr, (last, current) in enumerate(
        zip(server.ticks, server.ticks[1:], strict=False), start=1
    ):
        selection = select(last, current)
        for event, txid in server.events.items():
            ticks_before = server.committed_before_tick[event]
            if selection.takes(txid):
                allowed = {nr, nr - 1} if event in server.of_ticker else {nr}
                assert ticks_before in allowed


@settings(max_examples=200)
@given(histories(), st.data())
def test_the_two_part_query_takes_what_one_snapshot_sees_and_the_other_does_not(
    server: Server, data: st.DataObject
) -> None:
    """Also when a batch reaches over several ticks."""
    nr = data.draw(st.integers(0, len(server.ticks) - 2))
    last = server.ticks[nr]
    current = server.ticks[data.draw(st.integers(nr + 1, len(server.ticks) - 1))]
    selection = select(last, current)
    for txid in range(1, server.next_txid + 2):
        assert selection.takes(txid) == int(current.sees(txid) and not last.sees(txid)), txid


@settings(max_examples=200)
@given(histories())
def test_a_later_tick_covers_every_earlier_one(server: Server) -> None:
    for last, current in zip(server.ticks, server.ticks[1:], strict=False):
        assert current.covers(last)


@settings(max_examples=100)
@given(histories())
def test_the_range_is_lowered_over_nothing_that_was_finished_before(server: Server) -> None:
    for last, current in zip(server.ticks, server.ticks[1:], strict=False):
        selection = select(last, current)
        assert not any(last.sees(txid) for txid in range(selection.start, last.xmax))
        assert selection.start - 1 not in selection.listed
        assert len(set(selection.listed)) == len(selection.listed)


@given(
    st.integers(1, 2**62),
    st.sets(st.integers(0, 300), max_size=20),
    st.integers(0, 400),
)
def test_a_snapshot_reads_its_own_text(base: int, running: set[int], width: int) -> None:
    xip = frozenset(base + x for x in running if x < width)
    snapshot = Snapshot(min(xip, default=base + width), base + width, xip)
    assert Snapshot.parse(str(snapshot)) == snapshot


def test_a_snapshot_sees_what_was_finished() -> None:
    snapshot = Snapshot.parse("10:20:10,15")
    assert [x for x in range(8, 23) if snapshot.sees(x)] == [8, 9, 11, 12, 13, 14, 16, 17, 18, 19]


@pytest.mark.parametrize(
    "text", ["", "10", "10:20", "10:20:30:", "20:10:", "a:b:", "10:20:5", "10:20:20", "0:5:"]
)
def test_rubbish_is_no_snapshot(text: str) -> None:
    with pytest.raises(BadOption):
        Snapshot.parse(text)
