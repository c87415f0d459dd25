"""Fencing: a failed root that returns refuses writes once it finds its successor.

The worker of a root asks the other nodes when it starts and periodically afterwards.  A root
fences itself when another root answers that has marked it as failed (tag-dead, a step of every
failover of a root).  The old root has not marked the new one, which therefore continues.
"""

from __future__ import annotations

import time

from londiste.cascade import sqlapi as nodes
from londiste.cascade import topology
from londiste.cascade.model import Member, NodeType
from londiste.cascade.switching import operation_log
from londiste.db.connection import Connection
from londiste.errors import StateError

#: Seconds between looks of a root whether another one has taken its place.
PERIOD = 10.0


def replaced_by(conn: Connection, queue: str, name: str, *, extra: str = "") -> str | None:
    """The root that has replaced root ``name``, as far as other nodes answer; or None.

    conn -- on the database of ``name``.
    A node that does not answer delays the result by some seconds.
    """
    members = nodes.get_queue_locations(conn, queue)
    others = [m for m in members if m.name != name]
    asker = topology.Asker.one_of(name, members)

    def question(there: Connection, member: Member) -> bool:
        info = topology.own_info(there, queue, member, asker)
        if info.type is not NodeType.ROOT:
            return False
        known = nodes.get_queue_locations(there, queue)
        return any(m.name == name and m.dead for m in known)

    answers = topology.ask(others, question, extra=extra)
    for found, answer in answers.items():
        if answer is True:
            return found
    return None


class Fence:
    """Checks periodically whether a root was replaced."""

    def __init__(self) -> None:
        self._next = time.monotonic()

    def look(self, conn: Connection, queue: str, name: str, *, extra: str = "") -> None:
        """Makes root ``name`` refuse events when another root has replaced it; checks when due.

        conn -- on its database.  Raises StateError then, each time, until an operator acts.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PERIOD
        other = replaced_by(conn, queue, name, extra=extra)
        if other is None:
            return
        # Check again at once: the finding holds until an operator acts.
        self._next = 0.0
        operation_log.fence_root(conn, queue)
        raise StateError(
            f"root {name} of queue {queue} was replaced by {other}: writes are refused",
            detail=f"events that only {name} has are kept",
            hint=f"londiste resurrect --node {name} exports them and makes the node a branch"
            f" below {other}",
        )
