"""Whether a database is a copy of its node's: the node itself answers at its stored location.

A database that was copied with its schemas (dump and restore, template, base backup) has the name
of the node, and the connection strings of the others: what a command or a daemon did there, it
would do to the cascade of the original.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo
from londiste.db.advisory_lock import same_database
from londiste.db.connection import Connection, connect, describe_dsn
from londiste.db.connstr.locations import reach, with_parameters
from londiste.db.names import argument
from londiste.db.queries import first
from londiste.db.sessions.opening import Opening
from londiste.dsn import db_option, leads_to_same, parsed, with_environment
from londiste.errors import (
    AccessDenied,
    BadOption,
    InstallError,
    LondisteError,
    NodeUnreachable,
    NotSecured,
    StateError,
    UsageError,
)

#: Seconds to connect, whatever number of hosts the location names, and for an answer: a location
#: that is silent is that of no original.
SECONDS = 3

#: Sessions whose stored location was silent.  A command asks once.
_SILENT: weakref.WeakKeyDictionary[Connection, Astray] = weakref.WeakKeyDictionary()


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


@dataclass(frozen=True)
class Astray:
    """A node whose stored location does not lead to it.

    silent -- it does not answer this program.  Otherwise the address was given to another.
    what -- a sentence, without a password.
    """

    node: str
    silent: bool
    what: str

    @property
    def do(self) -> str:
        """What helps."""
        return f"londiste move-node {argument(self.node)} CONNECTION"


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


def refuse(local: Connection, queue: str, reaching: Callable[[str], str]) -> Astray | None:
    """Raises StateError when the database of ``local`` is a copy; arguments as of ``find``.

    Returns why its stored location does not lead to the node; None: it does, or nothing is known.
    """
    found = _look(local, queue, reaching)
    if isinstance(found, Copied):
        raise StateError(found.what, detail=f"{WHY}; nothing was changed", hint=found.do)
    return found


def find(local: Connection, queue: str, reaching: Callable[[str], str]) -> Copied | None:
    """The node of which the database of ``local`` is a copy; None for a node, or no node.

    reaching -- makes a connection string of a stored location.

    Nothing is known of a location that does not answer, as after a disaster, or that this program
    may not use.  It is not asked if it leads to the same place as the session.
    """
    found = _look(local, queue, reaching)
    return found if isinstance(found, Copied) else None


def _look(local: Connection, queue: str, reaching: Callable[[str], str]) -> Copied | Astray | None:
    """What is at the stored location of the node of ``local``; None: the node, or unknown."""
    own = nodes.find_node_info(local, queue)
    if own is None:
        return None
    known = {m.name: m.location for m in nodes.get_queue_locations(local, queue)}
    if own.name not in known:
        return None
    if local in _SILENT:
        return _SILENT[local]
    try:
        place = reaching(known[own.name])
        if leads_to_same(parsed(with_environment(place, os.environ)), parsed(local.info.dsn)):
            return None
        with stored_location(place) as there:
            return beside(local, there, queue, own.name, known)
    except NodeUnreachable as error:
        _SILENT[local] = _silent(own.name, error)
        return _SILENT[local]
    except (AccessDenied, NotSecured, BadOption):
        # It is the access of this program that is to be mended.
        return None
    except UsageError as error:
        return _silent(own.name, error)
    except (LondisteError, psycopg.Error):
        return None


@contextmanager
def stored_location(place: str) -> Iterator[Connection]:
    """A session at a stored location.  Raises NodeUnreachable after ``SECONDS``, and as connect().

    A string may name many hosts, and a name many addresses: psycopg limits the time of each only.
    """
    opening = Opening(
        lambda: connect(
            with_parameters(place, connect_timeout=SECONDS),
            name="londiste: stored location",
            autocommit=True,
            statement_timeout_ms=SECONDS * 1000,
            answer_seconds=SECONDS,
        ),
        name="stored location",
    )
    if not opening.ended(SECONDS):
        opening.give_up()
        raise NodeUnreachable(f"{describe_dsn(place)} has not responded for {SECONDS} s")
    with closing(opening.take()) as conn:
        yield conn


def beside(
    local: Connection, there: Connection, queue: str, name: str, known: Mapping[str, str]
) -> Copied | Astray | None:
    """What answers at the stored location of a node, by a session there; None: the node itself.

    name -- of the node; known -- the locations of all nodes.
    """
    try:
        found, theirs = _node_of(there, queue)
        # A standby takes no part in a cascade; it may be one of the other database.
        if _is_standby(local) or _is_standby(there) or same_database(local, there):
            return None
    except (LondisteError, psycopg.Error):
        return None
    place = describe_dsn(there.info.dsn)
    if found is not None and is_original(found.name, name, known, theirs):
        return Copied(name, place, local.info.dsn)
    other = "no node of the queue"
    if found is not None:
        other = f"node {found.name}{'' if found.name in known else ' of another cascade'}"
    return Astray(name, False, f"node {name}: its stored location leads to {other} ({place})")


def _silent(node: str, error: LondisteError) -> Astray:
    """Pure: a location that does not answer this program."""
    return Astray(node, True, f"node {node}: its stored location does not answer: {error.message}")


def _node_of(conn: Connection, queue: str) -> tuple[NodeInfo | None, dict[str, str]]:
    """The node that a database is, and the locations of all nodes that it knows."""
    try:
        found = nodes.find_node_info(conn, queue)
    except InstallError:
        return None, {}
    return found, {m.name: m.location for m in nodes.get_queue_locations(conn, queue)}


def is_original(found: str, name: str, known: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """Pure: whether node ``found``, at the stored location of node ``name``, is that node.

    It may have been renamed since; then the copy does not know its present name, and both know
    another node at the same place.  Otherwise the address was given to a node of another cascade.

    known, theirs -- the locations of all nodes, in the copy and there.
    """
    if found == name:
        return True
    shared = known.items() & theirs.items()
    return found not in known and any(other != name for other, _ in shared)


def _is_standby(conn: Connection) -> bool:
    row = first(conn, "in_recovery")
    return row is not None and bool(row[0])
