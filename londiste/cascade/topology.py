"""Topology of a cascade, collected from all members at the same time.

A node that does not answer is part of the topology, with its error.  It delays the result by no
more than its own timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import Member, NodeInfo, NodeType
from londiste.db.connection import Connection, describe_dsn, dsn_of, session
from londiste.db.connstr.locations import reach, with_parameters
from londiste.errors import LondisteError, UnknownNode, from_database
from londiste.orchestration.connections import side_by_side

T = TypeVar("T")

CONNECT_SECONDS = 5
ANSWER_SECONDS = 10


@dataclass(frozen=True)
class View:
    """One member: ``info`` when it answered, else ``error`` with the reason."""

    member: Member
    info: NodeInfo | None
    error: LondisteError | None = None

    @property
    def provider(self) -> str | None:
        """The node it reads from; None for a root and for a node that does not answer."""
        if self.info is None or self.info.type is NodeType.ROOT:
            return None
        return self.info.provider


@dataclass(frozen=True)
class Topology:
    """All members of a queue, by name, as they report themselves.

    local -- name of the node that was asked first.
    """

    queue: str
    local: str
    views: Mapping[str, View]

    @property
    def roots(self) -> list[str]:
        """The nodes that take writes: one in a healthy cascade."""
        return [n for n, v in self.views.items() if v.info and v.info.type is NodeType.ROOT]

    def children(self, name: str) -> list[str]:
        """The nodes that read from ``name``."""
        return [n for n, v in self.views.items() if v.provider == name]


#: Nodes that did not answer a moment ago, with their errors: they are not asked again.
Silent = Mapping[str, LondisteError]


def read(
    conn: Connection, queue: str, *, extra: str = "", silent: Silent = MappingProxyType({})
) -> Topology:
    """The cascade as the members that the node of ``conn`` knows describe it.

    Raises UnknownNode when that database is no node.
    """
    local = nodes.get_node_info(conn, queue)
    members = nodes.get_queue_locations(conn, queue)
    asker = Asker.one_of(local.name, members)
    answers: dict[str, NodeInfo | LondisteError] = {**silent, local.name: local}
    return Topology(queue, local.name, views_of(members, queue, asker, extra=extra, known=answers))


def views_of(
    members: Sequence[Member],
    queue: str,
    asker: Asker,
    *,
    extra: str = "",
    known: Mapping[str, NodeInfo | LondisteError] = MappingProxyType({}),
) -> dict[str, View]:
    """The report of each of these members, by its present name; ``extra`` as in ``ask``.

    known -- the answers of members that need not be asked.
    """

    def question(conn: Connection, member: Member) -> NodeInfo:
        return own_info(conn, queue, member, asker)

    asked = [m for m in members if m.name not in known]
    answers = {**known, **ask(asked, question, extra=extra)}
    views = {}
    renamed = {}
    for member in members:
        answer = answers[member.name]
        if isinstance(answer, NodeInfo):
            if answer.name != member.name:
                renamed[member.name] = answer.name
            views[answer.name] = View(replace(member, name=answer.name), answer)
        else:
            views[member.name] = View(member, None, answer)
    for name, view in views.items():
        if view.info is not None and view.info.provider in renamed:
            # It has not heard of that either.
            info = replace(view.info, provider=renamed[view.info.provider])
            views[name] = replace(view, info=info)
    return views


@dataclass(frozen=True)
class Asker:
    """The node that asks others, and the members that it knows."""

    name: str
    known: Collection[str]

    @staticmethod
    def one_of(name: str, members: Iterable[Member]) -> Asker:
        """Node ``name``, which has these members listed."""
        return Asker(name, frozenset(m.name for m in members))


def own_info(conn: Connection, queue: str, member: Member, asker: Asker) -> NodeInfo:
    """The node at a member's location, perhaps under a new name.

    Raises UnknownNode when it is another one.
    """
    info = nodes.get_node_info(conn, queue)
    if info.name != member.name and not _has_new_name(conn, queue, member, info.name, asker):
        raise UnknownNode(
            f"the location of node {member.name} leads to node {info.name}",
            detail=f"the location is {describe_dsn(member.location)}",
            hint="one of them was created with a wrong public connection string",
        )
    return info


def _has_new_name(conn: Connection, queue: str, member: Member, name: str, asker: Asker) -> bool:
    """Whether the member was renamed to ``name`` while the asking node was offline.

    The node is at the member's location, is no other member, and knows the node that asks.
    """
    if name in asker.known:
        return False
    theirs = {m.name: m.location for m in nodes.get_queue_locations(conn, queue)}
    return asker.name in theirs and theirs.get(name) == member.location


def asking(dsn: str, *, name: str) -> AbstractContextManager[Connection]:
    """A session for questions that a node answers at once, or not at all."""
    return session(
        dsn,
        name=name,
        autocommit=True,
        statement_timeout_ms=ANSWER_SECONDS * 1000,
        answer_seconds=ANSWER_SECONDS + 2,
    )


def ask(
    members: Iterable[Member],
    question: Callable[[Connection, Member], T],
    *,
    extra: str = "",
    local: tuple[str, Connection] | None = None,
) -> dict[str, T | LondisteError]:
    """Asks all members the same, in threads; returns the answer or the error of each, by name.

    local -- (name, session) of a member with which a session is open.  A member that is marked as
        failed is asked, too.
    """

    def one(member: Member) -> T | LondisteError:
        own = local[1] if local is not None and member.name == local[0] else None
        dsn = member.location if own is None else dsn_of(own)
        try:
            if own is not None:
                return question(own, member)
            dsn = reach(member.location, extra, node=member.name)
            dsn = with_parameters(dsn, connect_timeout=CONNECT_SECONDS)
            with asking(dsn, name="londiste topology") as conn:
                return question(conn, member)
        except LondisteError as error:
            return error
        except psycopg.Error as error:
            return from_database(error, where=describe_dsn(dsn))

    chosen = list(members)
    return dict(zip((m.name for m in chosen), side_by_side(one, chosen), strict=True))
