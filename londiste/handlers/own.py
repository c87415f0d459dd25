"""Public names for handlers of your own.

Derive a class from ``Handler``; see docs/howto/handlers.md.
"""

from __future__ import annotations

from londiste.changes.decode import decode_all
from londiste.changes.types import RowChange
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.errors import BadOption
from londiste.handlers.base import Handler, TableRules, literal, option
from londiste.handlers.event_actions import At, EventWork
from londiste.pgq.types import Event

#: The name of TableRules in 4.0 and 4.1.
Wants = TableRules

__all__ = [
    "At",
    "BadOption",
    "Connection",
    "Event",
    "EventWork",
    "Handler",
    "RowChange",
    "TableName",
    "TableRules",
    "Wants",
    "decode_all",
    "literal",
    "option",
]
