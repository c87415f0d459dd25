"""A root that was taken for lost and comes back must not take writes: another one is the root.

It cannot know by itself.  So the worker of a root asks the other nodes, when it begins and now
and then.  A root fences itself when another root answers that has given it up (tag-dead, which is
a step of every takeover of a lost root).  The old one has not given up the new one, which goes on.
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
    """The root that has taken the place of root ``name``, as far as other nodes answer; or None.

    conn -- on the database of ``name``.
    Takes as long as a node needs that does not answer: some seconds.
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
    """A root that looks now and then whether it still is the root."""

    def __init__(self) -> None:
        self._next = time.monotonic()

    def look(self, conn: Connection, queue: str, name: str, *, extra: str = "") -> None:
        """Has root ``name`` refuse events when another one has taken its place, when it is time.

        conn -- on its database.  Raises StateError then, each time, until a person acts.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PERIOD
        other = replaced_by(conn, queue, name, extra=extra)
        if other is None:
            return
        # Again at once: what was found holds until a person has done something.
        self._next = 0.0
        operation_log.fence_root(conn, queue)
        raise StateError(
            f"root {name} was taken for lost, {other} is the root of queue {queue} now:"
            " writes are refused here",
            detail="events that were written here and that nobody has read are still here",
            hint=f"londiste resurrect --node {name} exports them and makes the node a branch"
            f" below {other}",
        )
