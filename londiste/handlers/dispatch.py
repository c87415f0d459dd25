"""Handler ``dispatch``: writes rows into partitions by time, as they are or as a history.

Each event becomes a change of the partition of its time, and all changes are written as net
changes, in sets.  A missing partition is created in the transaction of the batch.  ``partitions``
names and creates them; this module maps the events.
"""

# ruff: noqa: RUF009 - option() makes a field

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar, NamedTuple

from londiste.changes.decode import decode_all
from londiste.changes.types import Op, RowChange, Truncate
from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.errors import ApplyError, BadOption, EventError
from londiste.handlers.base import Handler, TableRules, option
from londiste.handlers.event_actions import At, EventWork, SkippedRows, partial
from londiste.handlers.partitions import (
    CREATE_PARTITION,
    KEY_ALONE,
    Made,
    Partitioning,
    Period,
    key_alone,
    utc,
    without_partition,
    without_time,
)
from londiste.handlers.placing import CopiedRows, Placing
from londiste.pgq.types import Event


class TableMode(StrEnum):
    """Where rows go."""

    PART = "part"
    DIRECT = "direct"
    IGNORE = "ignore"


class PartMode(StrEnum):
    """Which time decides."""

    BATCH = "batch_time"
    EVENT = "event_time"
    FIELD = "date_field"
    CURRENT = "current_time"


class RowMode(StrEnum):
    """How updates and deletes are written."""

    PLAIN = "plain"
    LATEST = "keep_latest"
    ALL = "keep_all"


class LoadMode(StrEnum):
    """Write methods of Londiste 3."""

    DIRECT = "direct"
    BULK = "bulk"


class TargetTable(NamedTuple):
    """Target of a row.

    time, key -- of a partition: the time that it is found by, and the key of the row, by its names
        here; None for a table that is no partition.
    """

    table: TableName
    time: datetime | None = None
    key: tuple[str, ...] = ()


class Told(NamedTuple):
    """A change as this node's table stores it."""

    place: TargetTable
    change: RowChange | Truncate


@dataclass(frozen=True)
class Dispatching(EventWork):
    """The mapping of events: partition, and change of it.

    parts -- how partitions are named and made; None: all rows go into the table.
    ops -- the operations that are written; insert_only -- others of these are an error.
    names -- included columns, and their names here; None: all.
    """

    parts: Partitioning | None
    part_mode: PartMode
    part_field: str
    row_mode: RowMode
    ops: frozenset[Op]
    insert_only: bool
    names: tuple[tuple[str, str], ...] | None
    skip: frozenset[str]
    ignore_truncate: bool

    skips_rows: ClassVar[bool] = True

    def needs_whole_rows(self) -> bool:
        return Op.UPDATE in self.ops and not self.insert_only

    @property
    def spreads(self) -> bool:
        return self.parts is not None

    def placing(self, rows: CopiedRows) -> Placing | None:
        if self.parts is None:
            return None
        return Placing(replace(rows, key=self._key(rows.key)), self.parts.of_copy(), self._field)

    def work(self, at: At, events: Sequence[Event]) -> None:
        self.write(at, self.told(at.dest, at.tick_time, events, at.skips))

    def write(self, at: At, changes: Iterable[Told]) -> None:
        """Writes such changes, and creates and drops partitions."""
        known: dict[TableName, Made] = {}
        waiting: list[tuple[TableName, RowChange | Truncate]] = []
        for told in changes:
            if isinstance(told.change, Truncate):
                at.write(waiting)
                waiting = []
                self.truncate(at)
            elif self.is_there(at.conn, at.dest, told.place, known):
                waiting.append((told.place.table, told.change))
        at.write(waiting)
        self.drop_old(at.conn, at.dest, known)

    def told(
        self,
        dest: TableName,
        tick_time: datetime,
        events: Iterable[Event],
        skips: SkippedRows = frozenset(),
    ) -> Iterator[Told]:
        """The changes to write for some events of one table, in order.

        dest -- the table of this node; tick_time -- of the batch.
        skips -- what is left out of them.

        Queries no database.  Raises EventError with the id of an invalid event.
        """
        for event in events:
            if (event.id, 0) in skips:
                continue
            for change in decode_all(event):
                if isinstance(change, Truncate):
                    if not self.ignore_truncate:
                        yield Told(TargetTable(dest), change)
                elif isinstance(change, RowChange) and (event.id, change.row) not in skips:
                    yield from self.row(dest, tick_time, event, change)

    def is_there(
        self, conn: Connection, dest: TableName, place: TargetTable, known: dict[TableName, Made]
    ) -> bool:
        """Whether a row may be written there; creates a missing partition.

        known -- the partitions of the batch that were checked already.
        """
        if self.parts is None or place.time is None:
            return True
        if place.table not in known:
            known[place.table] = self.parts.make(
                conn, dest, place.table, place.time, place.key, self._field
            )
        return known[place.table] is not Made.TOO_OLD

    def drop_old(self, conn: Connection, dest: TableName, known: Mapping[TableName, Made]) -> None:
        """Drops expired partitions after the rows, if a partition was created."""
        if self.parts is not None and Made.NOW in known.values():
            self.parts.drop_old(conn, dest)

    def check(self, conn: Connection, queue: str, dest: TableName) -> None:
        here = {column.name for column in catalog.columns(conn, dest)}
        if self.part_field and not (self.parts and self.part_mode is PartMode.FIELD):
            raise BadOption(
                f"handler dispatch: part_field={self.part_field} is not used",
                detail="only part_mode=date_field and presets such as daily_field use it",
                hint="remove part_field, or choose such a preset",
            )
        missing = [name for _, name in self.names or () if here and name not in here]
        if missing:
            raise BadOption(
                f"handler dispatch: table {dest} has no column {missing[0]}",
                detail="fields names the columns to include, or column:name",
                hint=f"correct fields; the table has: {', '.join(sorted(here))}",
            )
        if self.parts is not None:
            self.parts.check(conn, dest)
            field = self._field
            if field and here and field not in here:
                raise BadOption(
                    f"handler dispatch: table {dest} has no column {field}",
                    detail="it selects the partition of a row (part_field)",
                    hint="correct part_field",
                )

    @property
    def _field(self) -> str:
        """The name here of the column with the time; '' when another time decides."""
        return self._name(self.part_field) if self.part_mode is PartMode.FIELD else ""

    def truncate(self, at: At) -> None:
        """Truncates the table and its partitions."""
        if self.parts is None:
            at.write([(at.dest, Truncate(0, 0, at.dest))])
        else:
            self.parts.truncate(at.conn, at.dest)

    def row(
        self, dest: TableName, tick_time: datetime, event: Event, change: RowChange
    ) -> Iterator[Told]:
        """What becomes of a change of one row; its event gives the time and the id."""
        if change.op not in self.ops:
            return
        if change.partial:
            raise partial(event, "dispatch")
        if self.insert_only and change.op is not Op.INSERT:
            raise EventError(
                f"event {event.id}: table {change.table}: not an INSERT",
                detail="handler dispatch with method=3 accepts only inserts",
                hint="add event_types=I to ignore others, or use another method",
                event_id=event.id,
            )
        if self.row_mode is RowMode.ALL and change.op is Op.DELETE:
            return
        place = TargetTable(dest)
        if self.parts is not None:
            time = self._time(tick_time, event, change)
            part = self.parts.of_change(event, change, dest, time)
            place = TargetTable(part, time, self._key(change.key))
        yield Told(place, self._told(change))

    def _key(self, key: Sequence[str]) -> tuple[str, ...]:
        # Where every version of a row is kept, the source's key is none here.
        return () if self.row_mode is RowMode.ALL else tuple(map(self._name, key))

    def _told(self, change: RowChange) -> RowChange:
        """The change as the target stores it."""
        image = {
            self._name(name): value for name, value in change.image.items() if self._keeps(name)
        }
        key = tuple(map(self._name, change.key))
        change = change._replace(image=image, key=key)
        if self.row_mode is RowMode.ALL:
            return change._replace(op=Op.INSERT, key=(), state=False)
        if self.row_mode is RowMode.LATEST and change.op is not Op.INSERT and key:
            op = Op.INSERT if change.op is Op.UPDATE else Op.DELETE
            return change._replace(op=op, state=True)
        return change

    def _keeps(self, name: str) -> bool:
        if name in self.skip:
            return False
        return self.names is None or any(name == there for there, _ in self.names)

    def _name(self, name: str) -> str:
        return dict(self.names or ()).get(name, name)

    def _time(self, tick_time: datetime, event: Event, change: RowChange) -> datetime:
        match self.part_mode:
            case PartMode.EVENT:
                return event.time
            case PartMode.BATCH:
                return tick_time
            case PartMode.CURRENT:
                return datetime.now(UTC)
        text = change.image.get(self.part_field)
        try:
            return utc(datetime.fromisoformat(text or ""))
        except (ValueError, OverflowError):
            why, detail = without_partition(self.part_field, text or "")
            keyed = key_alone(change, self.part_field)
            op, key = change.op.name.lower(), self._key(change.key)
            found = ApplyError("value", change.row, str(change.table), op=op, key=key, keyed=keyed)
            raise EventError(
                f"event {event.id}: table {change.table}: {why}",
                detail=f"it selects the partition, and {detail}{KEY_ALONE[keyed]}",
                hint=without_time(change, keyed),
                event_id=event.id,
                finding=found,
            ) from None


@dataclass(frozen=True)
class Dispatch(Handler):
    """Writes rows into partitions by time, created as needed, or into one table."""

    NAME: ClassVar[str] = "dispatch"
    OF_LONDISTE_3: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("key", "hash_key", "hash_expr", "disable_replay"),
        "leave it out: dispatch takes every row; a branch above hands a part on by handler shard",
    )

    table_mode: TableMode = option(
        TableMode.PART, help="part: write into partitions; direct: into the table; ignore: nowhere"
    )
    part_func: str = option(CREATE_PARTITION, help="function that creates a partition")
    part_mode: PartMode = option(PartMode.BATCH, help="time that selects the partition")
    part_field: str = option("", help="column with the time, for part_mode=date_field")
    period: Period = option(Period.DAY, help="period of one partition")
    part_name: str = option(
        "",
        help="template of partition names with %(parent)s, %(year)s, %(month)s, %(day)s, %(hour)s",
    )
    part_template: str = option(
        "",
        help="SQL that creates a partition, instead of part_func, with %(part)s, %(parent)s,"
        " %(dest)s, %(pkeys)s, %(schema_table)s, %(part_field)s, %(part_time)s, %(period)s,"
        " %(part_from)s and %(part_to)s",
    )
    pre_part: str = option("", help="SQL to run before a partition is created")
    post_part: str = option("", help="SQL to run after a partition is created")
    retention_period: str = option("", help="interval: drop older partitions when one is created")
    ignore_old_events: bool = option(
        False, help="ignore events of partitions older than retention_period"
    )
    row_mode: RowMode = option(
        RowMode.PLAIN,
        help="plain: same rows as the source; keep_latest: an update is an upsert; keep_all:"
        " every update is a new row, deletes are ignored",
    )
    event_types: tuple[str, ...] = option(
        ("I", "U", "D"), help="operations to write, of I, U and D"
    )
    load_mode: LoadMode = option(LoadMode.DIRECT, help="no effect; for compatibility")
    method: int = option(0, help="3: only inserts are allowed; 0, 1 and 2 do not differ")
    fields: tuple[str, ...] = option(
        ("*",), help="columns to include, or column:name to rename one; * for all"
    )
    skip_fields: tuple[str, ...] = option((), help="columns to exclude")
    table: str = option("", help="target table, as --dest-table")
    ignore_truncate: bool = option(False, help="ignore TRUNCATE events on this node")
    analyze: bool = option(False, help="no effect; for compatibility")

    def wants(self) -> TableRules:
        self._check()
        if self.table_mode is TableMode.IGNORE:
            return TableRules(stored=False)
        ops = frozenset(Op(letter.upper()) for letter in self.event_types)
        names = self._names()
        parts = None
        if self.table_mode is TableMode.PART:
            parts = Partitioning(
                self.period,
                self.part_name,
                self.part_func,
                self.part_template,
                self.pre_part,
                self.post_part,
                self.retention_period,
                self.ignore_old_events,
            )
        work = Dispatching(
            parts,
            self.part_mode,
            self.part_field,
            self.row_mode,
            ops,
            self.method == 3,
            names,
            frozenset(self.skip_fields),
            self.ignore_truncate,
        )
        return TableRules(
            columns=None if names is None else frozenset(there for there, _ in names),
            skip_columns=frozenset(self.skip_fields),
            ignore_truncate=self.ignore_truncate,
            events=work,
            renamed=tuple((a, b) for a, b in names or () if a != b),
            incomparable=self._incomparable(ops, names),
        )

    def words(self, *, root: bool) -> tuple[str, ...]:
        return ("virtual_table",) if self.table_mode is TableMode.IGNORE and not root else ()

    @property
    def dest(self) -> str:
        return self.table

    def _incomparable(self, ops: frozenset[Op], names: Sequence[tuple[str, str]] | None) -> str:
        if self.table_mode is TableMode.PART:
            return "it stores rows in partitions by time"
        if self.row_mode is RowMode.ALL:
            return "it stores every version of a row"
        if len(ops) < 3:
            return f"it writes {', '.join(sorted(ops))} events only"
        if any(a != b for a, b in names or ()):
            return "columns have other names here"
        return ""

    def _names(self) -> tuple[tuple[str, str], ...] | None:
        if "*" in self.fields:
            renamed = [field for field in self.fields if field != "*"]
            if renamed:
                raise BadOption(
                    f"handler dispatch: fields=*,{','.join(renamed)}",
                    hint="name all columns to include, or write fields=*",
                )
            return None
        pairs = []
        for field in self.fields:
            there, _, here = field.partition(":")
            pairs.append((there.strip(), (here or there).strip()))
        if len({here for _, here in pairs}) < len(pairs):
            raise BadOption(
                "handler dispatch: fields has a duplicate column name",
                hint="--handler-arg fields=id,made:made_at",
            )
        return tuple(pairs)

    def _check(self) -> None:
        if self.part_mode is PartMode.FIELD and not self.part_field:
            raise BadOption(
                "handler dispatch: part_mode=date_field requires part_field",
                hint="--handler-arg part_field=COLUMN",
            )
        wrong = [letter for letter in self.event_types if letter.upper() not in ("I", "U", "D")]
        if wrong or not self.event_types:
            raise BadOption(
                f"handler dispatch: event_types={','.join(self.event_types)}",
                hint="use letters of I, U and D: --handler-arg event_types=I,U",
            )
        if self.method not in (0, 1, 2, 3):
            raise BadOption(
                f"handler dispatch: unknown method {self.method}",
                hint="use --handler-arg method=0, or 3 for insert-only tables",
            )
        if self.ignore_old_events and not self.retention_period:
            raise BadOption(
                "handler dispatch: ignore_old_events requires retention_period",
                detail="it defines the age of old events",
                hint="--handler-arg 'retention_period=3 months'",
            )
