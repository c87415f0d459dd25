"""Settings of a queue that belong to the root, whichever node that is: how it ticks and captures.

What belongs to a server, like how long old events are kept, stays each node's own.
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
    """The settings of the root that ``target`` has otherwise, as ``source`` has them."""
    theirs = {p.name: p.value for p in queues.get_queue_config(source, queue)}
    ours = {p.name: p.value for p in queues.get_queue_config(target, queue)}
    # A node of an older version may not know all of them.
    return {
        name: theirs[name]
        for name in OF_THE_ROOT
        if name in theirs and name in ours and theirs[name] != ours[name]
    }


def take_over(source: Connection, target: Connection, queue: str) -> None:
    """Sets them on ``target`` as ``source`` has them; in the caller's transaction."""
    for name, value in different(source, target, queue).items():
        queues.set_queue_config(target, queue, name, value)
