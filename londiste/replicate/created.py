"""Record of the objects that ``londiste replicate`` created in a target, and their removal.

The record is an attribute of the node, written in the transaction that creates the objects.
Every administrator of the queue can change it.  So it is no SQL: what is dropped are the objects
of the catalog that it names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.endpoint import Endpoint
from londiste.cascade.model import CREATED_OBJECTS, decode_attrs, encode_attrs
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.queries import query
from londiste.errors import StateError, from_database
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replicate.databases import NAME

#: Kinds in the order in which they are dropped; all tables go together, for their keys.
_ORDER = ("table", "sequence", "function", "procedure", "aggregate", "type", "extension", "schema")

#: Kind and quoted name.
Object = tuple[str, str]


def objects(conn: Connection) -> set[Object]:
    """The objects of users in a database."""
    rows = conn.execute(query("user_objects").encode()).fetchall()
    return {(str(row[0]), str(row[1])) for row in rows}


def recorded(conn: Connection, queue: str) -> list[Object]:
    """The objects that were created in the database of a node.  Raises StateError."""
    info = nodes.find_node_info(conn, queue)
    text = decode_attrs(info.attrs).get(CREATED_OBJECTS) if info is not None else None
    try:
        found = json.loads(text) if text else []
        pairs = [(kind, name) for kind, name in found]
        if not all(isinstance(word, str) for pair in pairs for word in pair):
            raise TypeError
    except (TypeError, ValueError):
        raise StateError(
            f"queue {queue}: the record of created objects on the node cannot be read",
            detail="nothing was dropped",
            hint="omit --drop-tables, and drop the tables yourself",
        ) from None
    return pairs


def _record(conn: Connection, queue: str, made: Iterable[Object]) -> None:
    info = nodes.get_node_info(conn, queue)
    found = sorted({*recorded(conn, queue), *made})
    attrs = {**decode_attrs(info.attrs), CREATED_OBJECTS: json.dumps(found)}
    nodes.set_node_attrs(conn, queue, encode_attrs(attrs))


@dataclass(frozen=True)
class Recorded:
    """A step that creates objects in a target, with their record in the same transaction."""

    step: Step
    side: Endpoint
    queue: str

    def describe(self) -> str:
        return self.step.describe()

    def explain(self) -> list[str]:
        """The statements of the step."""
        texts = getattr(self.step, "explain", None)
        return list(texts()) if texts is not None else []

    def done(self, sites: Connections) -> bool:
        return self.step.done(sites)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.side.dsn) as conn:
            self.step.run(sites)
            made = objects(conn)
            # What another session sees was there before, or somebody else has created it meanwhile.
            with session(self.side.dsn, name=NAME, autocommit=True) as other:
                made -= objects(other)
            if made:
                _record(conn, self.queue, made)


def drop_statements(found: Iterable[Object]) -> list[str]:
    """Pure: the statements that drop the objects, without what others made of them."""
    kinds: dict[str, list[str]] = {}
    for kind, name in found:
        kinds.setdefault(kind, []).append(name)
    return [
        f"drop {kind} if exists {', '.join(sorted(kinds[kind]))}"
        for kind in _ORDER
        if kind in kinds
    ]


@dataclass(frozen=True)
class DropCreated:
    """Drops the objects that were created in a target, with their rows."""

    side: Endpoint
    queue: str
    found: tuple[Object, ...]

    def describe(self) -> str:
        tables = [name for kind, name in self.found if kind == "table"]
        return f"{self.side.name}: drop the created objects ({len(tables)} tables)"

    def explain(self) -> list[str]:
        """The statements."""
        return [f"{text};" for text in drop_statements(self.found)]

    def done(self, sites: Connections) -> bool:
        return not set(self.found) & objects(sites.at(self.side.dsn))

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.side.dsn) as conn:
            conn.execute("set local client_min_messages = warning")
            for statement in drop_statements(set(self.found) & objects(conn)):
                try:
                    conn.execute(statement.encode())
                except psycopg.errors.DependentObjectsStillExist as error:
                    ours = from_database(error, where=describe_dsn(self.side.dsn))
                    raise StateError(
                        f"{self.side.name}: {ours.message}",
                        detail="; ".join(filter(None, [ours.detail, "nothing was dropped"])),
                        hint="drop these objects first; or keep the tables: omit --drop-tables",
                    ) from error
