"""Queue settings that a new root takes over from the old one: ticking and capture.

Settings of a server, such as the retention of old events, stay each node's own.
"""

from __future__ import annotations

from londiste.db.connection import Connection
from londiste.pgq import queues

#: Of ``pgq.set_queue_config``.
OF_THE_ROOT = (
    "ticker_max_count",
    "ticker_max_lag",
    "ticker_idle_period",
    "packed_events",
    "max_retries",
    "key_retention",
)


def different(source: Connection, target: Connection, queue: str) -> dict[str, str | None]:
    """The settings of ``source`` in which ``target`` differs."""
    theirs = {p.name: p.value for p in queues.get_queue_config(source, queue)}
    ours = {p.name: p.value for p in queues.get_queue_config(target, queue)}
    # A node of an older version may not know all of them.
    return {
        name: theirs[name]
        for name in OF_THE_ROOT
        if name in theirs and name in ours and theirs[name] != ours[name]
    }


def take_over(source: Connection, target: Connection, queue: str) -> None:
    """Copies these settings from ``source`` to ``target``, in the caller's transaction."""
    for name, value in different(source, target, queue).items():
        queues.set_queue_config(target, queue, name, value)
