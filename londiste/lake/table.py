"""Lake table: applies epochs of changes, each published as one version.

An epoch is what lies between two ticks, read by executors, folded into files, and there for
readers when its version is.  The position is in the version: what was published is never read
again, what was not is read again as it was.  The position is reported to the queue after that;
until then the queue keeps the events.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from londiste.daemon import crash
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.engine.spark.lake.file_writer import Written
from londiste.engine.spark.stream import offsets
from londiste.engine.spark.stream.offsets import BEFORE_SNAPSHOT, Offset
from londiste.engine.spark.stream.options import GapPolicy, Options
from londiste.engine.spark.stream.types import StreamShape
from londiste.errors import LondisteError, PositionLost, StateError
from londiste.lake import checks, columns, source
from londiste.lake.settings import LakeSettings
from londiste.lake.store import Overtaken, Store
from londiste.lake.versions import File, Version, crowded, schema
from londiste.pgq import ticks

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Jobs:
    """The modules that make jobs of Spark, which is loaded when there is the first."""

    spark: Any
    frames: ModuleType
    folding: ModuleType
    parts: ModuleType
    direct: ModuleType


class LakeTable:
    """Keeps one table; it holds the lock of the consumer until ``close``."""

    def __init__(self, settings: LakeSettings, table: TableName) -> None:
        self.settings = settings
        self.table = table
        self.store = Store.of(settings, table)
        self.options = source.options(settings, table)
        self.driver = source.driver(self.options)
        #: Changes that this process has published.
        self.changes = 0
        #: Whether the table is captured, as this process has found it last.
        self._captured = True

    def close(self) -> None:
        """Gives sessions and locks back."""
        self.driver.close()

    def work(self) -> bool:
        """One epoch, if there is something new; whether there was."""
        with self.own_hints():
            return self._epoch()

    def _epoch(self) -> bool:
        version = self._begin()
        if version is None:
            self._first()
            return True
        start = offsets.read(version.position)
        try:
            end = self.driver.latest(start, limited=True)
        except PositionLost:
            self._require_own(version)
            raise
        if end == start:
            return False
        try:
            self._changes(version, start, end)
        except Overtaken as error:
            log.warning("%s: the epoch runs again", error)
        return True

    @contextlib.contextmanager
    def own_hints(self) -> Iterator[None]:
        """Errors inside have hints for this job; what reads has those for a query of Spark."""
        try:
            yield
        except LondisteError as error:
            error.say_more("", self._hint(error))
            raise

    def _hint(self, error: LondisteError) -> str:
        return checks.hint_of(self.table, self.mode, self.store.place, error)

    def resync(self) -> Version:
        """The rows as they are now, in place of what was published, or behind it in a history."""
        with self.own_hints():
            return self._resync()

    def _resync(self) -> Version:
        version = self._begin()
        if version is None:
            return self._first()
        if version.mode == "append":
            raise StateError(
                f"table {self.table}: mode append cannot be read again",
                hint="start with another lake_path",
            )
        conn = self.driver.conn
        source.make_tick(conn, self.settings.queue_name)
        described = self._describe(conn)
        source.require_key(conn, self.table, described)
        self._captured = described.told(self.settings, self.table, self._captured)
        if version.mode == "history":
            checks.require_key(self.table, version, described.key)
        other = self._require_own(version)
        end = self.driver.latest(BEFORE_SNAPSHOT, limited=True)
        assert end.tick is not None
        checks.require_later(self.table, version, self.settings.queue_name, end.tick, other)
        if version.mode == "state":
            fresh = columns.first(described.columns, described.details)
            found = replace(described.noted(version), columns=fresh, key=described.key)
            now = replace(found, feed=self.settings.lake_change_feed)
        else:
            evolved = columns.evolve(
                self.table, version.columns, described.columns, described.details, end.tick
            )
            now = replace(described.noted(version), columns=evolved.columns)
        return self._rows(now, described, end, "resync")

    def _require_own(self, version: Version) -> str | None:
        """Why the position is not of this queue; None: it may be.  Raises StateError."""
        reason = self.driver.foreign(offsets.read(version.position))
        self.store.require_own(version, lost=reason is not None)
        return reason

    def vacuum(self) -> tuple[int, int]:
        """Deletes versions that are older than the settings keep them: versions, files."""
        version = self._begin()
        if version is None:
            return 0, 0
        return self.store.vacuum(version, self.settings.lake_retention)

    def tidy(self) -> None:
        """Joins small files, where the settings say that there are enough of them."""
        if self.settings.lake_compact_files:
            self._join(self.settings.lake_compact_files)

    def compact(self) -> tuple[int, int]:
        """Joins all small files of each part; how many there were, and what became of them."""
        return self._join(2)

    def _join(self, least: int) -> tuple[int, int]:
        version, limit = self._begin(), self.settings.lake_compact_size
        if version is None or version.format != "parquet":
            return 0, 0
        parts = crowded(version.files, least, limit)
        old = [file for file in version.inside(parts) if file.bytes < limit]
        if not old:
            return 0, 0
        damaged = self.store.damaged(old)
        if damaged:
            raise LondisteError(
                f"table {self.table}: damaged files in the lake: {damaged[0]}",
                detail=f"{len(damaged)} of the files to join; they are not changed",
                hint="restore them from a backup; londiste lake compare lists all of them",
            )
        self.store.compact(version, parts, limit)
        now = self._begin()
        assert now is not None
        return len(old), len(now.files) - len(version.files) + len(old)

    def _begin(self) -> Version | None:
        """The newest version; this process is the one that writes the next."""
        # Its session has the lock of the consumer.
        _ = self.driver.conn
        version = self.store.newest()
        if version is not None and version.mode != self.mode:
            raise self._other_mode(version)
        return version

    def _other_mode(self, version: Version) -> StateError:
        return checks.other_mode(self.table, version, self.mode, self.store.place.uri)

    @property
    def mode(self) -> str:
        """How the table is kept."""
        return self.settings.lake_mode

    def _describe(self, conn: Connection) -> source.Described:
        """The table as it is."""
        return source.describe(conn, self.settings, self.table)

    def _empty(self) -> Version:
        settings = self.settings
        empty = Version(-1, str(self.table), self.mode, "", (), settings.lake_buckets, {})
        return replace(empty, feed=settings.lake_change_feed)

    def _first(self) -> Version:
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
        source.require_start(conn, settings, self.options, self.store.place.uri)
        self._captured = described.told(self.settings, self.table, self._captured)
        new = replace(
            described.noted(self._empty()),
            key=described.key,
            columns=columns.first(described.columns, described.details),
        )
        try:
            offset = self.driver.initial()
            if not offset.is_before_snapshot:
                return self._publish(replace(new, complete=False), offset, [], (), "begin", 0)
            end = self.driver.latest(BEFORE_SNAPSHOT, limited=True)
            return self._rows(new, described, end, "rows")
        finally:
            if self.store.newest() is None:
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
            if not version.by_key:
                return self._append(version, end, self.options, parts, shape, what)
            found = self._whole(
                jobs.frames.rows(jobs.spark, self.options, parts, shape), version.columns
            )
            count = version.buckets
            if version.mode == "state":
                wanted = [*names, *(name for name, _ in jobs.folding.STATE)]
                rows = found.select(*jobs.frames.cols(wanted))
                out = jobs.parts.by_bucket(rows, key, count, count)
                return self._write(version, end, out, None, what, -1)
            current = _parts(version.files)
            base = self._read(version, current)
            changes = jobs.folding.corrections(base, found, key, names, end.tick, end.time)
            rows = jobs.folding.history(base, changes, key, names)
            out = jobs.parts.by_currency(rows, key, count, count)
            return self._write(version, end, out, current, what, -1)
        except Exception as error:
            raise jobs.frames.ours(error) from error

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
            if not version.by_key:
                return self._append(version, end, given, parts, shape, "changes")
            # Read once, and kept for the jobs of this epoch.
            changes = self._whole(
                jobs.frames.rows(jobs.spark, given, parts, shape), version.columns
            ).persist()
            facts = jobs.parts.facts(changes, version.key)
            self._refuse(facts)
            if not facts.changes:
                return self._publish(version, end, [], (), "changes", 0)
            out, gone = self._fold(jobs, version, changes, facts.truncate)
            if out is None:
                return self._publish(version, end, [], gone, "changes", 0)
            return self._write(version, end, out, gone, "changes", facts.changes)
        except Exception as error:
            raise jobs.frames.ours(error) from error
        finally:
            if changes is not None:
                with contextlib.suppress(Exception):
                    changes.unpersist()

    def _append(
        self,
        version: Version,
        end: Offset,
        given: Options,
        parts: Sequence[Any],
        shape: StreamShape,
        what: str,
    ) -> Version:
        """Publishes changes or rows as they are; tasks write them into files past the JVM."""
        jobs, plan = self._jobs(), self._plan(version)
        job = (jobs.spark, given, parts, shape, self.store.place, version.format)
        facts, timeless, files = jobs.direct.write(*job, plan)
        self._refuse(facts)
        emptied = self._is_emptied(facts.truncate)
        if emptied:
            _, timeless, files = jobs.direct.write(*job, replace(plan, after=facts.truncate))
        crash.point("lake.written")
        gone: Collection[str] = ()
        if facts.changes:
            files, gone = self._kept(version, files, emptied, timeless)
        return self._publish(version, end, files, gone, what, facts.changes)

    def _plan(self, version: Version) -> Any:
        """Which changes become rows of files, and where."""
        wanted = schema(version)
        names = tuple((name, name) for name in wanted.names)
        direct = self._jobs().direct
        kinds = (*direct.KINDS.values(), "truncate")
        day = "day=%(year)s-%(month)s-%(day)s"
        return direct.DirectPlan(names, wanted, kinds, "_commit_timestamp", day)

    def _is_emptied(self, truncate: int | None) -> bool:
        """Whether a TRUNCATE removes what was written before; a log of changes keeps it."""
        return False

    def _kept(
        self, version: Version, files: list[Written], emptied: bool, timeless: int | None
    ) -> tuple[list[Written], Collection[str]]:
        """The files to publish, and the parts to remove; timeless -- event without a folder."""
        return files, ()

    def _refuse(self, facts: Any) -> None:
        checks.require_mergeable(self.table, facts, self.settings.passed_scripts)

    def _fold(
        self, jobs: _Jobs, version: Version, changes: Any, truncate: int | None
    ) -> tuple[Any, Collection[str]]:
        """What to write for some changes, None for nothing, and the parts that it replaces."""
        folding, parts = jobs.folding, jobs.parts
        key, names, count = list(version.key), [c.name for c in version.columns], version.buckets
        if version.mode == "state":
            changes = folding.after_truncate(changes, truncate)
        touched = parts.buckets(changes, key, count)
        if truncate is not None:
            touched |= _parts(version.files)
        tasks = max(1, len(touched))
        if version.mode == "state":
            base = self._read(version, touched if truncate is None else ())
            rows = folding.state(base, changes, key, names)
            return parts.by_bucket(rows, key, count, tasks), touched
        base = self._read(version, touched)
        rows = folding.history(base, changes, key, names)
        return parts.by_currency(rows, key, count, tasks), touched

    def _evolved(self, version: Version, start: Offset) -> tuple[Version, StreamShape, bool]:
        """The version with the columns of now; what events are read as, and whether all have it."""
        conn, table = self.driver.conn, self.table
        newest = ticks.newest(conn, self.settings.queue_name)
        assert newest is not None and start.tick is not None
        described = self._describe(conn)
        self._captured = described.told(self.settings, self.table, self._captured)
        if version.by_key:
            checks.require_key(self.table, version, described.key)
        evolved = columns.evolve(
            table, version.columns, described.columns, described.details, newest.id
        )
        checks.require_same_rows(table, version, described, evolved, self.settings.queue_name)
        for name in evolved.added:
            log.warning("table %s: new column in the lake: %s", table, name)
        kept = "table %s: column %s {}; the lake keeps it, NULL in new rows".format
        for name in evolved.dropped:
            log.warning(kept("was dropped"), table, name)
        for name in evolved.excluded:
            log.warning(kept("is in skip_columns"), table, name)
        known = replace(described.noted(version), columns=evolved.columns)
        return (
            known,
            columns.shape(evolved.columns, start.tick, described.unread),
            columns.complete(evolved.columns, start.tick),
        )

    def _read(self, version: Version, parts: Collection[str]) -> Any:
        jobs = self._jobs()
        paths = [file.path for file in version.inside(parts)]
        rows = jobs.frames.files(jobs.spark, self.store.place, paths, schema(version))
        return jobs.folding.renamed(rows, back=True) if version.feed else rows

    def _whole(self, read: Any, found: Sequence[columns.LakeColumn]) -> Any:
        """With the columns that its events do not have any more."""
        return self._jobs().frames.whole(read, [c.column for c in found])

    def _write(
        self,
        version: Version,
        end: Offset,
        out: Any,
        gone: Collection[str] | None,
        what: str,
        changes: int,
    ) -> Version:
        jobs = self._jobs()
        if version.feed:
            out = jobs.folding.renamed(out)
        files = jobs.frames.write(out, self.store.place, version.format)
        crash.point("lake.written")
        if changes < 0:
            changes = sum(file.rows for file in files)
        return self._publish(version, end, files, gone, what, changes)

    def _publish(
        self,
        version: Version,
        end: Offset,
        files: Sequence[Written],
        gone: Collection[str] | None,
        what: str,
        changes: int,
    ) -> Version:
        made = self.store.publish(
            replace(version, position=offsets.write(end), what=what, changes=changes),
            files,
            gone=gone,
        )
        crash.point("lake.published")
        self.changes += changes
        self.driver.finished(end)
        log.info("table %s: %s, %d rows, tick %s", self.table, what, changes, end.tick)
        return made

    def _jobs(self) -> _Jobs:
        """Spark, started when there is something to do."""
        from londiste.engine.spark.lake import dataframes as frames
        from londiste.engine.spark.lake import direct, parts
        from londiste.engine.spark.lake import merge_changes as folding

        return _Jobs(frames.get(self.settings.spark), frames, folding, parts, direct)


def _parts(files: Sequence[File]) -> set[str]:
    """The parts with rows that are current."""
    return {file.part for file in files if file.part != "closed"}
