"""Producer functions of earlier versions: events go into the cursor's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from londiste.pgq import producer


def insert_event(
    curs: Any,
    queue: str,
    ev_type: str | None,
    ev_data: str | None,
    extra1: str | None = None,
    extra2: str | None = None,
    extra3: str | None = None,
    extra4: str | None = None,
) -> int:
    """Inserts one event; its id."""
    fields = (ev_type, ev_data, extra1, extra2, extra3, extra4)
    return producer.insert_event(curs.connection, queue, *fields)


def bulk_insert_events(
    curs: Any, rows: Iterable[Sequence[Any] | Mapping[str, Any]], fields: Sequence[str], queue: str
) -> int:
    """Inserts events by one COPY; their number.

    rows -- a sequence or a mapping per event.
    fields -- names of their values: ``ev_type``, ``ev_data``, ``ev_time``, …, also without ``ev_``.
        The time is now if it is no field or None.
    """
    lists = ([row[name] for name in fields] if isinstance(row, Mapping) else row for row in rows)
    return producer.insert_events(curs.connection, queue, lists, fields=fields)
