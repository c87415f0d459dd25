"""Fields of a queue's events, in order, for tests of capture."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import psycopg

from londiste.pgq.types import Event

QUEUE = "q"


class Fields(NamedTuple):
    """The fields of an event that its producer decides."""

    type: str | None
    data: str | None
    extra1: str | None
    extra2: str | None = None
    extra3: str | None = None
    extra4: str | None = None


def take_events(conn: psycopg.Connection[tuple[object, ...]]) -> list[Fields]:
    """The events since the last call, oldest first; they are removed."""
    rows = conn.execute(
        "with gone as (delete from pgq.event_template returning *)"
        " select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
        " from gone order by ev_id"
    ).fetchall()
    return [Fields(*row) for row in rows]  # type: ignore[arg-type]


def as_event(fields: Fields, number: int = 1) -> Event:
    """The event as a consumer would read it."""
    return Event(number, datetime(2024, 1, 1, tzinfo=UTC), 1, None, *fields)


def writer(dsn: str) -> psycopg.Connection[tuple[object, ...]]:
    """A session of an application: nothing is pinned in it."""
    return psycopg.connect(dsn, autocommit=True)
