"""Record of the objects that ``londiste replicate`` created in a target, and their removal.

The record is a table that is written in the transaction that creates the objects, by a function
that accepts only objects of the caller.  It names objects by their oids.  What was dropped and
created again since, renamed or given to another role is not dropped, nor a schema that contains
anything else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import psycopg

from londiste.cascade.commands.endpoint import Endpoint
from londiste.db import call
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.queries import tuples
from londiste.errors import StateError, from_database
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replicate.databases import NAME
from londiste.wording import shortened

#: Kinds in the order in which they are dropped; all tables go together, for their keys.
_ORDER = ("table", "sequence", "function", "procedure", "aggregate", "type", "extension", "schema")

#: Objects of a schema that a message names.
_NAMED = 3

#: Kind and quoted name.
Object = tuple[str, str]


@dataclass(frozen=True)
class Created:
    """An object that was created, and what became of it.

    now -- its present name; None: it was dropped.
    owner, same_owner -- its present owner, and whether it belonged to that role at the beginning.
    """

    kind: str
    name: str
    now: str | None
    owner: str = ""
    same_owner: bool = True

    @property
    def object(self) -> Object:
        return self.kind, self.name


def objects(conn: Connection) -> dict[Object, tuple[int, int]]:
    """The objects of users in a database: catalog and oid of each."""
    rows = tuples(conn, "user_objects")
    return {(str(row[0]), str(row[1])): (int(row[2]), int(row[3])) for row in rows}


def recorded(conn: Connection, queues: Collection[str]) -> list[Created]:
    """The objects that were created in a database for its nodes of these queues."""
    return [
        Created(
            row["kind"],
            row["identity"],
            row["identity_now"],
            str(row["owner_now"]),
            bool(row["same_owner"]),
        )
        for queue in queues
        for row in call.rows(conn, "londiste.created_objects", queue)
    ]


def droppable(
    found: Iterable[Created],
    existing: Collection[Object],
    inside: Mapping[str, Collection[Object]] = MappingProxyType({}),
) -> tuple[list[Object], dict[Object, str]]:
    """Pure: the objects to drop, and why others of the record are kept.

    existing -- objects of the database now.  inside -- what its schemas contain.
    """
    drop: list[Object] = []
    kept: dict[Object, str] = {}
    for one in found:
        if one.now is None:
            if one.object in existing:
                kept[one.object] = "it was dropped and created again since"
        elif one.now != one.name:
            kept[one.object] = f"it was renamed to {one.now}"
        elif not one.same_owner:
            kept[one.object] = f"it belongs to {one.owner} now"
        else:
            drop.append(one.object)
    for schema in [each for each in drop if each[0] == "schema"]:
        staying = [other for other in inside.get(schema[1], ()) if other not in drop]
        if staying:
            drop.remove(schema)
            kept[schema] = (
                f"it contains {shortened([' '.join(other) for other in staying], _NAMED)}"
            )
    return drop, kept


def contents(conn: Connection, found: Iterable[Created]) -> dict[str, list[Object]]:
    """The objects in the schemas that were created and are still there."""
    inside: dict[str, list[Object]] = {}
    names = [one.now for one in found if one.kind == "schema" and one.now is not None]
    for schema, kind, name in tuples(conn, "schema_contents", schemas=names) if names else ():
        inside.setdefault(str(schema), []).append((str(kind), str(name)))
    return inside


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
                theirs = set(objects(other).values())
            found = [oids for oids in made.values() if oids not in theirs]
            if found:
                classes, ids = (list(part) for part in zip(*found, strict=True))
                call.value(conn, "londiste.record_created", self.queue, classes, ids)


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


def planned(
    conn: Connection, side: Endpoint, queues: Collection[str]
) -> tuple[DropCreated | None, Mapping[Object, str]]:
    """The step that drops the created objects, and why others of the record are kept."""
    found = recorded(conn, queues)
    drop, kept = droppable(found, objects(conn).keys(), contents(conn, found))
    return (DropCreated(side, tuple(queues), tuple(drop)) if drop else None), kept


@dataclass(frozen=True)
class DropCreated:
    """Drops the objects that were created in a target, with their rows.

    queues -- all together: objects of one may depend on those of another one.
    """

    side: Endpoint
    queues: tuple[str, ...]
    found: tuple[Object, ...]

    def describe(self) -> str:
        return f"{self.side.name}: drop the created objects ({len(_tables(self.found))} tables)"

    def explain(self) -> list[str]:
        """The statements."""
        return [f"{text};" for text in drop_statements(self.found)]

    def done(self, sites: Connections) -> bool:
        return not self._left(sites.at(self.side.dsn))

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.side.dsn) as conn:
            conn.execute("set local client_min_messages = warning")
            found = self._left(conn)
            if names := _tables(found):
                # Under the lock no other table can get the name.
                conn.execute(f"lock table {', '.join(names)} in access exclusive mode".encode())
                found = self._left(conn)
            for statement in drop_statements(found):
                try:
                    conn.execute(statement.encode())
                except psycopg.errors.DependentObjectsStillExist as error:
                    ours = from_database(error, where=describe_dsn(self.side.dsn))
                    raise StateError(
                        f"{self.side.name}: {ours.message}",
                        detail="; ".join(filter(None, [ours.detail, "nothing was dropped"])),
                        hint="drop these objects first; or keep the tables: omit --drop-tables",
                    ) from error

    def _left(self, conn: Connection) -> list[Object]:
        """The objects of the step that are still those of the record."""
        record = recorded(conn, self.queues)
        drop, _ = droppable(record, (), contents(conn, record))
        return [one for one in drop if one in self.found]


def _tables(found: Sequence[Object]) -> list[str]:
    return sorted(name for kind, name in found if kind == "table")
