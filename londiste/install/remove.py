"""Uninstallation of components, in reverse order.

Everything of a component is in its schema; triggers on other tables are dropped with their
functions. Roles stay: they belong to the whole server, and other databases may use them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from psycopg import sql

from londiste.db.connection import Connection, whereabouts
from londiste.db.names import word
from londiste.db.queries import query, translated
from londiste.db.sessions.schema_guard import Doubt
from londiste.errors import InstallError, StateError
from londiste.install import ledger, locks, owners, source
from londiste.install.apply import lock
from londiste.install.ledger import Installed
from londiste.install.source import Component

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DropTrigger:
    """Step: drop a trigger on a user table, because its function is dropped."""

    table: str
    trigger: str

    def describe(self) -> str:
        return f"drop trigger {self.trigger} on {self.table}"


@dataclass(frozen=True)
class DropSchema:
    """Step: drop a schema with all its objects."""

    schema: str
    version: str
    objects: int

    def describe(self) -> str:
        return f"drop schema {self.schema} {self.version} with its {self.objects} objects"


Removal = DropTrigger | DropSchema

#: Schemas of generated functions, by the component that generates them.
_GENERATED = {"londiste": ("londiste_capture", "londiste_apply")}


def plan(
    conn: Connection, components: Sequence[str] | None = None, *, root: Path | None = None
) -> list[Removal]:
    """The objects that ``uninstall`` would remove; empty for components that are not installed.

    Raises InstallError when a component is still required by one that is not named, or if a
    schema has another origin.  Raises NotTrusted if that of a named one, or each, is a stranger's.
    """
    with conn.transaction():
        return _plan(conn, components, root)


def blockers(
    conn: Connection,
    removals: Sequence[Removal],
    *,
    dropped: Collection[str] = (),
    queues: bool = False,
) -> list[str]:
    """Consumers, nodes, foreign keys, positions and epochs that would be lost, as sentences.

    dropped -- queues that are dropped before with their nodes, which restores foreign keys.
    queues -- queues without consumers count, too: for commands that are not asked to drop them.
    """
    schemas = {one.schema for one in removals if isinstance(one, DropSchema)}
    found: list[str] = []
    with conn.transaction():
        found += [
            f"node {node} of queue {queue} is in this database"
            for queue, node in _nodes(conn, removals)
            if queue not in dropped
        ]
        if "londiste" in schemas and not dropped:
            found += [
                f"foreign key {key} of table {table} is not restored after a copy: {statement};"
                for table, key, statement in conn.execute(query("uninstall_fkeys"))
            ]
        if "pgq" in schemas:
            found += [
                f"queue {queue} has {count} consumer{'s' if count > 1 else ''}"
                for queue, count in _consumers(conn, removals)
                if queue not in dropped
            ]
        if "pgq" in schemas and queues:
            found += [
                f"queue {queue} is in this database"
                for (queue,) in conn.execute(query("uninstall_queues"))
                if queue not in dropped
            ]
        if "pgq_ext" in schemas:
            found += [
                f"consumer {consumer} keeps its position in this database"
                for (consumer,) in conn.execute(query("uninstall_positions"))
            ]
            found += _sinks(conn)
    return found


def _nodes(conn: Connection, removals: Sequence[Removal]) -> list[tuple[str, str]]:
    """The nodes that would be lost: queue and name."""
    if not any(isinstance(one, DropSchema) and one.schema == "pgq_node" for one in removals):
        return []
    return conn.execute(query("uninstall_nodes")).fetchall()


def _way_out(
    lost: Sequence[str],
    nodes: Sequence[tuple[str, str]],
    queues: Sequence[str],
    components: Sequence[str],
) -> str:
    """Pure: the hint for what would be lost, of which other nodes must know before.

    queues -- those with consumers.
    """
    if len(nodes) == 1:
        first = f"first: londiste drop-node {word(nodes[0][1])}"
    elif nodes:
        # Settings are those of one queue.
        first = "first, " + "; ".join(
            f"with the settings of queue {queue}: londiste drop-node {word(node)}"
            for queue, node in nodes
        )
    else:
        steps = [f"londiste queue unregister {word(queue)} --all" for queue in queues]
        if any(one.startswith("foreign key ") for one in lost):
            steps.append("execute the statements of the foreign keys in psql")
        if any(one.startswith("consumer ") for one in lost):
            steps.append("unregister the consumers in the databases of their queues")
        first = f"first: {'; '.join(steps)}" if steps else ""
    accept = "accept the loss: " + " ".join(["londiste uninstall --allow-data-loss", *components])
    return f"{first}; or {accept}" if first else accept


def _consumers(conn: Connection, removals: Sequence[Removal]) -> list[tuple[str, int]]:
    """The queues that would be lost with consumers, and how many these are."""
    if not any(isinstance(one, DropSchema) and one.schema == "pgq" for one in removals):
        return []
    return conn.execute(query("uninstall_consumers")).fetchall()


def _sinks(conn: Connection) -> list[str]:
    """The records of Spark queries and jobs in this database."""
    relation = {"relation": "pgq_ext.sink"}
    if not conn.execute(query("relation_exists"), relation).fetchall()[0][0]:
        return []
    rows = conn.execute(query("uninstall_sinks")).fetchall()
    jobs = [name for name, _, _, is_job in rows if is_job]
    found = [
        f"sink {name} of Spark, which writes to {target}, has its epoch {epoch} recorded here"
        for name, target, epoch, is_job in rows
        if not is_job
    ]
    if jobs:
        some = ", ".join(jobs[:3]) + (", …" if len(jobs) > 3 else "")
        found.append(f"finished jobs of Spark are recorded here: {len(jobs)} ({some})")
    return found


def uninstall(
    conn: Connection,
    components: Sequence[str] | None = None,
    *,
    force: bool = False,
    copied: Callable[[str], str | None] = lambda queue: None,
    root: Path | None = None,
) -> list[Removal]:
    """Removes the components (default: all that are installed) in one transaction.

    force -- even if consumers, nodes or positions are lost.
    copied -- the hint in a copy of the node of a queue, where drop-node would remove the original.

    Returns the removed objects.  Raises StateError if something would be lost, InstallError and
    NotTrusted as ``plan``.
    """
    with translated(conn):
        with conn.transaction():
            lock(conn)
            conn.execute("set local client_min_messages = warning")
            removals = _plan(conn, components, root)
            lost = [] if force else blockers(conn, removals)
            if lost:
                found = _nodes(conn, removals)
                queues = [queue for queue, _ in _consumers(conn, removals)]
                copies = [hint for queue, _ in found if (hint := copied(queue)) is not None]
                raise StateError(
                    lost[0] + (f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""),
                    detail="; ".join(lost) if len(lost) > 1 else "",
                    hint=copies[0] if copies else _way_out(lost, found, queues, components or ()),
                )
            schemas = [one.schema for one in removals if isinstance(one, DropSchema)]
            locks.take(conn, schemas, triggers=True)
            for one in removals:
                if isinstance(one, DropSchema):
                    for schema in [*_generated([one.schema]), one.schema]:
                        conn.execute(
                            sql.SQL("drop schema if exists {} cascade").format(
                                sql.Identifier(schema)
                            )
                        )
    return removals


def _plan(conn: Connection, components: Sequence[str] | None, root: Path | None) -> list[Removal]:
    known = source.load(root)
    # Only the named ones: what they require stays.
    named = [c for c in source.select(known, components) if not components or c.name in components]
    wanted = [component.name for component in named]
    strange = _strange(conn, known, wanted, components or ())
    has = ledger.read_all(conn, [name for name in known if name not in strange])
    has |= {name: Installed() for name in strange}
    removed = [c for c in reversed(named) if _ours(c, has[c.name], bool(components))]
    for doubt in (strange[name] for name in wanted if name in strange):
        if not removed:
            raise doubt.error(whereabouts(conn))
        log.warning("%s: it stays; hint: %s", doubt.message, doubt.hint)
    names = {component.name for component in removed}
    for other in known.values():
        needs = names.intersection(other.requires)
        if needs and other.name not in names and has[other.name].version is not None:
            raise InstallError(
                f"component {other.name} needs {min(needs)}",
                hint="remove all dependent components: londiste uninstall "
                + " ".join(_with_dependents(known, has, names)),
            )
    schemas = sorted([*names, *_generated(names)])
    triggers = conn.execute(query("uninstall_triggers"), {"schemas": schemas}).fetchall()
    return [
        *(DropTrigger(table, trigger) for table, trigger in triggers),
        *(DropSchema(c.name, has[c.name].version or "", len(has[c.name].names)) for c in removed),
    ]


def _strange(
    conn: Connection, known: Iterable[str], wanted: Collection[str], named: Sequence[str]
) -> dict[str, Doubt]:
    """The components of which only the name of the schema is Londiste's: it is a stranger's.

    wanted, named -- components to remove, and those of them that the user has named.

    Raises NotTrusted if one of these has such a schema, or if what a stranger owns in one of those
    could run in the queries for what is lost.
    """
    found = {}
    doubts = owners.find(conn, owners.of_components(list(known)), installing=True)
    for name in known:
        of_it = owners.of_components([name])
        for doubt in [one for one in doubts if one.schema in of_it][:1]:
            if doubt.of_owner and doubt.schema == name and name not in named:
                found[name] = doubt
            elif name in wanted:
                raise doubt.error(whereabouts(conn))
    return found


def _generated(names: Iterable[str]) -> list[str]:
    """The schemas of functions that these components have generated."""
    return [schema for name in names for schema in _GENERATED.get(name, ())]


def _with_dependents(
    known: Mapping[str, Component], has: Mapping[str, Installed], names: set[str]
) -> list[str]:
    """The names, and before them every installed component that needs one of them."""
    needed = set(names)
    for component in known.values():  # required ones first
        if needed.intersection(component.requires) and has[component.name].version is not None:
            needed.add(component.name)
    return [name for name in reversed(list(known)) if name in needed]


def _ours(component: Component, installed: Installed, named: bool) -> bool:
    """Whether there is something to remove; named schemas of another origin are an error."""
    if installed.version is not None and installed.extension is None:
        return True
    if named and installed.extension is not None:
        raise InstallError(
            f"schema {component.name} belongs to the extension {installed.extension}",
            hint=f"remove it with: DROP EXTENSION {installed.extension}",
        )
    if named and installed.foreign:
        raise InstallError(
            f"schema {component.name} was not made by londiste install",
            hint=f"remove it with: DROP SCHEMA {component.name} CASCADE",
        )
    return False
