"""Lake table: applies epochs of changes, each published as one version.

An epoch is what lies between two ticks, read by executors, folded into files, and there for
readers when its version is.  The position is in the version: what was published is never read
again, what was not is read again as it was.  The queue is told behind that; should it not hear,
it keeps events for longer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

from londiste.daemon import crash
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.engine.spark.stream import offsets
from londiste.engine.spark.stream.driver import Driver
from londiste.engine.spark.stream.offsets import BEFORE_SNAPSHOT, Offset
from londiste.engine.spark.stream.options import GapPolicy
from londiste.engine.spark.stream.types import StreamShape
from londiste.errors import LondisteError, StateError, TransientError
from londiste.lake import checks, columns, compact, delta, frame, source
from londiste.lake.settings import LakeSettings
from londiste.lake.versions import File, Store, Version
from londiste.pgq import ticks

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Jobs:
    """The modules that make jobs of Spark, which is loaded when there is the first."""

    spark: Any
    frames: ModuleType
    folding: ModuleType
    writing: ModuleType


class LakeTable:
    """Keeps one table; it holds the lock of the consumer until ``close``."""

    def __init__(self, settings: LakeSettings, table: TableName) -> None:
        self.settings = settings
        self.table = table
        self.store = Store.of(settings.lake_path, table)
        self.options = source.options(settings, table)
        self.driver = Driver(self.options)
        self._swept = False
        #: Changes that this process has published.
        self.changes = 0

    def close(self) -> None:
        """Gives sessions and locks back."""
        self.driver.close()

    def work(self) -> bool:
        """One epoch, if there is something new; whether there was."""
        version = self._begin()
        if version is None or version.position is None:
            self._first(version)
            return True
        start = offsets.read(version.position)
        end = self.driver.latest(start, limited=True)
        if end == start:
            return False
        self._changes(version, start, end)
        return True

    def _ours(self, jobs: _Jobs, error: Exception) -> LondisteError:
        """The error that a failed job stands for; what reads speaks of the options of a stream."""
        ours: LondisteError = jobs.frames.ours(error)
        ours.say_more("", self._hint(ours.hint))
        return ours

    def _hint(self, hint: str) -> str:
        return checks.hint_for(self.table, self.mode, hint)

    def resync(self) -> Version:
        """The rows as they are now, in place of what was published, or behind it in a history."""
        version = self._begin()
        if version is None or version.position is None:
            return self._first(version)
        if version.mode == "append":
            raise StateError(
                f"table {self.table}: mode append cannot be read again",
                hint="start with another lake_path",
            )
        conn = self.driver.conn
        source.make_tick(conn, self.settings.queue_name)
        described = self._describe(conn)
        source.require_key(conn, self.table, described)
        if version.mode == "history":
            checks.require_key(self.table, version, described.key)
        end = self.driver.latest(BEFORE_SNAPSHOT, limited=True)
        assert end.tick is not None
        if end.tick <= version.tick:
            raise TransientError(
                f"queue {self.settings.queue_name}: no tick since tick {version.tick}",
                hint="start the ticker: londiste ticker; then repeat the command",
            )
        if version.mode == "state":
            fresh = columns.first(described.columns, described.details)
            now = replace(version, columns=fresh, key=described.key, oid=described.oid, files=())
        else:
            evolved = columns.evolve(
                self.table, version.columns, described.columns, described.details, end.tick
            )
            now = replace(version, columns=evolved.columns, oid=described.oid)
        return self._rows(now, described, end, "resync")

    def vacuum(self) -> tuple[int, int]:
        """Forgets versions that are older than the settings keep them: versions, files."""
        self._begin()
        until = datetime.now(UTC) - timedelta(seconds=self.settings.lake_retention)
        return self.store.vacuum(until)

    def tidy(self) -> None:
        """Joins small files, where the settings say that there are enough of them."""
        if self.settings.lake_compact_files:
            self._join(self.settings.lake_compact_files, tiered=True)

    def compact(self) -> tuple[int, int]:
        """Joins all small files of each part; how many there were, and what became of them."""
        before = after = 0
        while joined := self._join(2, tiered=False):
            before, after = before + joined[0], after + joined[1]
        return before, after

    def _join(self, least: int, *, tiered: bool) -> tuple[int, int] | None:
        """A version of the same rows and position, in fewer files; None: there is nothing to do."""
        version = self._begin()
        if version is None or version.position is None or version.format != "parquet":
            return None
        limit = self.settings.lake_compact_size
        chosen = compact.choose(version.files, limit=limit, least=least, tiered=tiered)
        old = [file for some in chosen.values() for file in some]
        if not old:
            return None
        damaged = self.store.damaged(replace(version, files=tuple(old)))
        if damaged:
            raise LondisteError(
                f"table {self.table}: damaged files in the lake: {damaged[0]}",
                detail=f"{len(damaged)} of the files to join; they are not changed",
                hint="restore them from a backup; londiste lake compare lists all of them",
            )
        jobs = self._jobs()
        try:
            rows = {
                part: jobs.frames.files(jobs.spark, self.store.paths(some), frame.schema(version))
                for part, some in chosen.items()
            }
            # Each part becomes one file, however many rows: else it would be joined for ever.
            new = self._files(version, jobs.writing.joined(rows), split=False)
        except Exception as error:
            raise self._ours(jobs, error) from error
        if _rows(new) != _rows(old):
            raise LondisteError(
                f"table {self.table}: joined files do not have the rows of the files before",
                detail="nothing was published, the files are not changed",
                hint="report this defect; lake_compact_files = 0 continues without joining",
            )
        gone = {file.path for file in old}
        kept = tuple(file for file in version.files if file.path not in gone)
        self._publish(version, offsets.read(version.position), (*kept, *new), "compact", 0)
        return len(old), len(new)

    def _begin(self) -> Version | None:
        """The newest version; this process is the one that writes the next."""
        # Its session has the lock of the consumer.
        _ = self.driver.conn
        version = self.store.newest()
        if not self._swept:
            version = self.store.sweep(version, self._empty())
            if version is not None and self.settings.lake_format == "delta":
                delta.catch_up(self.store, version)
            self._swept = True
        if version is not None and version.mode != self.mode:
            raise self._other_mode(version)
        return version

    def _other_mode(self, version: Version) -> StateError:
        return checks.other_mode(self.table, version, self.mode, self.store.directory)

    @property
    def mode(self) -> str:
        """How the table is kept."""
        return self.settings.lake_mode

    def _describe(self, conn: Connection) -> source.Described:
        """The table as it is."""
        return source.describe(conn, self.settings, self.table)

    def _empty(self) -> Version:
        settings = self.settings
        return Version(0, str(self.table), self.mode, "begin", (), buckets=settings.lake_buckets)

    def _first(self, version: Version | None) -> Version:
        conn, settings = self.driver.conn, self.settings
        described = self._describe(conn)
        if settings.lake_mode != "append":
            source.require_key(conn, self.table, described)
            if settings.lake_start != "snapshot":
                raise StateError(
                    f"lake_start = {settings.lake_start} requires mode append",
                    detail="modes state and history start with the rows of the table",
                    hint="remove lake_start",
                )
        if not source.capture_is_seen(conn, settings.queue_name, self.table):
            log.warning(
                "table %s: no trigger for queue %s; unless its events come from another node,"
                " the lake gets no changes (londiste add-table, or check)",
                self.table,
                settings.queue_name,
            )
        empty = version or self._empty()
        new = replace(
            empty,
            number=-1 if version is None else version.number,
            key=described.key,
            oid=described.oid,
            columns=columns.first(described.columns, described.details),
        )
        try:
            offset = self.driver.initial()
            if not offset.is_before_snapshot:
                return self._publish(replace(new, complete=False), offset, (), "begin", 0)
            end = self.driver.latest(BEFORE_SNAPSHOT, limited=True)
            return self._rows(new, described, end, "rows")
        finally:
            if self.store.newest() == version:
                self.driver.abandon()

    def _rows(
        self, version: Version, described: source.Described, end: Offset, what: str
    ) -> Version:
        """Publishes the rows of the snapshot that the driver holds."""
        crash.point("lake.snapshot-held")
        parts = self.driver.parts(BEFORE_SNAPSHOT, end)
        jobs = self._jobs()
        key, names = list(version.key), [c.name for c in version.columns]
        try:
            shape = StreamShape(described.columns, described.unread)
            found = self._whole(
                jobs.frames.rows(jobs.spark, self.options, parts, shape), version.columns
            )
            if version.mode == "append":
                return self._write(version, end, jobs.writing.by_day(found), (), what, -1)
            count = version.buckets
            if version.mode == "state":
                wanted = [*names, *(name for name, _ in jobs.folding.STATE)]
                rows = found.select(*jobs.frames.cols(wanted))
                out = jobs.writing.by_bucket(rows, key, count, count)
                return self._write(version, end, out, (), what, -1)
            base = self._read(version, lambda file: file.part != "closed")
            changes = jobs.folding.corrections(base, found, key, names, end.tick, end.time)
            rows = jobs.folding.history(base, changes, key, names)
            out = jobs.writing.by_currency(rows, key, count, count)
            closed = tuple(file for file in version.files if file.part == "closed")
            return self._write(version, end, out, closed, what, -1)
        except Exception as error:
            raise self._ours(jobs, error) from error

    def _changes(self, version: Version, start: Offset, end: Offset) -> Version:
        version, shape, complete = self._evolved(version, start)
        if version.mode == "append" and self.options.new_columns is GapPolicy.IGNORE:
            # A column that has had another name for a while: a state would be wrong.
            complete = False
        given = replace(
            self.options, missing_columns=GapPolicy.FAIL if complete else GapPolicy.NULL
        )
        parts = self.driver.parts(start, end)
        jobs = self._jobs()
        changes: Any = None
        try:
            # Read once, and kept for the jobs of this epoch.
            changes = self._whole(
                jobs.frames.rows(jobs.spark, given, parts, shape), version.columns
            ).persist()
            facts = jobs.writing.facts(changes, version.key if version.by_key else ())
            self._refuse(facts)
            if not facts.changes:
                return self._publish(version, end, version.files, "changes", 0)
            out, kept = self._fold(jobs, version, changes, facts.truncate)
            if out is None:
                return self._publish(version, end, kept, "changes", 0)
            return self._write(version, end, out, kept, "changes", facts.changes)
        except Exception as error:
            raise self._ours(jobs, error) from error
        finally:
            if changes is not None:
                _quietly(changes.unpersist)

    def _refuse(self, facts: Any) -> None:
        checks.require_mergeable(self.table, facts, self.settings.passed_scripts)

    def _fold(
        self, jobs: _Jobs, version: Version, changes: Any, truncate: int | None
    ) -> tuple[Any, tuple[File, ...]]:
        """What to write for some changes, None for nothing, and the files that stay."""
        folding, writing = jobs.folding, jobs.writing
        if version.mode == "append":
            return writing.by_day(changes), version.files
        key, names, count = list(version.key), [c.name for c in version.columns], version.buckets
        if version.mode == "state":
            changes = folding.after_truncate(changes, truncate)
        touched = writing.buckets(changes, key, count)
        if truncate is not None:
            touched |= {file.part for file in version.files if file.part != "closed"}
        kept = tuple(file for file in version.files if file.part not in touched)
        tasks = max(1, len(touched))
        if version.mode == "state":
            base = self._read(version, lambda file: truncate is None and file.part in touched)
            rows = folding.state(base, changes, key, names)
            return writing.by_bucket(rows, key, count, tasks), kept
        base = self._read(version, lambda file: file.part in touched)
        rows = folding.history(base, changes, key, names)
        return writing.by_currency(rows, key, count, tasks), kept

    def _evolved(self, version: Version, start: Offset) -> tuple[Version, StreamShape, bool]:
        """The version with the columns of now; what events are read as, and whether all have it."""
        conn, table = self.driver.conn, self.table
        newest = ticks.newest(conn, self.settings.queue_name)
        assert newest is not None and start.tick is not None
        described = self._describe(conn)
        resync = f"londiste lake resync {argument(table)}"
        if version.by_key:
            checks.require_key(self.table, version, described.key)
        if version.is_whole and described.oid != version.oid:
            raise StateError(
                f"table {table}: was dropped and created again since it was read",
                detail="no event reports the deletion of its rows",
                hint=f"read its rows again: {resync}",
            )
        evolved = columns.evolve(
            table, version.columns, described.columns, described.details, newest.id
        )
        if evolved.filled and version.is_whole:
            raise StateError(
                f"table {table}: no event contains the values of new columns in older rows:"
                f" {', '.join(evolved.filled)}",
                detail="it has a default, is NOT NULL, or was renamed",
                hint=f"read the rows again: {resync}; or exclude it: skip_columns ="
                f" {table}.{evolved.filled[0]}",
            )
        for name in evolved.added:
            log.warning("table %s: new column in the lake: %s", table, name)
        for name in evolved.dropped:
            log.warning(
                "table %s: column %s was dropped; the lake keeps it, NULL in new rows", table, name
            )
        known = replace(version, columns=evolved.columns, oid=described.oid)
        return (
            known,
            columns.shape(evolved.columns, start.tick, described.unread),
            columns.complete(evolved.columns, start.tick),
        )

    def _read(self, version: Version, wanted: Callable[[File], bool]) -> Any:
        jobs = self._jobs()
        paths = self.store.paths([file for file in version.files if wanted(file)])
        return jobs.frames.files(jobs.spark, paths, frame.schema(version))

    def _whole(self, read: Any, found: Sequence[columns.LakeColumn]) -> Any:
        """With the columns that its events do not have any more."""
        return self._jobs().frames.whole(read, [c.column for c in found])

    def _write(
        self,
        version: Version,
        end: Offset,
        out: Any,
        kept: tuple[File, ...],
        what: str,
        changes: int,
    ) -> Version:
        files = self._files(version, out)
        count = sum(file.rows for file in files)
        if changes < 0:
            changes = count
        elif version.mode == "append" and count != changes:
            # Every change is a row.
            raise LondisteError(
                f"table {self.table}: {changes} changes became {count} rows in the lake",
                detail="nothing was published; the next attempt starts where the last one did",
                hint="make lake_path a directory that all of Spark sees under this name",
            )
        return self._publish(version, end, (*kept, *files), what, changes)

    def _files(self, version: Version, out: Any, *, split: bool = True) -> tuple[File, ...]:
        """The rows in files of the table, which no version names yet; see ``writing.write``."""
        jobs = self._jobs()
        directory = self.store.begin()
        jobs.writing.write(out, directory, version.format, split=split)
        crash.point("lake.written")
        files = self.store.take(directory, jobs.writing.count_rows)
        crash.point("lake.moved")
        return files

    def _publish(
        self, version: Version, end: Offset, files: tuple[File, ...], what: str, changes: int
    ) -> Version:
        made = self.store.publish(
            replace(
                version,
                number=version.number + 1,
                position=offsets.write(end),
                files=files,
                what=what,
                changes=changes,
            )
        )
        crash.point("lake.published")
        self.changes += changes
        if self.settings.lake_format == "delta":
            delta.catch_up(self.store, made)
        if what != "compact":
            # Joined files are of no new position; and the consumer of a table that was given up is
            # not there.
            self.driver.finished(end)
        log.info("table %s: %s, %d rows, tick %s", self.table, what, changes, end.tick)
        return made

    def _jobs(self) -> _Jobs:
        """Spark, started when there is something to do."""
        from londiste.engine.spark.lake import dataframes as frames
        from londiste.engine.spark.lake import merge_changes as folding
        from londiste.engine.spark.lake import parquet_writer as writing

        return _Jobs(frames.get(self.settings.spark), frames, folding, writing)


def _rows(files: Iterable[File]) -> dict[str, int]:
    """Of each part."""
    found: dict[str, int] = {}
    for file in files:
        found[file.part] = found.get(file.part, 0) + file.rows
    return found


def _quietly(function: Callable[[], object]) -> None:
    try:
        function()
    except Exception as error:
        log.debug("after an epoch: %s", error)
