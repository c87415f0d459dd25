"""Routing of events: which ones a process applies, and to which tables.

An event names the provider's table.  On this node the table may have another name, may not be
replicated, or may be in a state in which the other process applies its events.  Changes that the
copy includes must not be applied twice.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeAlias

from londiste.applier.plan import Net, RowSet, TableChange, TablePlan, Verb
from londiste.changes import jsonrow
from londiste.changes.keyed import KeyedType, read_type
from londiste.changes.kinds import is_message
from londiste.changes.types import Malformed, Op, RowChange, Truncate
from londiste.db.names import TableName, argument
from londiste.db.relation import Folding, Relation
from londiste.db.snapshot import Snapshot
from londiste.errors import ApplyError, BadOption, EventError, PartialEvent
from londiste.handlers.base import ALL, RowFunction, TableRules
from londiste.pgq.blocks import EventBlock
from londiste.pgq.types import Event
from londiste.replication import renamed_tables
from londiste.replication.apply.net_changes.decoded import NotFoldable, fold
from londiste.replication.apply.net_changes.encoded import NetFold
from londiste.replication.forwarding.rewrite import FilteredTable, held
from londiste.replication.lost_rows import REPLACED
from londiste.replication.model import NO_SKIPS, ReplicatedTable, SkippedEvents
from londiste.replication.renamed_tables import CopiedTable, RenamedTable
from londiste.replication.tablesync.states import By, SyncState, from_text, in_copy, interesting
from londiste.wording import whole_rows


@dataclass(frozen=True)
class Upsert:
    """Applies events as the state of the row after them, whatever it was before.

    That is correct if every event has a full row image with its key; others are refused.

    key -- the columns that identify a row.
    columns -- what an image must have.
    """

    key: tuple[str, ...]
    columns: frozenset[str]

    def type(self, what: KeyedType | None) -> KeyedType | None:
        """The type of such an event as a state."""
        if what is None or what.state:
            return what
        return what._replace(op=_AFTER[what.op], state=True)

    def fits(self, what: KeyedType, columns: Iterable[str]) -> bool:
        """Whether events of this type, with images of these columns, have full rows."""
        return what.key == self.key and (what.op is Op.DELETE or self.columns <= set(columns))

    def change(self, event: Event, change: RowChange) -> RowChange:
        """A decoded change as a state.  Raises PartialEvent."""
        what = read_type(event.type)
        if what is None or not self.fits(what, change.image):
            raise PartialEvent(
                f"event {event.id}: table {change.table}: row image is incomplete (key"
                f" {', '.join(self.key)})",
                detail="a resumable copy replays events as row states, which needs full row images",
                hint="copy the table in one snapshot:"
                f" londiste resync {argument(change.table)} --copy-mode snapshot",
                event_id=event.id,
            )
        return change._replace(op=_AFTER[change.op], state=True)


@dataclass(frozen=True)
class ByFilter:
    """Applies events of a table with a row filter on this node.

    An event does not show whether the row matched before an update or delete.  So both are applied
    as the state of the row after them, present or absent; the statement that writes it asks the
    condition (``Relation.where``).  The image must be complete, because the row may be new on this
    node.
    """

    def type(self, what: KeyedType | None) -> KeyedType | None:
        """The type of such an event as a state."""
        if what is None or what.state or what.op is Op.INSERT or not what.key:
            return what
        return what._replace(op=_AFTER[what.op], state=True)

    def fits(self, what: KeyedType, columns: Iterable[str]) -> bool:
        """Events of the native capture always have full rows."""
        return bool(what.key) or what.op is not Op.UPDATE

    def change(self, event: Event, change: RowChange) -> RowChange:
        """A decoded change as a state.  Raises PartialEvent."""
        if change.state or change.op is Op.INSERT or not change.key:
            return change
        if change.partial:
            raise PartialEvent(
                f"event {event.id}: table {change.table}: row image is incomplete",
                detail="this node filters rows of the table, and an update may add a row",
                hint=whole_rows(argument(change.table)),
                event_id=event.id,
            )
        return change._replace(op=_AFTER[change.op], state=True)


_AFTER = {Op.INSERT: Op.INSERT, Op.UPDATE: Op.INSERT, Op.DELETE: Op.DELETE}


#: Condition, row function, and policy about rows that do not fit, of a table.
Shaping: TypeAlias = tuple[str, RowFunction | None, str]
#: What a table that wants nothing special wants.
PLAIN: Final[Shaping] = ("", None, "halt")


@dataclass(frozen=True)
class Route:
    """Where the events of one table go.

    snapshot -- that of the table's copy, while it matters.
    by_state -- how they are applied while chunks of the copy have different snapshots, or where
        rows are filtered.
    wants -- rules of the table's handler and attributes.
    """

    source: TableName
    dest: TableName
    snapshot: Snapshot | None
    by_state: Upsert | ByFilter | None = None
    wants: TableRules = ALL

    def columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The columns of an image that are written here."""
        return names if self.wants.all_columns else tuple(filter(self.wants.keeps, names))

    def change(self, event: Event, change: RowChange | Truncate) -> RowChange | Truncate | None:
        """A decoded change as this table applies it; None: ignored.  Raises PartialEvent."""
        if isinstance(change, Truncate):
            return None if self.wants.ignore_truncate else change
        if not self.wants.all_columns:
            image = {k: v for k, v in change.image.items() if self.wants.keeps(k)}
            change = change._replace(image=image)
        if self.wants.rows is not None:
            change = change._replace(image=self.wants.rows(change.image))
        return change if self.by_state is None else self.by_state.change(event, change)


@dataclass(frozen=True)
class RoutingTable:
    """The tables whose events a process applies, by the name that events carry.

    held -- filtered tables: their events are rewritten before they are forwarded.
    skips -- but not these.
    """

    by: By
    routes: Mapping[TableName, Route]
    held: Mapping[TableName, FilteredTable] = field(default_factory=dict)
    skips: SkippedEvents = NO_SKIPS
    _seen: dict[str, Route | None] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def main(cls, tables: Iterable[ReplicatedTable]) -> RoutingTable:
        """The routes of the node's worker: the tables that are ok."""
        mine = list(tables)
        return replace(cls._of(By.MAIN, mine), held=held(mine))

    @classmethod
    def copies(cls, tables: Iterable[ReplicatedTable]) -> RoutingTable:
        """The routes of the copy process while tables catch up."""
        return cls._of(By.COPY, tables)

    @classmethod
    def states(cls, table: ReplicatedTable, by_state: Upsert, seen: Snapshot) -> RoutingTable:
        """The routes until a resumable copy is consistent: all events, as states.

        seen -- transactions that this snapshot sees are ignored.
        """
        route = Route(table.name, table.dest, seen, by_state, table.wants)
        return cls(By.COPY, {table.name: route})

    @classmethod
    def _of(cls, by: By, tables: Iterable[ReplicatedTable]) -> RoutingTable:
        routes = {}
        parsed: dict[str, Snapshot] = {}
        for table in tables:
            state: SyncState = from_text(table.state)
            if table.local and interesting(by, state) and _is_written(table.wants):
                snapshot = None
                if table.snapshot:
                    # Tables that were copied together have one snapshot.
                    snapshot = parsed.get(table.snapshot) or Snapshot.parse(table.snapshot)
                    parsed[table.snapshot] = snapshot
                filtered = ByFilter() if table.wants.where else None
                routes[table.name] = Route(table.name, table.dest, snapshot, filtered, table.wants)
        return cls(by, routes)

    @cached_property
    def shaping(self) -> Mapping[TableName, Shaping]:
        """The rules of the tables that have any, by their names here."""
        wants = {route.dest: route.wants for route in self.routes.values()}
        found = {dest: (w.where, w.rows, w.on_error) for dest, w in wants.items()}
        return {dest: want for dest, want in found.items() if want != PLAIN}

    def only(self, tables: Container[TableName]) -> RoutingTable:
        """The same, for some tables of this node."""
        routes = {name: route for name, route in self.routes.items() if route.dest in tables}
        return RoutingTable(self.by, routes, skips=self.skips)

    def without(self, skips: SkippedEvents) -> RoutingTable:
        """The same but for some events."""
        return self if skips == self.skips else RoutingTable(self.by, self.routes, self.held, skips)

    def route(self, name: str | None, txid: int) -> Route | None:
        """The route of an event with this table name and transaction; None: ignored."""
        route = self.find(name)
        if route is not None and in_copy(txid, route.snapshot):
            return None
        return route

    def find(self, name: str | None) -> Route | None:
        """The route of events with this table name, including those that the copy has."""
        if name is None:
            return None
        try:
            return self._seen[name]
        except KeyError:
            route = self._seen[name] = self._find(name)
            return route

    def readable(self, block: EventBlock, *, every: bool = False) -> EventBlock:
        """The block without events whose bytes are no text, where they are not needed.

        every -- events of all tables are needed, because they are forwarded.

        Raises EventError for one that is needed.
        """

        def needed(event_id: int, kind: str, name: str) -> bool:
            if (event_id, 0) in self.skips.rows:
                return False
            return every or is_message(kind) or self.find(name) is not None

        try:
            return block.readable(needed)
        except EventError as error:
            if error.finding is not None:
                route = self.find(error.finding.table)
                dest = error.finding.table if route is None else str(route.dest)
                error.finding = replace(error.finding, dest=dest)
            raise

    def _find(self, name: str) -> Route | None:
        try:
            return self.routes.get(TableName.parse(name))
        except BadOption:
            return None


def _is_written(wants: TableRules) -> bool:
    return wants.stored or wants.events is not None


class Pending:
    """Changes that are read and not written yet, with the memory they take."""

    def __init__(self) -> None:
        self.changes: dict[TableName, list[TableChange]] = {}
        self.count = 0
        self.bytes = 0

    def add(self, dest: TableName, change: TableChange) -> None:
        """Takes one more change of the table ``dest`` of this node."""
        self.changes.setdefault(dest, []).append(change)
        self.count += 1
        if isinstance(change, RowChange):
            # a tuple, a dict, and a string for every value
            self.bytes += 400 + 80 * len(change.image) + sum(map(_length, change.image.values()))

    def clear(self) -> None:
        """Forgets them, after they are written."""
        self.changes = {}
        self.count = 0
        self.bytes = 0


def plan(
    changes: Mapping[TableName, list[TableChange]],
    shapes: Mapping[TableName, Relation],
    *,
    node: str,
) -> list[TablePlan]:
    """The work for the tables of this node, from decoded changes.

    Raises EventError for a table that is not there.
    """
    plans = []
    for dest, mine in changes.items():
        shape = shapes.get(dest)
        if shape is None:
            raise missing_table(mine[0].event_id, mine[0].table, dest, node=node)
        try:
            net = fold(mine, shape)
        except NotFoldable as reason:
            plans.append(TablePlan(shape, False, None, str(reason), mine))
        else:
            plans.append(TablePlan(shape, net.truncated, _row_sets(net, shape), "", mine))
    return plans


def plan_folded(folded: NetFold, shape: Relation) -> TablePlan | None:
    """The work of net changes by the key's text; None: the events must be decoded.

    They must when equal keys may have different texts here.
    """
    if folded.reason:
        return None
    for name in folded.key or ():
        column = shape.by_name.get(name)
        if column is None or column.folding is not Folding.TEXT:
            return None
    sets = folded.result()
    if shape.rows is not None:
        try:
            sets = [_changed(rows, shape.rows) for rows in sets]
        except Malformed:
            # Whoever decodes the events says which one it is.
            return None
    return TablePlan(shape, folded.truncated, sets)


def _changed(rows: RowSet, change: RowFunction) -> RowSet:
    """The same rows, changed by the function."""
    lines: list[str] = []
    for text in itertools.chain(rows.lines, *(pack.split("\n") for pack in rows.packs)):
        image = jsonrow.image(text)
        lines.append(_DUMP(change({name: image[name] for name in rows.columns if name in image})))
    return replace(rows, lines=lines, packs=[], alike=False)


def missing_table(
    event: int,
    source: TableName,
    dest: TableName,
    *,
    node: str,
    renamed: RenamedTable | None = None,
) -> EventError:
    """The error for events of a table that this node does not have.

    renamed -- its present name, and the SQL that restores the old one.
    """
    gone = f"table {dest} does not exist on node {node}"
    hint = f"create the table, or stop replicating it: londiste remove-table {argument(source)}"
    if renamed is not None:
        gone = f"it was renamed to {renamed.now} on node {node}"
        hint = renamed.back
    return EventError(
        f"event {event}: table {source}: {gone}",
        hint=hint,
        event_id=event,
        finding=ApplyError("structure", table=str(source)),
    )


def replaced_table(
    event: int, source: TableName, dest: TableName, copied: CopiedTable, *, node: str, queue: str
) -> EventError:
    """The error for events of a table whose name another table has on this node.

    Pure.

    copied -- the one that has the rows.
    """
    again = f"londiste resync {argument(source)}"
    if copied.now is None:
        gone = "was dropped"
        hint = f"{again}; or, if it has all rows: {renamed_tables.accept(queue, source)}"
    else:
        gone = f"is {copied.now} now"
        hint = f"{renamed_tables.swap(dest, copied.now)}; or {again}"
    return EventError(
        f"event {event}: table {source}: {dest} of node {node} {REPLACED}, which {gone}",
        hint=hint,
        event_id=event,
        finding=ApplyError("structure", table=str(source)),
    )


def _row_sets(net: Net, shape: Relation) -> list[RowSet]:
    """The lists as texts, in groups of the same columns and key."""
    groups: dict[tuple[Verb, tuple[str, ...], tuple[str, ...]], RowSet] = {}
    for verb, changes in (
        (Verb.DELETE, net.deletes),
        (Verb.UNSET, net.unsets),
        (Verb.UPDATE, net.updates),
        (Verb.SET, net.sets),
        (Verb.INSERT, net.inserts),
    ):
        finding = verb in {Verb.DELETE, Verb.UNSET}
        for change in changes:
            key = change.key or shape.key
            columns = key if finding and key else tuple(change.image)
            group = groups.get((verb, key, columns))
            if group is None:
                group = groups[verb, key, columns] = RowSet(verb, key, columns, [], [], 0)
            image = {name: change.image.get(name) for name in columns} if finding else change.image
            group.lines.append(_DUMP(image))
            group.count += 1
    return list(groups.values())


def _length(text: str | None) -> int:
    return len(text or "")


_DUMP = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
