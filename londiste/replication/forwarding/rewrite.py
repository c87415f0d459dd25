"""Rewrites forwarded events of tables that a branch replicates partially.

Subscribers of a branch copy the rows that the branch stores, so they must get the events of these
rows only.  Events are rewritten block by block before they are written into the branch's queue; ids
and ticks stay the same.

    columns excluded, values changed     the same event with the rows of this node
    a row condition                      insert        unchanged, or nothing
                                         update        the state "the row is so", or "there is none"
                                         delete        the state "there is no such row"

This node's database evaluates the condition, with one query per block and table.  A packed update
of which some rows are kept becomes two events of one id: one with the rows that match, the other
with those that do not; they have no key in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import psycopg

from londiste.applier import statements
from londiste.changes import jsonrow, rewrite
from londiste.changes.rewrite import Rows
from londiste.changes.types import Malformed, Op
from londiste.db import owner
from londiste.db.connection import Connection, describe_dsn
from londiste.db.copy import escaped, unescaped
from londiste.db.names import TableName, argument
from londiste.db.relation import Relation
from londiste.error_values import Values
from londiste.errors import BadOption, EventError, PartialEvent, from_database
from londiste.handlers.base import TableRules
from londiste.pgq.blocks import EventBlock
from londiste.replication.model import NO_SKIPS, ReplicatedTable, SkippedEvents
from londiste.wording import whole_rows

_FIELDS = list[str]
_TYPE, _DATA, _TABLE, _OLD, _KEY, _REST = 4, 5, 6, 7, 8, 9
_NULL = r"\N"


@dataclass(frozen=True)
class FilteredTable:
    """A filtered table: its name on this node, its rules, and whether it is copied (again)."""

    dest: TableName
    wants: TableRules
    copied: bool = False


def held(tables: Sequence[ReplicatedTable]) -> dict[TableName, FilteredTable]:
    """The tables whose events must be rewritten, whatever their state."""
    return {
        t.name: FilteredTable(t.dest, t.wants, t.state != "ok")
        for t in tables
        if t.local and t.wants.stored and holds_less(t.wants)
    }


def _dropped(
    block: EventBlock, tables: Mapping[TableName, FilteredTable], skips: SkippedEvents
) -> frozenset[int]:
    """Fragments that are not forwarded: skipped ones; while a table is copied, those beside one."""
    if not skips.rows:
        return frozenset()
    fragments: dict[TableName, set[int]] = {}
    for line in block.lines():
        fields = line.split("\t")
        kind = unescaped(fields[_TYPE]) or ""
        table = _table(kind, unescaped(fields[_TABLE])) if rewrite.is_fragment(kind) else None
        if table is not None and table in tables:
            fragments.setdefault(table, set()).add(int(fields[0]))
    skipped = {id for id, row in skips.rows if row == 0}
    found = {
        table: ids if tables[table].copied and ids & skipped else ids & skipped
        for table, ids in fragments.items()
    }
    return frozenset().union(*found.values())


def holds_less(wants: TableRules) -> bool:
    """Whether a table with these rules lacks rows or values of its source."""
    if wants.events is not None:
        # What its handler does with them concerns this node alone.
        return False
    return bool(wants.where) or wants.rows is not None or not wants.all_columns


@dataclass
class _Work:
    """An event to rewrite: its place in the block, and its rows on this node."""

    fields: _FIELDS
    table: TableName
    held: FilteredTable
    event: Rows
    kept: list[bool]


class EventRewriter:
    """Rewrites events for the queue of this node.

    conn -- session of the worker on this node, inside of the transaction of the batch.
    shape -- current schema of a table of this node; None when it does not exist.
    missing -- the error for that: number of the event, name in it, name on this node.
    """

    def __init__(
        self,
        conn: Connection,
        shape: Callable[[TableName], Relation | None],
        missing: Callable[[int, TableName, TableName], EventError],
        *,
        node: str,
    ) -> None:
        self._conn = conn
        self._shape = shape
        self._missing = missing
        self._node = node

    def block(
        self,
        block: EventBlock,
        tables: Mapping[TableName, FilteredTable],
        skips: SkippedEvents = NO_SKIPS,
    ) -> EventBlock:
        """The events to forward instead of these.

        skips -- events that an operator skips; one that cannot be rewritten is not forwarded.

        Raises EventError for another one that cannot be rewritten.
        """
        if not tables:
            return block
        dropped = _dropped(block, tables, skips)
        lines: list[str | _Work] = []
        found = False
        for line in block.lines():
            fields = line.split("\t")
            if int(fields[0]) in dropped:
                found = True
                continue
            work = self._look(fields, tables)
            lines.append(line if work is None else work)
            found = found or work is not None
        if not found:
            return block
        self._ask([one for one in lines if isinstance(one, _Work)])
        result: list[str] = []
        for one in lines:
            if isinstance(one, str):
                result.append(one)
            else:
                result += _written(one)
        return EventBlock("".join(f"{line}\n" for line in result).encode(), len(result))

    def _look(self, fields: _FIELDS, tables: Mapping[TableName, FilteredTable]) -> _Work | None:
        """The work on an event; None: it is forwarded unchanged."""
        kind = unescaped(fields[_TYPE]) or ""
        if kind == "EXECUTE" or kind.startswith(("pgq.", "londiste.")):
            return None
        table = _table(kind, unescaped(fields[_TABLE]))
        if table is None or table not in tables:
            return None
        mine = tables[table]
        if rewrite.is_fragment(kind):
            raise PartialEvent(
                f"event {fields[0]}: table {table}: row image is incomplete",
                detail=f"node {self._node} replicates a subset of the table and must rewrite"
                " events, which needs full rows; pgq.sqltriga writes fragments of SQL",
                hint=whole_rows(argument(table), skip=fields[0]),
                event_id=int(fields[0]),
            )
        try:
            event = rewrite.read(kind, unescaped(fields[_DATA]) or "", unescaped(fields[_KEY]))
        except Malformed as error:
            # What is in it may be what nobody here is to see.
            raise EventError(
                f"event {fields[0]}: table {table}: cannot decode it: {error.blind}",
                detail=f"node {self._node} replicates a subset of the table and cannot forward an"
                " event that it cannot decode",
                hint=error.hint or "inspect the event on the provider: londiste queue events",
                event_id=int(fields[0]),
            ) from None
        if event is None:
            return None
        wants = mine.wants
        rows = [rewrite.changed(row, wants.keeps, wants.rows) for row in event.rows]
        if event.digest and wants.changed & set(event.key):
            rows = [replace(row, key=rewrite.key_text(row, event.key)) for row in rows]
        return _Work(fields, table, mine, replace(event, rows=rows), [True] * len(rows))

    def _ask(self, works: Sequence[_Work]) -> None:
        """Evaluates the row conditions in the database."""
        groups: dict[tuple[FilteredTable, TableName, tuple[str, ...]], list[tuple[_Work, int]]] = {}
        for work in works:
            if not work.held.wants.where or work.event.op is Op.DELETE:
                continue
            for place_, row in enumerate(work.event.rows):
                group = work.held, work.table, tuple(row.image)
                groups.setdefault(group, []).append((work, place_))
        for (mine, table, columns), members in groups.items():
            number = int(members[0][0].fields[0])
            shape = self._shape(mine.dest)
            if shape is None:
                raise self._missing(number, table, mine.dest)
            unknown = [name for name in columns if name not in shape.by_name]
            columns = tuple(name for name in columns if name in shape.by_name)
            text = statements.kept_sql(shape, mine.wants.where, columns)
            images = [work.event.rows[place_].image for work, place_ in members]
            if unknown:
                images = [{name: image[name] for name in columns} for image in images]
            parameter = ",".join(map(statements.payload, images))
            try:
                answers = owner.ask(self._conn, shape, text, parameter)
            except psycopg.Error as error:
                known = from_database(
                    error, where=describe_dsn(self._conn.info.dsn), values=Values.APART
                )
                if known.retry:
                    raise known from error
                raise EventError(
                    f"event {number}, or one of {len(members)} after it: table {table}: cannot"
                    f" forward it: {known.message}",
                    detail=f"condition {mine.wants.where}",
                    hint=known.hint or "check the condition: londiste tables",
                    event_id=number,
                ) from error
            for (work, place_), kept in zip(members, answers, strict=True):
                work.kept[place_] = kept == "true"


def _table(kind: str, name: str | None) -> TableName | None:
    """The table of an event, as ``changes.decode`` reads it."""
    try:
        if name is None and kind.startswith("{"):
            name = jsonrow.header(kind).table
        return TableName.parse(name) if name else None
    except (BadOption, Malformed):
        return None


def _written(work: _Work) -> list[str]:
    """The lines to forward instead of an event: none, one or two."""
    event, wants = work.event, work.held.wants
    kept = [row for row, yes in zip(event.rows, work.kept, strict=True) if yes]
    rest = [row for row, yes in zip(event.rows, work.kept, strict=True) if not yes]
    table = (work.table.schema, work.table.name)
    if not wants.where:
        return [_line(work, *rewrite.write(event, event.op, kept, state=event.state))]
    if event.op is Op.INSERT and not event.state:
        if not kept:
            return []
        return [_line(work, *rewrite.write(event, event.op, kept, state=False))]
    if event.op is Op.DELETE:
        return [_line(work, *rewrite.as_state(event, Op.DELETE, kept, table))]
    return [
        _line(work, *rewrite.as_state(event, op, some, table))
        for op, some in ((Op.INSERT, kept), (Op.DELETE, rest))
        if some
    ]


def _line(work: _Work, kind: str, data: str, key: str | None) -> str:
    fields = list(work.fields)
    fields[_TYPE], fields[_DATA] = escaped(kind), escaped(data)
    fields[_KEY] = _NULL if key is None else escaped(key)
    # Old rows, and what expressions of the trigger make of a row.
    fields[_OLD] = fields[_REST] = _NULL
    if fields[_TABLE] == _NULL:
        fields[_TABLE] = escaped(f"{work.table.schema}.{work.table.name}")
    return "\t".join(fields)
