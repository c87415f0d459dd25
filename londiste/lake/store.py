"""Store of a lake table: a Delta table, by the package deltalake.

Each commit of Londiste contains what is known of the table and its position in the queue.  Delta
publishes it with the files, so rows and position are there together or not at all.  Commits of
other programs, such as OPTIMIZE, may follow; the position is that of the last commit of Londiste.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from londiste.daemon import crash
from londiste.daemon.files import flush
from londiste.db.names import TableName
from londiste.engine.spark.lake.file_writer import Place, Written, require
from londiste.errors import StateError, Superseded, TransientError
from londiste.lake import delta, origin
from londiste.lake.checks import storage_hint
from londiste.lake.directory_names import directory_name
from londiste.lake.versions import KEY, File, Version, of_newest_queue, read, readable

if TYPE_CHECKING:
    from londiste.lake.settings import LakeSettings

#: Features of Delta whose files contain other rows than the table.
_UNREADABLE = {"deletionVectors", "columnMapping"}
#: Delta forgets commits after a month; the position is written again before that.
_REFRESH = timedelta(days=7)
_ATTEMPTS = 10


class Overtaken(TransientError):
    """Another program has changed files that an epoch had read; the epoch runs again."""


@dataclass(frozen=True)
class Store:
    """The directory of one table; origin -- where its changes are from, '' if that is not known."""

    place: Place
    table: TableName
    origin: str = ""

    @classmethod
    def of(cls, settings: LakeSettings, table: TableName) -> Store:
        """That of a table in a lake."""
        place = Place(settings.lake_path, settings.lake_storage)
        name = directory_name(table, local=place.is_local)
        place = replace(place, uri=f"{place.uri}/{name}")
        earlier = Path(settings.lake_path, quote(str(table), safe=".-_ "))
        if place.is_local and "%" in earlier.name and os.path.isdir(earlier):  # noqa: PTH112
            raise _of_an_earlier_release(table, str(earlier))
        return cls(place, table, origin.of(settings))

    # -- reading ----------------------------------------------------------------------------------

    def newest(self) -> Version | None:
        """The table as it is; None when there is none.  Raises StateError for another queue's."""
        table = self._open()
        if table is None:
            return None
        for limit in (1, 20, None):
            commits = self._commits(table, limit)
            if any(KEY in commit for commit in commits):
                found = self._version(table, commits)
                self.require_own(found)
                return found
        raise self._without_position(table)

    def require_own(self, version: Version, *, lost: bool = False) -> None:
        """Raises StateError when the table is of another queue.

        lost -- the position is of no queue here, so another database is another queue, too.
        """
        if not origin.differs(version.origin, self.origin, lost=lost):
            return
        if not version.origin:
            raise StateError(
                f"table {self.table}: its directory may belong to another queue",
                detail=f"{self.place.uri}; its commits name no queue, and their position is not of"
                f" {self.origin}",
                hint="use another lake_path; or if the queue was created again, remove this one",
            )
        raise StateError(
            f"table {self.table}: its directory belongs to {version.origin}",
            detail=f"{self.place.uri}; these settings name {self.origin}",
            hint="use another lake_path",
        )

    def at(self, tick: int) -> Version:
        """The last version up to a tick.  Raises StateError, also for a tick that is to come."""
        commits = self._commits()
        found = of_newest_queue(readable(commits))
        if found and found[0][1] < tick:
            raise StateError(
                f"table {self.table}: the lake is at tick {found[0][1]}, before tick {tick}",
                hint="wait until it has this tick: londiste lake status; or omit the tick",
            )
        for number, position in found:
            if position <= tick:
                version = self._numbered(number, commits)
                if version is not None:
                    return version
        raise StateError(
            f"table {self.table}: the lake has no version at tick {tick}",
            hint="list the versions: londiste lake status --versions",
        )

    def versions(self) -> Iterator[Version]:
        """All that can be read, the oldest first."""
        commits = self._commits()
        for number, _ in reversed(readable(commits)):
            found = self._numbered(number, commits)
            if found is not None:
                yield found

    def numbered(self, number: int) -> Version | None:
        """One of them; None when it is not there any more."""
        return self._numbered(number, self._commits())

    def _numbered(self, number: int, commits: Sequence[dict[str, Any]]) -> Version | None:
        table = self._open(number)
        until = [one for one in commits if one["version"] <= number]
        if table is None or not any(KEY in one for one in until):
            return None
        return self._version(table, until)

    def paths(self, files: Sequence[File]) -> list[str]:
        """Paths or addresses of files."""
        return [self.place.address(file.path) for file in files]

    def damaged(self, files: Sequence[File]) -> list[str]:
        """What is wrong with some files: each is read and compared with its digest."""
        return [text for file in files if (text := self.place.damage(file.path))]

    def _open(self, number: int | None = None) -> Any:
        """The Delta table, or None."""
        if self.place.is_local and Path(self.place.uri, "_versions").is_dir():
            raise _of_an_earlier_release(self.table, self.place.uri)
        library = require()
        try:
            return library.DeltaTable(
                self.place.uri, version=number, storage_options=dict(self.place.storage)
            )
        except library.exceptions.TableNotFoundError:
            return None
        except (library.exceptions.DeltaError, OSError) as error:
            if number is not None:
                return None
            raise self._error(error) from error

    def _opened(self) -> Any:
        """The Delta table, which was there before.  Raises StateError when it is not any more."""
        table = self._open()
        if table is None:
            raise self._gone()
        return table

    def _gone(self) -> StateError:
        return StateError(
            f"table {self.table}: its directory in the lake is gone",
            detail=self.place.uri,
            hint="mount the file system of lake_path, or restore the directory",
        )

    def _commits(self, table: Any = None, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits up to the open version, the newest first; none where there is no table."""
        if table is None:
            table = self._open()
        if table is None:
            return []
        found: list[dict[str, Any]] = table.history(limit)
        own = next((commit for commit in found if KEY in commit), None)
        if own is not None:
            # The library counts from the version that it has opened, whatever came after.
            shift = json.loads(own[KEY])["number"] - own["version"]
            found = [{**commit, "version": commit["version"] + shift} for commit in found]
        return [commit for commit in found if commit["version"] <= table.version()]

    def _version(self, table: Any, commits: Sequence[dict[str, Any]]) -> Version:
        """The version of a table; commits -- those up to it, one of Londiste among them."""
        top = commits[0]
        own = next(commit for commit in commits if KEY in commit)
        given = json.loads(own[KEY])
        since = [commit["operation"] for commit in commits[: commits.index(own)]]
        if "RESTORE" in since:
            raise StateError(
                f"table {self.table}: another program restored older rows",
                detail="no commit after that contains a position in the queue",
                hint="restore the newest version of Londiste; or start with another lake_path",
            )
        features = set(table.protocol().reader_features or ()) & _UNREADABLE
        if features:
            raise StateError(
                f"table {self.table}: Delta feature {sorted(features)[0]} is not supported",
                detail="another program has enabled it",
                hint=f"drop it: alter table … drop feature {sorted(features)[0]}",
            )
        more = {} if top is own else {"what": top["operation"].lower(), "changes": 0}
        made = datetime.fromtimestamp(top["timestamp"] / 1000, UTC).isoformat()
        version = read(given, **more, number=table.version(), made=made)
        return replace(version, files=delta.files(table, version.column))

    def _without_position(self, table: Any) -> StateError:
        tick = table.transaction_version(self.application)
        return StateError(
            f"table {self.table}: no position of Londiste in the Delta table",
            detail=self.place.uri
            if tick is None
            else f"the commit of tick {tick} has expired from the log",
            hint="start with another lake_path",
        )

    def _error(self, error: Exception) -> TransientError:
        cause, during = causes(str(error))
        ours = TransientError(
            f"table {self.table}: {cause}",
            detail="; ".join(filter(None, [self.place.uri, during])),
            hint="check lake_path, lake_storage and the rights there",
        )
        ours.say_more("", storage_hint(self.table, "", self.place, ours))
        return ours

    # -- writing ----------------------------------------------------------------------------------

    def publish(
        self,
        version: Version,
        files: Sequence[Written] = (),
        *,
        gone: Collection[str] | None = (),
    ) -> Version:
        """Publishes a version.

        version -- with the number of the one that was read; below 0: there was none.
        files -- new ones; gone -- parts whose files are replaced, None: all.

        Raises Superseded when another process has published, Overtaken when another program has
        changed the files of these parts.
        """
        library = require()
        before = frozenset(file.path for file in version.inside(gone))
        for _ in range(_ATTEMPTS):
            try:
                if version.number < 0:
                    number = self._create(version, files)
                else:
                    number = self._commit(version, files, gone, before)
            except library.exceptions.CommitFailedError:
                # Another commit came first: what it means is decided with it.
                continue
            except (library.exceptions.DeltaError, OSError) as error:
                if version.number < 0 and self._open() is not None:
                    raise self._superseded() from error
                raise self._error(error) from error
            self._flush(number)
            found = self.numbered(number)
            if found is None:
                raise self._gone()
            return found
        raise TransientError(
            f"table {self.table}: {_ATTEMPTS} commits of other programs came first",
            hint="stop the other programs that write this table, or repeat the command",
        )

    def _create(self, version: Version, files: Sequence[Written]) -> int:
        from deltalake.transaction import create_table_with_add_actions

        if self.place.is_local:
            Path(self.place.uri).mkdir(parents=True, exist_ok=True)
            flush(Path(self.place.uri).parent)
        create_table_with_add_actions(
            self.place.uri,
            delta.schema(version),
            self._actions(version, files),
            "error",
            [version.column],
            str(self.table),
            configuration=delta.configuration(version.feed),
            storage_options=dict(self.place.storage),
            commit_properties=self._properties(version, 0),
        )
        return 0

    def _commit(
        self,
        version: Version,
        files: Sequence[Written],
        gone: Collection[str] | None,
        before: frozenset[str],
    ) -> int:
        table = self._opened()
        self._require_unchanged(table, version, gone, before)
        wanted = delta.schema(version)
        there = {field.name for field in table.schema().fields}
        added = [field for field in wanted.fields if field.name not in there]
        settings = delta.configuration(version.feed)
        known = table.metadata().configuration
        if any(known.get(key) != value for key, value in settings.items()):
            table.alter.set_table_properties(settings)
        if gone is not None and added:
            table.alter.add_columns(added)
        overwrite = gone is None or len(gone) > 0
        filters = None
        if gone:
            filters = [(version.column, "in", sorted(map(version.value, gone)))]
        # Only right behind the version that was looked at: what comes between is looked at, too.
        table.create_write_transaction(
            self._actions(version, files),
            "overwrite" if overwrite else "append",
            wanted if gone is None else table.schema(),
            [version.column],
            filters,
            commit_properties=self._properties(version, table.version() + 1),
        )
        return int(table.version()) + 1

    def _require_unchanged(
        self, table: Any, version: Version, gone: Collection[str] | None, before: frozenset[str]
    ) -> None:
        if table.version() == version.number:
            return
        commits = self._commits(table)
        if any(KEY in one and one["version"] > version.number for one in commits):
            raise self._superseded()
        now = self._version(table, commits)
        if frozenset(file.path for file in now.inside(gone)) != before:
            raise Overtaken(
                f"table {self.table}: another program changed files that are to be replaced",
                hint="repeat the command",
            )

    def _superseded(self) -> Superseded:
        return Superseded(
            f"table {self.table}: another process published a version in the lake",
            hint="run one process per lake",
        )

    @property
    def application(self) -> str:
        """The name by which Delta knows the position."""
        return f"{KEY} {self.table}"

    def _properties(self, version: Version, number: int) -> Any:
        library = require()
        own = self.origin or version.origin
        given = asdict(replace(version, number=number, files=(), origin=own))
        del given["files"], given["made"]
        return library.CommitProperties(
            custom_metadata={KEY: json.dumps(given, ensure_ascii=False)},
            max_commit_retries=0,
            app_transactions=[library.Transaction(self.application, version.tick)],
        )

    def _actions(self, version: Version, files: Sequence[Written]) -> list[Any]:
        from deltalake.transaction import AddAction

        now = int(datetime.now(UTC).timestamp() * 1000)
        column, value = version.column, version.value
        return [
            AddAction(file.path, file.bytes, {column: value(file.part)}, now, True, file.stats)
            for file in files
        ]

    def compact(self, version: Version, parts: Sequence[str], size: int) -> None:
        """Joins the files of some parts that are below a size in bytes."""
        library = require()
        table = self._opened()
        values = [version.value(part) for part in parts]
        try:
            table.optimize.compact(
                partition_filters=[(version.column, "in", values)], target_size=size
            )
        except (library.exceptions.DeltaError, OSError) as error:
            raise self._error(error) from error
        self._flush(table.version())

    def vacuum(self, version: Version, seconds: float) -> tuple[int, int]:
        """Deletes files that were replaced before so many seconds, and those of killed attempts.

        Returns the numbers of versions and files that are no longer there.
        """
        table = self._opened()
        given: dict[str, Any] = {
            "retention_hours": math.ceil(seconds / 3600),
            "enforce_retention_duration": False,
            "full": True,
        }
        infos = self.place.files.get_file_info(table.vacuum(dry_run=True, **given))
        count = sum(info.is_file for info in infos)
        if not count and datetime.now(UTC) - self._written(table) < _REFRESH:
            return 0, 0
        before = len(readable(self._commits()))
        # A process that was suspended may be about to publish these files: now it cannot.
        self.publish(replace(version, what="vacuum", changes=0))
        crash.point("lake.mid-vacuum")
        table = self._opened()
        try:
            table.vacuum(dry_run=False, **given)
        except (require().exceptions.DeltaError, OSError) as error:
            raise self._error(error) from error
        self._flush(table.version())
        return before - len(readable(self._commits())), count

    def _written(self, table: Any) -> datetime:
        commits = self._commits(table)
        own = next(commit for commit in commits if KEY in commit)
        return datetime.fromtimestamp(own["timestamp"] / 1000, UTC)

    def _flush(self, number: int) -> None:
        """Flushes the log to disk: the library leaves that to the system."""
        if not self.place.is_local:
            return
        log = Path(self.place.uri, "_delta_log")
        for path in (*log.glob(f"{number:020d}.*"), *log.glob("_last_checkpoint")):
            with contextlib.suppress(FileNotFoundError):
                flush(path)
        flush(log)
        flush(log.parent)


def causes(text: str) -> tuple[str, str]:
    """What failed at last in an error of deltalake, and what it was needed for.  Pure."""
    first, *deeper = re.sub(r"\x1b\[\d*m", "", text).split("↳")
    *during, cause = [" ".join(one.split()) for one in (first, *deeper)]
    return (cause, ": ".join(during)) if deeper else (next(iter(text.splitlines()), ""), "")


def _of_an_earlier_release(table: TableName, directory: str) -> StateError:
    return StateError(
        f"table {table}: its directory is of an earlier release",
        detail=directory,
        hint=f"stop its process, then: londiste lake convert {shlex.quote(directory)}",
    )
