"""``londiste dispatch`` into files: folders by time in a directory per table.

A table is stored as in a lake: executors write the files of an epoch, the driver publishes them
with the position.  This module selects rows, folders and expired folders.  Of csv, json and orc the
Delta log only lists the files.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from londiste.changes.types import Op
from londiste.db import catalog
from londiste.db.connection import Connection, session
from londiste.db.names import TableName, argument
from londiste.db.queries import query
from londiste.engine.spark.lake.file_writer import Written
from londiste.engine.spark.stream import offsets
from londiste.engine.spark.stream.options import CHANGE_NAMES
from londiste.errors import BadOption, EventError, InstallError, LondisteError, StateError
from londiste.handlers.dispatch import Dispatching, PartMode, RowMode
from londiste.handlers.partitions import require_retention
from londiste.lake import checks, source
from londiste.lake.settings import LakeSettings
from londiste.lake.table import LakeTable
from londiste.lake.versions import Version, schema
from londiste.lake.worker import LakeWorker
from londiste.pgq import batches, queues
from londiste.pgq import consumers as pausing
from londiste.pgq.consumers import ConsumerKind
from londiste.replication import sqlapi as captures
from londiste.settings import load
from londiste.tools.dispatch.first_copy import require_copyable
from londiste.tools.dispatch.folders import Folders, timeless
from londiste.tools.dispatch.rules import Rules, bad_option
from londiste.tools.dispatch.settings import DispatchBase

#: Types of Spark in which a column tells a time.
_TIME_KINDS = ("date", "timestamp", "timestamp_ntz")
#: Columns that files have behind those of the table, and that are made on the way.
_TAKEN = {*CHANGE_NAMES, "_part", "_n", "_event_time"}
_FUNCTION = "londiste.create_partition"
_ELSEWHERE = "use another target_path"


@dataclass(frozen=True)
class FileRule:
    """How the changes of a table are stored as files."""

    work: Dispatching
    folders: Folders
    format: str

    @property
    def layout(self) -> str:
        """The common layout of one directory's files."""
        return f"{self.format} {self.folders.name}"


def lake_settings(settings: DispatchBase, tables: list[TableName]) -> LakeSettings:
    """The directory as a lake, read from the consumer's position."""
    given: dict[str, Any] = {
        "db": settings.db,
        "queue_name": settings.queue_name,
        "job_name": settings.consumer,
        "lake_path": settings.target_path,
        "lake_storage": settings.target_storage,
        "lake_tables": ",".join(map(str, tables)),
        "lake_mode": "append",
        "lake_start": "snapshot" if settings.with_copy else "latest",
        "lake_period": settings.poll_interval,
        "lake_retention": settings.files_retention,
        # Programs may read the folders as they are: a file that is there stays.
        "lake_compact_files": 0,
        "lake_tasks": settings.parallel_apply_tasks,
        "string_columns": settings.string_columns,
        "max_retry_delay": settings.max_retry_delay,
        "metrics_max_lag": settings.metrics_max_lag,
        "spark": settings.spark,
    }
    return load(LakeSettings, None, given)


def file_rules(settings: DispatchBase, found: Rules) -> dict[TableName, FileRule]:
    """The rules of the dispatched tables."""
    result = {}
    for table in found.chosen(settings.table_filter, "for files"):
        rule = found.of(table)
        assert rule.work is not None
        if rule.table:
            raise BadOption(
                f"table {table}: table = {rule.table} is not available with target_path",
                hint="remove the option: the directory has the table's name",
            )
        if settings.with_copy:
            require_copyable(table, rule.work)
        result[table] = _file_rule(table, rule.work, settings.file_format)
    return result


def _file_rule(table: TableName, work: Dispatching, form: str) -> FileRule:
    parts = work.parts
    if parts is None:
        raise BadOption(
            f"table {table}: table_mode is not available with target_path: files are in folders"
            " by time",
            hint="remove table_mode, or use one of the presets by time: daily_batch",
        )
    for name, given in (
        ("part_template", parts.template),
        ("pre_part", parts.before),
        ("post_part", parts.after),
        ("part_func", parts.function if parts.function != _FUNCTION else ""),
        ("method", "3" if work.insert_only else ""),
    ):
        if given:
            raise BadOption(
                f"table {table}: {name} = {given} is not available with target_path",
                hint="remove it",
            )
    if work.row_mode is RowMode.LATEST and form != "parquet":
        raise BadOption(
            f"table {table}: row_mode = keep_latest cannot read files of format {form} again",
            hint="set file_format = parquet, or row_mode = keep_all",
        )
    if work.names is not None:
        here = [name.lower() for _, name in work.names]
        taken = sorted({name for name in here if name in _TAKEN or here.count(name) > 1})
        if taken:
            raise BadOption(
                f"table {table}: fields has a duplicate name: {', '.join(taken)}",
                detail="names of columns in files are not case-sensitive",
                hint=f"rename the column: {taken[0]}:NAME",
            )
    return FileRule(work, Folders(parts.period, parts.name), form)


class FileTable(LakeTable):
    """Writes the files of one table."""

    def __init__(self, settings: LakeSettings, table: TableName, rule: FileRule) -> None:
        super().__init__(settings, table)
        self.rule = rule
        timed = rule.work.part_mode is PartMode.EVENT
        self.options = replace(self.options, kind=ConsumerKind.DISPATCH, timed=timed)
        self.driver.options = self.options

    @property
    def mode(self) -> str:
        return self.rule.work.row_mode.value

    def _hint(self, error: LondisteError) -> str:
        hint = error.hint
        if "newColumns=" in hint or "missingColumns=" in hint:
            return _ELSEWHERE
        if "stringColumns=" in hint:
            column = hint.partition("stringColumns=")[2].split(",")[0]
            return f"string_columns = {self.table}.{column}"
        stored = checks.storage_hint(self.table, self.mode, self.store.place, error)
        return stored or checks.position_hint(hint, _ELSEWHERE)

    def _begin(self) -> Version | None:
        version = super()._begin()
        if version is not None and version.layout != self.rule.layout:
            raise StateError(
                f"the files of table {self.table} are {version.layout}, not {self.rule.layout}",
                detail=self.store.place.uri,
                hint=_ELSEWHERE,
            )
        return version

    def _other_mode(self, version: Version) -> StateError:
        return StateError(
            f"the files of table {self.table} are of row_mode {version.mode}, not {self.mode}",
            detail=self.store.place.uri,
            hint=_ELSEWHERE,
        )

    def _empty(self) -> Version:
        return replace(super()._empty(), layout=self.rule.layout)

    def _describe(self, conn: Connection) -> source.Described:
        """The required columns: those of the files, the time, and the key."""
        work = self.rule.work
        known = [column.name for column in catalog.columns(conn, self.table)]
        key = catalog.key(conn, self.table)
        named = [there for there, _ in work.names or ()]
        field = work.part_field if work.part_mode is PartMode.FIELD else ""
        missing = sorted({*named, *work.skip, *([field] if field else [])} - set(known))
        if missing:
            raise BadOption(
                f"table {self.table} has no column {', '.join(missing)}",
                hint=f"it has: {', '.join(known)}; correct fields, skip_fields or part_field",
            )
        if work.row_mode is RowMode.LATEST:
            lost = [name for name in key if not self._is_shown(name)]
            if lost or not key:
                raise BadOption(
                    f"table {self.table}: row_mode = keep_latest needs its key in the files",
                    detail=f"excluded: {', '.join(lost)}" if lost else "it has no primary key",
                    hint="name the key in fields, or set row_mode = keep_all",
                )
        needed = {*key, field}
        skip = [n for n in known if n not in needed and not self._is_shown(n)]
        more = {"skip_columns": tuple(f"{self.table}.{name}" for name in skip)}
        try:
            found = source.describe(conn, self.settings.model_copy(update=more), self.table)
        except BadOption as error:
            hint = error.hint.replace("skip_columns", "skip_fields").replace(f"{self.table}.", "")
            raise BadOption(error.message, detail=error.detail, hint=hint) from error
        kinds = {column.name: column.kind for column in found.columns}
        if field and kinds.get(field) not in _TIME_KINDS:
            raise BadOption(
                f"table {self.table}: part_field = {field} is not a date or time",
                hint="name a column of type date, timestamp or timestamptz",
            )
        self._refuse_deletes(conn, key)
        if work.row_mode is RowMode.LATEST:
            try:
                source.require_key(conn, self.table, found)
            except StateError as error:
                raise BadOption(
                    error.message, hint="set row_mode = keep_all, which needs no key"
                ) from error
        return found

    def _refuse_deletes(self, conn: Connection, key: tuple[str, ...]) -> None:
        """Refuses deletes whose events do not contain the time of their row."""
        work = self.rule.work
        if work.part_mode is not PartMode.FIELD or work.part_field in key:
            return
        if Op.DELETE not in work.ops or work.row_mode is RowMode.ALL:
            return
        try:
            forms = captures.capture_forms(conn, self.settings.queue_name)
        except InstallError:
            return
        if any(one.table == self.table and one.form == "statement" for one in forms):
            raise BadOption(
                f"table {self.table}: DELETE events do not contain {work.part_field}, which"
                " selects the folder",
                detail="the table is captured by statement, so they contain only the key",
                hint="capture it by row: on the root londiste change-form"
                f" {argument(self.table)} row; or"
                " skip deletes: event_types = I,U",
            )

    def _is_shown(self, name: str) -> bool:
        work = self.rule.work
        named = work.names is None or any(name == there for there, _ in work.names)
        return named and name not in work.skip

    def _evolved(self, version: Version, start: Any) -> Any:
        before = version.names
        try:
            version, shape, complete = super()._evolved(version, start)
        except StateError as error:
            raise StateError(error.message, detail=error.detail, hint=_ELSEWHERE) from error
        work, names = self.rule.work, []
        if work.names is not None or work.skip:
            here = dict(work.names or ())
            names = [
                (c.name, here.get(c.name, c.name))
                for c in version.columns
                if self._is_shown(c.name)
            ]
        told = [(c.name, c.name) for c in version.columns]
        old, new = dict(before or told), dict(names or told)
        moved = sorted(name for name in old.keys() & new.keys() if old[name] != new[name])
        if moved and version.files:
            name = moved[0]
            raise StateError(
                f"column {name} of table {self.table} is called {old[name]} in the files, not"
                f" {new[name]}",
                detail=self.store.place.uri,
                hint=f"fields = …,{name}:{old[name]}; or {_ELSEWHERE}",
            )
        return replace(version, names=tuple(names)), shape, complete

    def _fold(
        self, jobs: Any, version: Version, changes: Any, truncate: int | None
    ) -> tuple[Any, Collection[str]]:
        from londiste.engine.spark.lake import dispatch, merge_changes

        folders = {file.part for file in version.files}
        emptied = self._is_emptied(truncate)
        if emptied:
            changes = merge_changes.after_truncate(changes, truncate)
        kinds, pattern = self._kinds(), self.rule.folders.java
        plan = dispatch.DispatchPlan(self._time(), pattern, kinds, version.names, version.key)
        placed = dispatch.placed(changes, plan)
        found = dispatch.parts(placed)
        if None in found:
            raise self._timeless(found[None])
        touched = {part for part in found if part is not None}
        since = self._since()
        old = {part for part in touched if self.rule.folders.is_old(part, since)}
        if old:
            placed, touched = placed.where(~placed["_part"].isin(*sorted(old))), touched - old
        gone = {part for part in folders if emptied or self.rule.folders.is_old(part, since)}
        if not touched:
            return None, gone
        names = [column.name for column in version.columns]
        mine = () if emptied else version.inside(touched)
        base = dispatch.read(jobs.spark, self.store.place, mine, schema(version))
        out = dispatch.latest(base, placed, plan, names)
        return jobs.parts.spread(out, len(touched)), gone | (touched & folders)

    def _kinds(self) -> tuple[str, ...]:
        """The values of ``_change_type`` that are dispatched."""
        kinds, ops = self._jobs().direct.KINDS, set(self.rule.work.ops)
        if self.rule.work.row_mode is RowMode.ALL:
            ops.discard(Op.DELETE)
        return tuple(kinds[op.value] for op in Op if op in ops)

    def _plan(self, version: Version) -> Any:
        wanted = schema(version)
        there = {here: name for name, here in version.names}
        names = tuple((there.get(name, name), name) for name in wanted.names)
        rest = (self._kinds(), self._time(), self.rule.folders.name)
        return self._jobs().direct.DirectPlan(names, wanted, *rest)

    def _is_emptied(self, truncate: int | None) -> bool:
        return truncate is not None and not self.rule.work.ignore_truncate

    def _kept(
        self, version: Version, files: list[Written], emptied: bool, timeless: int | None
    ) -> tuple[list[Written], Collection[str]]:
        if timeless is not None:
            raise self._timeless(timeless)
        since, is_old = self._since(), self.rule.folders.is_old
        gone = {f.part for f in version.files if emptied or is_old(f.part, since)}
        # What is old already would go with the folder as soon as it is there.
        return [file for file in files if not is_old(file.part, since)], gone

    def _refuse(self, facts: Any) -> None:
        if facts.keyless:
            raise EventError(
                f"table {self.table}: {facts.keyless} events lack its primary key",
                detail="the table had another key, or is captured with one (pkey=…)",
                hint=f"set row_mode = keep_all, which needs no key: {_ELSEWHERE}",
            )

    def _timeless(self, event: int) -> LondisteError:
        return timeless(self.table, self.rule.work.part_field, event)

    def _time(self) -> str | datetime:
        match self.rule.work.part_mode:
            case PartMode.BATCH:
                return "_commit_timestamp"
            case PartMode.EVENT:
                return "_event_time"
            case PartMode.FIELD:
                return self.rule.work.part_field
            case PartMode.CURRENT:
                # Jobs of an epoch have to say the same.
                return _ago(self.driver.conn, "0")

    def _since(self) -> datetime | None:
        """The time before which folders have expired; None: no expiry."""
        parts = self.rule.work.parts
        if parts is None or not parts.retention:
            return None
        return _ago(self.driver.conn, parts.retention)


def _ago(conn: Connection, interval: str) -> datetime:
    found: datetime = conn.execute(query("time_ago"), [interval]).fetchall()[0][0]
    return found


class FileDispatcher(LakeWorker):
    """Writes the row changes of a queue into files, exactly once."""

    def __init__(self, settings: DispatchBase, found: Rules) -> None:
        self.rules = file_rules(settings, found)
        super().__init__(lake_settings(settings, list(self.rules)))

    def table(self, name: TableName) -> LakeTable:
        return FileTable(self.settings, name, self.rules[name])

    def check(self) -> None:
        """Refuses invalid settings."""
        with session(self.settings.db, name="londiste dispatch", autocommit=True) as conn:
            for table in self.tables:
                table._describe(conn)
                rule = self.rules[table.table]
                if rule.work.parts is not None and rule.work.parts.retention:
                    try:
                        require_retention(conn, rule.work.parts.retention)
                    except BadOption as error:
                        raise bad_option(error) from error

    def register(self) -> int:
        """Registers at the end of the queue, or at the position of the files; returns new tables.

        Raises PositionLost where the queue no longer has the events after the files.
        """
        with session(self.settings.db, name="londiste dispatch", autocommit=True) as conn:
            known = queues.get_consumer_info(conn, self.settings.queue_name)
        names = {one.consumer_name for one in known}
        count = 0
        for table in self.tables:
            version = table.store.newest()
            if version is None:
                table.work()
            elif table.options.consumer in names:
                continue
            else:
                # It was forgotten: from now on the queue keeps its events again.
                with table.own_hints():
                    table.driver.proved(offsets.read(version.position))
            count += 1
        return count

    def unregister(self) -> int:
        """Unregisters the consumers; returns their number.  The files stay."""
        with session(self.settings.db, name="londiste dispatch", autocommit=True) as conn:
            queue = self.settings.queue_name
            names = [table.options.consumer for table in self.tables]
            return sum(bool(batches.unregister_consumer(conn, queue, name)) for name in names)

    def pause(self, wanted: bool) -> int:
        """Pauses or resumes the consumers; returns the number of changed ones."""
        change = pausing.pause_consumer if wanted else pausing.resume_consumer
        with session(self.settings.db, name="londiste dispatch", autocommit=True) as conn:
            queue = self.settings.queue_name
            return sum(change(conn, queue, table.options.consumer) for table in self.tables)

    def files(self) -> list[tuple[str, str]]:
        """The current files of all tables, as paths or addresses."""
        found = []
        for table in self.tables:
            version = table.store.newest()
            if version is not None:
                found += [(str(table.table), path) for path in table.store.paths(version.files)]
        return found
