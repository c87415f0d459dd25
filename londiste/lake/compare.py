"""Comparison of lake tables with the database.

Both sides are brought to one moment, that of a snapshot of the database.  The lake's version is
older; so the changes behind it that the snapshot sees are read from the queue and folded into what
is compared.  Nothing is written or locked, and the lake worker continues.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.db.snapshot import Snapshot
from londiste.engine.spark.stream import bounds, offsets
from londiste.engine.spark.stream.offsets import Offset
from londiste.engine.spark.stream.options import GapPolicy, Options
from londiste.engine.spark.stream.snapshot import SnapshotSession, table_parts
from londiste.engine.spark.stream.types import StreamShape
from londiste.errors import BadOption, LondisteError, PositionLost, StateError, TransientError
from londiste.lake import checks, columns, source
from londiste.lake.settings import LakeSettings
from londiste.lake.store import Store
from londiste.lake.versions import Version, schema
from londiste.pgq import queues, ticks
from londiste.pgq.types import Tick

if TYPE_CHECKING:
    from londiste.engine.spark.lake.diff import Found

#: Seconds between two looks for a tick.
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Result:
    """Result of one table.

    tick -- of the version of the lake; damaged -- files that are not as they were written;
    torn -- rows of a history that contradict each other.  None for found: files are damaged, so no
    row was compared.
    """

    table: str
    mode: str
    tick: int
    key: tuple[str, ...]
    damaged: tuple[str, ...] = ()
    torn: int = 0
    found: Found | None = None

    @property
    def equal(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damaged and not self.torn and self.found is not None and self.found.equal


def chosen(settings: LakeSettings, names: Sequence[str]) -> list[TableName]:
    """Some tables of the lake, or all.  Raises BadOption for one that is none."""
    every = source.tables(settings)
    wanted = [TableName.parse(name) for name in names]
    for table in wanted:
        if table not in every:
            raise BadOption(
                f"table {table}: not a table of the lake",
                hint=f"choose from: {', '.join(map(str, every))}",
            )
    return list(dict.fromkeys(wanted)) or every


def compare(settings: LakeSettings, table: TableName, *, limit: int, timeout: float) -> Result:
    """Compares one table.

    limit -- of rows to name; timeout -- seconds to wait for a tick.

    Raises StateError for a table that cannot be compared.
    """
    store = Store.of(settings, table)
    try:
        return _of_table(settings, store, limit, timeout)
    except LondisteError as error:
        error.say_more("", checks.hint_of(table, settings.lake_mode, store.place, error))
        raise


def _of_table(settings: LakeSettings, store: Store, limit: int, timeout: float) -> Result:
    table = store.table
    # Before the snapshot: so that it has nothing that the snapshot does not see.
    version = store.newest()
    if version is None:
        raise StateError(
            f"table {table}: not in the lake yet",
            detail=store.place.uri,
            hint="londiste lake once",
        )
    if not version.key:
        raise StateError(
            f"table {table}: no primary key to compare by",
            hint="compare tables by name",
        )
    if version.mode == "append" and not version.complete:
        raise StateError(
            f"table {table}: the lake has only its changes, not the initial rows",
            detail="lake_start was not snapshot",
            hint="compare tables by name",
        )
    result = Result(str(table), version.mode, version.tick, version.key)
    damaged = store.damaged(version.files)
    if damaged:
        return replace(result, damaged=tuple(damaged))
    options = source.options(settings, table)
    with session(options.conninfo, name="londiste lake compare", autocommit=True) as conn:
        described = source.describe(conn, settings, table)
        checks.require_key(table, version, described.key)
        newest = ticks.newest(conn, settings.queue_name)
        evolved = columns.evolve(
            table,
            version.columns,
            described.columns,
            described.details,
            newest.id if newest else 0,
        )
        with closing(SnapshotSession(options)) as held:
            snapshot = Snapshot.parse(held.seen)
            until = _tick_behind(conn, settings.queue_name, snapshot, timeout)
            parts = _parts(conn, options, offsets.read(version.position), until)
            return _compared(
                settings,
                store,
                replace(version, columns=evolved.columns),
                result,
                _Sides(
                    options,
                    StreamShape(described.columns, described.unread),
                    table_parts(conn, options, held.name),
                    parts,
                    snapshot,
                ),
                limit,
            )


@dataclass(frozen=True)
class _Sides:
    """What is read from the database: rows and changes."""

    options: Options
    shape: StreamShape
    rows: Sequence[Any]
    changes: Sequence[Any]
    snapshot: Snapshot


def _compared(
    settings: LakeSettings,
    store: Store,
    version: Version,
    result: Result,
    sides: _Sides,
    limit: int,
) -> Result:
    from londiste.engine.spark.lake import dataframes, diff, merge_changes
    from londiste.engine.spark.lake import parts as parts_of

    spark = dataframes.get(settings.spark)
    known = [column.column for column in version.columns]
    names = [column.name for column in version.columns]
    key = list(version.key)
    changes: Any = None
    try:
        here = dataframes.rows(spark, sides.options, sides.rows, sides.shape)
        paths = [file.path for file in version.files]
        files = dataframes.files(spark, store.place, paths, schema(version))
        files = merge_changes.renamed(files, back=True) if version.feed else files
        given = replace(sides.options, missing_columns=GapPolicy.NULL)
        unread = sides.shape.unread
        shape = columns.shape(version.columns, version.tick, unread)
        changes = dataframes.seen_by(
            dataframes.rows(spark, given, sides.changes, shape), sides.snapshot
        )
        changes = dataframes.whole(changes, known)
        if version.mode == "append":
            log = files.unionByName(changes.where("_change_type != 'execute'"))
            lake = merge_changes.state_of_log(log, key, names)
        else:
            changes = changes.persist()
            facts = parts_of.facts(changes, key)
            base = files if version.mode == "state" else merge_changes.current(files, names)
            if facts.truncate is not None:
                base = base.limit(0)
            lake = merge_changes.state(
                base, merge_changes.after_truncate(changes, facts.truncate), key, names
            )
        compared = [column.name for column in sides.shape.columns]
        found = diff.differences(here, lake, key, compared, limit)
        torn = diff.torn(files, key) if version.mode == "history" else 0
        return replace(result, found=found, torn=torn)
    except Exception as error:
        raise dataframes.ours(error) from error
    finally:
        if changes is not None and version.mode != "append":
            changes.unpersist()


def _parts(conn: Connection, options: Options, start: Offset, until: Tick) -> Sequence[Any]:
    """The changes behind a position, up to a tick.  Raises PositionLost when it is lost."""
    assert start.tick is not None
    if start.generation != queues.queue_generation(conn, options.queue):
        raise PositionLost(
            f"queue {options.queue}: not the queue that the lake was read from",
            detail="the queue was created again, or restored",
            hint="run londiste lake once; its error shows what to do",
        )
    found = bounds.parts(conn, options, start.tick, until.id, start.seen)
    if found is None or found[0].time != start.time:
        raise PositionLost(
            f"queue {options.queue}: events after tick {start.tick} no longer exist",
            detail="the lake advanced during the comparison, or did not run for too long",
            hint="repeat the command; londiste lake status shows the lake's position",
        )
    return found[2]


def _tick_behind(conn: Connection, queue: str, snapshot: Snapshot, timeout: float) -> Tick:
    """A tick that sees whatever the snapshot does.  Raises TransientError when none comes."""
    deadline = time.monotonic() + timeout
    asked = False
    while True:
        tick = ticks.newest(conn, queue)
        if tick is not None and Snapshot.parse(tick.snapshot).covers(snapshot):
            return tick
        if not asked:
            source.make_tick(conn, queue)
            asked = True
        elif time.monotonic() > deadline:
            raise TransientError(
                f"queue {queue}: no tick for {timeout:g} s",
                hint="start the ticker: londiste ticker; or create a tick: londiste tick",
            )
        time.sleep(_POLL_SECONDS)
