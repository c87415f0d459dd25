"""Whether a database is a copy of its node's: the node itself answers at its stored location.

A database that was copied with its schemas (dump and restore, template, base backup) has the name
of the node, and the connection strings of the others: what a command or a daemon did there, it
would do to the cascade of the original.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.db.advisory_lock import same_database
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.connstr.locations import reach, with_parameters
from londiste.db.names import argument
from londiste.db.queries import first
from londiste.dsn import db_option, leads_to_same, parsed, with_environment
from londiste.errors import LondisteError, StateError

#: Seconds to connect, and for an answer: a location that is silent is that of no original.
_CONNECT, _ANSWER = 5, 10


@dataclass(frozen=True)
class Copied:
    """A node that answers elsewhere.

    original -- the place where it does.  copy -- the connection string of the copy; no password.
    """

    node: str
    original: str
    copy: str

    @property
    def what(self) -> str:
        """A sentence."""
        here = describe_dsn(self.copy)
        return f"{here} is a copy of node {self.node}, which answers at {self.original}"

    @property
    def do(self) -> str:
        """What helps."""
        return (
            f"to make the copy an independent database: {self.uninstall}; if the node moves to it:"
            " stop the old server for good, or drop the old database; then: londiste move-node"
            f" {argument(self.node)} CONNECTION"
        )

    @property
    def uninstall(self) -> str:
        """The command that removes the copied cascade, in the copy only."""
        return f"londiste uninstall {db_option(self.copy)} --allow-data-loss"


WHY = "commands and daemons of the copy would act on the cascade of the original"


def notes(local: Connection, queue: str, extra: str) -> list[tuple[str, str]]:
    """What ``status`` shows at a copy, as ``NodeStatus.errors`` has it."""
    found = find(local, queue, lambda location: reach(location, extra))
    return [] if found is None else [("node-copy", f"{found.what}: {WHY}; hint: {found.do}")]


def uninstall_hint(local: Connection, queue: str) -> str | None:
    """What helps where ``uninstall`` would lose a node, if the database is a copy."""
    found = find(local, queue, lambda location: reach(location, ""))
    if found is None:
        return None
    return f"{found.what}; to remove Londiste from the copy alone: {found.uninstall}"


def refuse(local: Connection, queue: str, reaching: Callable[[str], str]) -> None:
    """Raises StateError when the database of ``local`` is a copy; arguments as of ``find``."""
    found = find(local, queue, reaching)
    if found is not None:
        raise StateError(found.what, detail=f"{WHY}; nothing was changed", hint=found.do)


def find(local: Connection, queue: str, reaching: Callable[[str], str]) -> Copied | None:
    """The node of which the database of ``local`` is a copy; None for a node, or no node.

    reaching -- makes a connection string of a stored location.

    Nothing is known of a location that does not answer, as after a disaster, or that this program
    may not use.  It is not asked if it leads to the same place as the session.
    """
    own = nodes.find_node_info(local, queue)
    if own is None:
        return None
    known = {m.name: m.location for m in nodes.get_queue_locations(local, queue)}
    if own.name not in known:
        return None
    try:
        place = reaching(known[own.name])
        if leads_to_same(parsed(with_environment(place, os.environ)), parsed(local.info.dsn)):
            return None
        with session(
            with_parameters(place, connect_timeout=_CONNECT),
            name="londiste: stored location",
            autocommit=True,
            statement_timeout_ms=_ANSWER * 1000,
            answer_seconds=_ANSWER + 2,
        ) as there:
            return beside(local, there, queue, own.name, known)
    except (LondisteError, psycopg.Error):
        return None


def beside(
    local: Connection, there: Connection, queue: str, name: str, known: Collection[str]
) -> Copied | None:
    """``find`` with a session at the stored location.

    name -- of the node; known -- the names of all nodes.
    """
    if there is local:
        return None
    try:
        found = nodes.find_node_info(there, queue)
        if found is None or not is_original(found.name, name, known):
            return None
        # A standby takes no part in a cascade; it may be one of the other database.
        if _is_standby(local) or _is_standby(there) or same_database(local, there):
            return None
    except (LondisteError, psycopg.Error):
        return None
    return Copied(name, describe_dsn(there.info.dsn), local.info.dsn)


def is_original(found: str, name: str, known: Collection[str]) -> bool:
    """Pure: whether node ``found``, at the stored location of node ``name``, is that node.

    It may have been renamed since; then the copy does not know its present name.
    """
    return found == name or found not in known


def _is_standby(conn: Connection) -> bool:
    row = first(conn, "in_recovery")
    return row is not None and bool(row[0])
