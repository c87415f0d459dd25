"""Captures of rows that replication writes here: they fire only if they are ENABLE ALWAYS.

A root may be a leaf of another queue (z1 -> z2 by queue p, z2 -> z3 by queue q), or a subscriber of
PostgreSQL's own replication.  Its captures then have to fire for these rows, too.  They must not if
the rows come back to their origin (z1 -> z2 -> z1), where they would replace newer ones.

    rows of                  capture of the root
    another queue            fires always
    a queue that comes back  fires for applications only; the add-table that closes the circle is
                             refused if all captures on the way fire always
    native subscription      by row, and fires always: its rows fire no triggers for statements
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.db.queries import fetch, first, tuples
from londiste.errors import LondisteError, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import with_table
from londiste.orchestration.plan import CommandPlan
from londiste.orchestration.steps import NodeStep
from londiste.replication import sqlapi as tables
from londiste.replication.patterns import named

#: The kind of ``sql/queries/silent_captures.sql`` for rows of PostgreSQL's own replication.
NATIVE = "native-subscription"


def fire_always(conn: Connection, queue: str, dest: TableName) -> bool:
    """Lets the capture of a table fire for replicated rows, too; False when it did already."""
    return bool(call.value(conn, "londiste.fire_always", queue, str(dest)))


def silent(conn: Connection, queue: str) -> list[tuple[str, str, str]]:
    """Tables with replicated rows that are not captured: kind, table, what brings them.

    On a branch those whose captures fire for such rows: it was the root.
    """
    return [
        (kind, table, detail)
        for kind, table, detail in tuples(conn, "silent_captures", queue=queue)
    ]


def remedy(table: str) -> str:
    """The command that ends the silence of a capture."""
    name = argument(table)
    return f"londiste triggers --always {name}; then on the nodes below: londiste resync {name}"


def always_kinds(conn: Connection, queue: str, dest: TableName) -> frozenset[str]:
    """Which triggers of a table's capture fire for what replication does: rows, truncate."""
    row = first(conn, "always_kinds", queue=queue, table=str(dest))
    return frozenset(row[0] or () if row is not None else ())


@dataclass(frozen=True)
class Filling:
    """A queue that fills a table here.

    table -- its name there.  decided -- a function of the handler decides which version stays.
    """

    queue: str
    table: TableName
    decided: bool


def subscribed(conn: Connection) -> dict[TableName, str]:
    """The tables here that subscriptions of PostgreSQL fill, and one of these each."""
    rows = fetch(conn, "subscribed_tables")
    return {TableName(row["schema"], row["name"]): row["subscription"] for row in rows}


def native_note(table: TableName, subscription: str) -> str:
    """Pure: what is said of a captured table that a subscription of PostgreSQL fills."""
    return (
        f"table {table}: rows that subscription {subscription} of PostgreSQL brings are not"
        " captured; if Londiste does not bring them back to their origin: londiste triggers"
        f" --always {argument(table)}"
    )


def _same_rows(conn: Connection, names: Sequence[str]) -> list[str]:
    """These tables here, their partitions, and those of which they are partitions."""
    return [name for (name,) in tuples(conn, "same_rows", names=list(names))] if names else []


def filling(conn: Connection, queue: str, dest: TableName) -> list[Filling]:
    """The other queues that fill a table here, or some of its partitions."""
    dests = _same_rows(conn, [str(dest)])
    return [
        Filling(other, TableName.parse(name), decided)
        for other, name, _, decided in tuples(conn, "filling_queues", queue=queue, dests=dests)
    ]


def filled(conn: Connection, queue: str) -> frozenset[str]:
    """The tables here, by name, that other queues fill."""
    rows = tuples(conn, "filling_queues", queue=queue, dests=None)
    return frozenset(_same_rows(conn, [row[2] for row in rows]))


def left_behind(there: Connection, here: Connection, queue: str) -> list[tuple[TableName, str]]:
    """Tables of which a root sends the rows of another queue, which does not fill them here.

    there -- the database of the root.  Each with the name of that queue.
    """
    related = filled(there, queue)
    kept = (
        {t.name: t.dest for t in tables.get_table_list(here, queue) if t.local} if related else {}
    )
    found = []
    for table in tables.get_table_list(there, queue) if kept else ():
        if not table.local or str(table.dest) not in related or table.name not in kept:
            continue
        if "rows" not in always_kinds(there, queue, table.dest):
            continue
        by = {one.queue for one in filling(here, queue, kept[table.name])}
        for other in dict.fromkeys(one.queue for one in filling(there, queue, table.dest)):
            node = nodes.find_node_info(here, other)
            if other not in by and (node is None or node.type is not NodeType.ROOT):
                found.append((table.name, other))
    return found


def captured(conn: Connection, queue: str) -> frozenset[str]:
    """The tables here, by name, that other queues capture."""
    rows = tuples(conn, "capturing_queues", queue=queue, dests=None)
    return frozenset(_same_rows(conn, [row[2] for row in rows]))


@dataclass(frozen=True)
class Circle:
    """Queues by which rows of a table come back to the queue that captures them.

    closed -- all captures on the way fire for replicated rows.
    node -- the last one on the way; undo -- what lets its capture fire for applications only.
    """

    closed: bool
    node: str
    undo: str


def circle(
    sites: Connections, conn: Connection, queue: str, table: TableName, back_to: str
) -> Circle | None:
    """How rows of a table that ``queue`` brings come from queue ``back_to``; None: they do not.

    back_to -- its root is here: other cascades may have queues of that name.
    Walks up to the root of the queue, and along the queues that fill the table there.
    Raises NodeUnreachable for a node on the way.
    """
    home = _own_place(conn, back_to)
    return _circle(sites, conn, queue, table, home, closed=True, passed=frozenset())


@dataclass(frozen=True)
class _Place:
    """A node of a queue."""

    queue: str
    node: str
    location: str


def _places(conn: Connection, queue: str) -> set[_Place]:
    """The nodes of a queue that this one knows."""
    return {_Place(queue, m.name, m.location) for m in nodes.get_queue_locations(conn, queue)}


def _own_place(conn: Connection, queue: str) -> _Place:
    own = nodes.get_node_info(conn, queue).name
    return next((one for one in _places(conn, queue) if one.node == own), _Place(queue, own, ""))


def _root(sites: Connections, conn: Connection, queue: str) -> Connection:
    """Walks up from a node of a queue to its root."""
    seen: set[str] = set()
    info = nodes.get_node_info(conn, queue)
    while info.type is not NodeType.ROOT and info.name not in seen:
        seen.add(info.name)
        conn = sites.at(sites.reach(info.provider_location, info.provider))
        info = nodes.get_node_info(conn, queue)
    return conn


def _comes_from(sites: Connections, conn: Connection, queue: str, home: _Place) -> bool:
    """Whether a queue of this node is that of the root ``home``, and not of another cascade."""
    if queue != home.queue:
        return False
    return home in _places(conn, queue) or home == _own_place(_root(sites, conn, queue), queue)


def _circle(
    sites: Connections,
    conn: Connection,
    queue: str,
    table: TableName,
    home: _Place,
    *,
    closed: bool,
    passed: frozenset[_Place],
) -> Circle | None:
    conn = _root(sites, conn, queue)
    place = _own_place(conn, queue)
    if place in passed:
        return None
    known = tables.get_tables(conn, queue, [table]).get(table)
    if known is None or not known.local:
        return None
    closed = closed and "rows" in always_kinds(conn, queue, known.dest)
    passed |= {place}
    for one in filling(conn, queue, known.dest):
        if _comes_from(sites, conn, one.queue, home):
            rows = tuples(conn, "always_triggers", queue=queue, table=str(known.dest))
            return Circle(closed, place.node, "; ".join(statement for (statement,) in rows))
        found = _circle(sites, conn, one.queue, one.table, home, closed=closed, passed=passed)
        if found is not None:
            return found
    return None


def decide(
    sites: Connections, conn: Connection, queue: str, table: TableName, dest: TableName
) -> tuple[bool, list[str]]:
    """Whether the capture that a root gets for a table has to fire for replicated rows; notes."""
    notes: list[str] = []
    brings = []
    for one in filling(conn, queue, dest):
        if one.decided:
            return False, notes
        other = one.queue
        try:
            back = circle(sites, conn, other, one.table, queue)
        except LondisteError as error:
            notes.append(
                f"table {table}: rows that queue {other} brings are not captured, because it is not"
                f" known whether they come back: {error.message}; when that is corrected: londiste"
                f" triggers --always {argument(table)}"
            )
            return False, notes
        if back is not None:
            notes.append(
                f"table {table}: rows that queue {other} brings are not captured: they come from"
                " this queue, too"
            )
            return False, notes
        brings.append(other)
    if brings:
        said = ", ".join(dict.fromkeys(brings))
        notes.append(
            f"table {table}: its capture also fires for rows that queue {said} brings"
            " (ENABLE ALWAYS)"
        )
    return bool(brings), notes


def below(
    sites: Connections, conn: Connection, queue: str, table: TableName, dest: TableName
) -> list[str]:
    """Notes about a table that ``queue`` is going to fill, and that another queue captures here.

    Raises StateError if its changes would run in a circle.
    """
    notes = []
    dests = _same_rows(conn, [str(dest)])
    for other, name, here in tuples(conn, "capturing_queues", queue=queue, dests=dests):
        back = circle(sites, conn, queue, table, other)
        if back is None:
            if "rows" not in always_kinds(conn, other, TableName.parse(here)):
                notes.append(
                    f"table {table}: rows that queue {queue} brings are not captured for queue"
                    f" {other}; with the settings of its root: londiste triggers --always"
                    f" {argument(name)}"
                )
        elif back.closed:
            raise StateError(
                f"table {table}: its changes of queue {other} would come back by queue {queue}, and"
                " replace newer ones",
                detail=f"the capture on node {back.node} fires for replicated rows; nothing was"
                " added",
                hint=f"in the database of {back.node}: {back.undo}; then repeat the command",
            )
    return notes


def plan(sites: Connections, dsn: str, queue: str, names: Sequence[TableName] = ()) -> CommandPlan:
    """Plans that captures of a root fire for replicated rows, too.

    names -- tables; none: all whose captures are silent about such rows.
    Raises UnknownTable; StateError below the root, and for a table whose rows come back.
    """
    conn = sites.at(dsn)
    node = nodes.get_node_info(conn, queue)
    _require_root(node)
    found = silent(conn, queue)
    native = {table for kind, table, _ in found if kind == NATIVE}
    kept = named([t for t in tables.get_table_list(conn, queue) if t.local], names)
    if not names:
        silenced = {table for _, table, _ in found}
        kept = [t for t in kept if str(t.name) in silenced]
    steps = []
    for table in kept:
        for one in filling(conn, queue, table.dest):
            if circle(sites, conn, one.queue, one.table, queue) is not None:
                raise StateError(
                    f"table {table.name}: rows that queue {one.queue} brings come from queue"
                    f" {queue}, too",
                    detail="captured again they would come back to their origin, and replace newer"
                    " ones; nothing was changed",
                    hint=f"leave the capture as it is: each node gets the changes of queue {queue}"
                    " once",
                )
        steps.append(
            FireAlways(node.name, dsn, queue, table.name, table.dest, str(table.name) in native)
        )
    return CommandPlan(tuple(steps))


def _require_root(node: NodeInfo) -> None:
    if node.type is not NodeType.ROOT:
        raise StateError(
            f"node {node.name} is a {node.type.value}: its captures write no events of queue"
            f" {node.queue}",
            detail="its provider sends them; --always is for the root",
            hint="use the settings of the queue whose root this database is",
        )


@dataclass(frozen=True)
class FireAlways(NodeStep):
    """Lets the capture of one table fire for replicated rows, too.

    by_row -- a subscription of PostgreSQL writes it: no trigger for statements fires for its rows.
    """

    table: TableName
    dest: TableName
    by_row: bool

    def describe(self) -> str:
        form = " by row," if self.by_row else ""
        return f"{self.node}: capture table {self.table}{form} also for replicated rows"

    def done(self, sites: Connections) -> bool:
        conn = sites.at(self.dsn)
        waits = [table for kind, table, _ in silent(conn, self.queue) if kind == NATIVE]
        if str(self.table) in waits:
            return False
        return always_kinds(conn, self.queue, self.dest) == {"rows", "truncate"}

    def run(self, sites: Connections) -> None:
        """Raises LockTimeout when the table stays locked."""
        with_table(sites, self.dsn, self.dest, self.node, self._work)

    def _work(self, conn: Connection) -> None:
        fire_always(conn, self.queue, self.dest)
        # A compatible trigger is by row anyway.
        if self.by_row and first(conn, "capture_options", queue=self.queue, table=str(self.dest)):
            tables.change_form(conn, self.queue, self.dest, "row")
