"""A root that was taken for lost and comes back must not take writes: another one is the root.

It cannot know by itself.  So the worker of a root asks the other nodes, when it begins and now
and then.  A root fences itself when another root answers that has given it up (tag-dead, which is
a step of every takeover of a lost root).  The old one has not given up the new one, which goes on.
"""

from __future__ import annotations

from londiste.cascade import nodes, topology
from londiste.cascade.types import Member, NodeType
from londiste.db.connection import Connection


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
