"""Source of a lake table: connection, columns and key in the database."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC

from psycopg.conninfo import make_conninfo

from londiste.db import call, catalog
from londiste.db import relation as shapes
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.dsn import parsed
from londiste.engine.spark.stream.driver import Driver
from londiste.engine.spark.stream.options import CHANGE_NAMES, GapPolicy, Mode, Options, Start
from londiste.engine.spark.stream.types import StreamColumn, shape_of
from londiste.errors import BadOption, InstallError, LondisteError, StateError
from londiste.lake.settings import LakeSettings
from londiste.lake.versions import Version
from londiste.pgq import queues
from londiste.pgq.consumers import ConsumerKind, get_consumer_kinds
from londiste.replication import branch_rows

log = logging.getLogger(__name__)


def options(settings: LakeSettings, table: TableName) -> Options:
    """Those of the stream that a table is read by."""
    parts = parsed(settings.db)
    password = str(parts.pop("password", None) or "")
    snapshot = settings.lake_start == "snapshot"
    return Options(
        dsn=make_conninfo(**parts),
        password=password,
        queue=settings.queue_name,
        consumer=f"{settings.consumer}.{table}",
        kind=ConsumerKind.LAKE,
        tables=(table,),
        mode=Mode.SNAPSHOT_THEN_CHANGES if snapshot else Mode.CHANGES,
        start=Start() if snapshot else Start(settings.lake_start),
        max_events=settings.lake_epoch_events,
        partitions=settings.lake_tasks,
        values=GapPolicy(settings.unsupported_values),
        new_columns=GapPolicy(settings.unknown_columns),
        truncate=GapPolicy.ROW,
        scripts=GapPolicy.ROW,
    )


def driver(options: Options) -> Driver:
    """Positions and batches of a table; on a branch only if it has the rows of its events."""
    return Driver(options, require=branch_rows.require)


def tables(settings: LakeSettings) -> list[TableName]:
    """Those of the settings, once each."""
    return list(dict.fromkeys(TableName.parse(name) for name in settings.lake_tables))


@dataclass(frozen=True)
class Described:
    """A table of the database as the lake sees it now.

    filenode -- as in ``catalog.TableInfo``, 0 for none.
    filled -- as ``catalog.filled`` finds them.
    key -- the primary key; unread -- columns that events have and the lake has not.
    captured -- whether a trigger of the table names the queue.
    partitions -- those whose rows have changed without an event, and how; of all recorded ones.
    """

    oid: int
    filenode: int
    columns: tuple[StreamColumn, ...]
    details: tuple[catalog.Column, ...]
    filled: frozenset[str]
    key: tuple[str, ...]
    unread: frozenset[str]
    captured: bool
    partitions: tuple[str, ...] = ()

    def told(self, settings: LakeSettings, table: TableName, before: bool) -> bool:
        """Whether it is captured; logs a warning where it is not, and was before."""
        if before and not self.captured:
            log.warning(
                "table %s: no trigger for queue %s; unless its events come from another node,"
                " the lake gets no changes (londiste add-table, or check)",
                table,
                settings.queue_name,
            )
        return self.captured

    def noted(self, version: Version) -> Version:
        """A version that contains what was noted of the table itself."""
        highest = max((column.number for column in self.details), default=0)
        return replace(
            version,
            oid=self.oid,
            filenode=self.filenode,
            highest=highest,
            partitions=self.partitions,
        )


def describe(conn: Connection, settings: LakeSettings, table: TableName) -> Described:
    """Looks at a table.  Raises UnknownTable, BadOption."""
    info = catalog.require(conn, table, hint=catalog.OF_SETTINGS)
    details = catalog.columns(conn, table)
    skipped = set(_of(settings.skip_columns, table))
    unknown = sorted(skipped - {column.name for column in details})
    if unknown:
        raise BadOption(
            f"table {table}: skip_columns names unknown columns {', '.join(unknown)}",
            hint=f"choose from: {', '.join(column.name for column in details)}",
        )
    shape = shape_of(
        [column for column in details if column.name not in skipped],
        strings=_of(settings.string_columns, table),
        policy=GapPolicy(settings.unsupported_values),
    )
    key = catalog.key(conn, table)
    if skipped & set(key):
        raise BadOption(
            f"table {table}: skip_columns names key columns"
            f" {', '.join(sorted(skipped & set(key)))}",
            hint="remove them from skip_columns: the lake finds rows by the key",
        )
    _refuse_names(table, shape.columns, settings.lake_change_feed)
    unread = shape.unread | frozenset(skipped)
    return Described(
        info.oid,
        info.filenode or 0,
        shape.columns,
        tuple(details),
        catalog.filled(conn, info.oid),
        key,
        unread,
        is_captured(conn, settings.queue_name, table),
        _partition_changes(conn, settings.queue_name, table) if info.tree else (),
    )


def require_key(conn: Connection, table: TableName, described: Described) -> None:
    """Raises StateError unless rows of the table can be found by their key's text."""
    if not described.key:
        raise StateError(
            f"table {table}: no primary key",
            detail="modes state and history find rows by it",
            hint="add a primary key, or use lake_mode = append",
        )
    found = shapes.shapes(conn, [table])[table].by_name
    for name in described.key:
        folding = found[name].folding
        if folding not in (shapes.Folding.TEXT, shapes.Folding.ZEROS):
            raise StateError(
                f"table {table}: equal values of key column {name} may have different texts:"
                f" {found[name].type_name}",
                detail="the lake would store one row as two",
                hint="use lake_mode = append",
            )


def is_captured(conn: Connection, queue: str, table: TableName) -> bool:
    """Whether a trigger of the table names the queue."""
    return any(f"'{queue}'" in trigger.definition for trigger in catalog.triggers(conn, table))


def _partition_changes(conn: Connection, queue: str, table: TableName) -> tuple[str, ...]:
    """What the ticker's maintenance has found: ATTACH and the like with rows, not confirmed yet."""
    try:
        rows = call.rows(conn, "londiste.partition_changes", queue)
    except InstallError:
        return ()
    # The same may happen to a partition again.
    return tuple(
        f"{row['partition']} {row['wrong']} ({row['first_seen'].astimezone(UTC):%F %T.%f} UTC)"
        for row in rows
        if row["table_name"] == str(table)
    )


def require_start(
    conn: Connection, settings: LakeSettings, options: Options, directory: str
) -> None:
    """Checks whether a directory without a table may get one.

    Raises StateError if rows of this consumer were published elsewhere, and rows of now would
    leave a gap after them.
    """
    known = next(iter(queues.get_consumer_info(conn, options.queue, options.consumer)), None)
    if known is None:
        return
    what = f"consumer {options.consumer} is registered at tick {known.last_tick}"
    if options.mode is not Mode.SNAPSHOT_THEN_CHANGES:
        log.warning(
            "table %s: the directory contains no table: %s; %s: a new table continues there",
            options.table,
            directory,
            what,
        )
    elif (options.queue, options.consumer) in get_consumer_kinds(conn, options.queue):
        again = f"londiste queue unregister {argument(options.queue)} {argument(options.consumer)}"
        more = ""
        if settings.lake_mode == "append":
            files = options.kind is ConsumerKind.DISPATCH
            setting = "with_copy = 0" if files else "lake_start = latest"
            more = f"; or write the changes after that tick into a new table: {setting}"
        raise StateError(
            f"table {options.table}: the directory contains no table, but {what}",
            detail=directory,
            hint=f"mount the directory; or read all rows again: {again}{more}",
        )


def make_tick(conn: Connection, queue: str) -> None:
    """A tick of now, where this user can make one here; else a ticker makes it."""
    with contextlib.suppress(LondisteError):
        queues.force_tick(conn, queue)
        queues.ticker(conn, queue)


def _of(names: Sequence[str], table: TableName) -> list[str]:
    before = f"{table}."
    return [name.removeprefix(before) for name in names if name.startswith(before)]


def _refuse_names(table: TableName, columns: Sequence[StreamColumn], feed: bool) -> None:
    taken = _TAKEN | ({"_tick", "_tick_time"} if feed else set())
    seen: dict[str, str] = {}
    for column in columns:
        lower = column.name.lower()
        if lower in taken:
            raise BadOption(
                f"table {table}: column name {column.name} is reserved by the lake",
                hint=f"exclude it: skip_columns = {table}.{column.name}",
            )
        if lower in seen:
            raise BadOption(
                f"table {table}: columns {seen[lower]} and {column.name} differ only in case,"
                " which Spark ignores",
                hint=f"exclude one: skip_columns = {table}.{column.name}",
            )
        seen[lower] = column.name


_TAKEN = {
    *CHANGE_NAMES,
    "_day",
    "_part",
    "_valid_from_tick",
    "_valid_from",
    "_valid_to_tick",
    "_valid_to",
    "_is_current",
    "_n",
    "_next",
    "_then",
    "_truncated",
}
