"""Module ``pgq`` of earlier versions: consumers, events, producers."""

from __future__ import annotations

from londiste.compat.consumers import (
    CascadedConsumer,
    Consumer,
    CoopConsumer,
    RemoteConsumer,
    SerialConsumer,
)
from londiste.compat.events import EV_DONE, EV_FAILED, EV_RETRY, EV_UNTAGGED, Event
from londiste.compat.produce import bulk_insert_events, insert_event

__all__ = [
    "EV_DONE",
    "EV_FAILED",
    "EV_RETRY",
    "EV_UNTAGGED",
    "CascadedConsumer",
    "Consumer",
    "CoopConsumer",
    "Event",
    "RemoteConsumer",
    "SerialConsumer",
    "bulk_insert_events",
    "insert_event",
]
