"""Returned events are stored with the batch that was applied without them."""

from __future__ import annotations

import pytest

from londiste.errors import BadOption
from londiste.pgq import ext
from londiste.pgq.ext import ReturnedEvent
from tests.fixtures.cluster import Database

LATER = ReturnedEvent(7, 60, 3, "not now")
DEAD = ReturnedEvent(5, None, None, "never")


def test_what_goes_back_is_remembered_for_the_newest_batch(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert ext.get_returned_events(conn, "c", 1) == []
    assert ext.set_event_returned(conn, "c", 1, LATER)
    assert ext.set_event_returned(conn, "c", 1, DEAD)
    assert not ext.set_event_returned(conn, "c", 1, DEAD._replace(reason="other"))
    assert ext.set_event_returned(conn, "c", 1, DEAD, "worker")
    assert ext.get_returned_events(conn, "c", 1) == [DEAD, LATER]
    assert ext.get_returned_events(conn, "c", 1, "worker") == [DEAD]
    assert ext.set_event_returned(conn, "c", 2, LATER)
    assert ext.get_returned_events(conn, "c", 1) == []
    assert ext.get_returned_events(conn, "c", 2) == [LATER]
    assert ext.get_returned_events(conn, "c", 1, "worker") == [DEAD]


def test_nothing_is_returned_for_nobody(pgq_db: Database) -> None:
    with pytest.raises(BadOption, match="Invalid NULL value"):
        ext.set_event_returned(pgq_db.connect(), None, 1, DEAD)  # type: ignore[arg-type]
