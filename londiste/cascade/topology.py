"""Asks every member of a cascade, at once, and puts the answers together.

A node that does not answer is part of the picture: it is shown with its error, never hidden,
and never waited for longer than the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import psycopg

from londiste.cascade import nodes
from londiste.cascade.plan import reach
from londiste.cascade.types import Member, NodeInfo, NodeType
from londiste.db.connection import Connection, place, session
from londiste.errors import LondisteError, UnknownNode, from_database

T = TypeVar("T")

CONNECT_SECONDS = 5
ANSWER_SECONDS = 10


@dataclass(frozen=True)
class View:
    """One member: ``info`` when it answered, else ``error`` says why not."""

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
    """All members of a queue, by name, as they see themselves.

    local -- name of the node that was asked first.
    """

    queue: str
    local: str
    views: Mapping[str, View]

    @property
    def roots(self) -> list[str]:
        """The nodes that take writes: one, unless something is wrong."""
        return [n for n, v in self.views.items() if v.info and v.info.type is NodeType.ROOT]

    def children(self, name: str) -> list[str]:
        """The nodes that read from ``name``."""
        return [n for n, v in self.views.items() if v.provider == name]


def read(dsn: str, queue: str, *, extra: str = "") -> Topology:
    """The cascade as the members that ``dsn`` knows describe it.

    Raises UnknownNode when that database is no node, NodeUnreachable when it does not answer.
    """
    with session(
        dsn, name="londiste topology", autocommit=True, answer_seconds=ANSWER_SECONDS + 2
    ) as conn:
        local = nodes.get_node_info(conn, queue)
        members = nodes.get_queue_locations(conn, queue)
    return Topology(
        queue, local.name, views_of(members, queue, extra=extra, local=(local.name, dsn))
    )


def views_of(
    members: Sequence[Member],
    queue: str,
    *,
    extra: str = "",
    local: tuple[str, str] | None = None,
) -> dict[str, View]:
    """What each of these members says of itself, by name; arguments as those of ``ask``."""

    def question(conn: Connection, member: Member) -> NodeInfo:
        return own_info(conn, queue, member)

    answers = ask(members, question, extra=extra, local=local)
    views = {}
    for member in members:
        answer = answers[member.name]
        if isinstance(answer, NodeInfo):
            views[member.name] = View(member, answer)
        else:
            views[member.name] = View(member, None, answer)
    return views


def own_info(conn: Connection, queue: str, member: Member) -> NodeInfo:
    """What the database at a member's location is.  UnknownNode when it is not that member."""
    info = nodes.get_node_info(conn, queue)
    if info.name != member.name:
        raise UnknownNode(
            f"at the location of node {member.name} lives node {info.name}",
            detail=f"the location is {place(member.location)}",
            hint="one of them was created with a wrong public connection string",
        )
    return info


def ask(
    members: Iterable[Member],
    question: Callable[[Connection, Member], T],
    *,
    extra: str = "",
    local: tuple[str, str] | None = None,
) -> dict[str, T | LondisteError]:
    """Asks all members the same, in threads; the answer or the error of each, by name.

    local -- (name, connection string) of the member whose own string is better than its
        stored location.  A dead member is asked as well.
    """

    def one(member: Member) -> T | LondisteError:
        dsn = reach(member.location, extra)
        if local is not None and member.name == local[0]:
            dsn = local[1]
        try:
            with session(
                reach(dsn, f"connect_timeout={CONNECT_SECONDS}"),
                name="londiste topology",
                autocommit=True,
                statement_timeout_ms=ANSWER_SECONDS * 1000,
                answer_seconds=ANSWER_SECONDS + 2,
            ) as conn:
                return question(conn, member)
        except LondisteError as error:
            return error
        except psycopg.Error as error:
            return from_database(error, where=place(dsn))

    chosen = list(members)
    if not chosen:
        return {}
    with ThreadPoolExecutor(max_workers=min(16, len(chosen))) as pool:
        return dict(zip((m.name for m in chosen), pool.map(one, chosen), strict=True))
