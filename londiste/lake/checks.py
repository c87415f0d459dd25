"""Checks of a lake table: definitions and events that it cannot follow, with what to do."""

from __future__ import annotations

import errno
import logging
import re
import shlex
import tempfile
from collections.abc import Collection, Sequence
from typing import Any

from londiste.db.names import TableName, argument
from londiste.engine.spark.lake.file_writer import Place
from londiste.errors import EventError, LondisteError, StateError, TransientError
from londiste.handlers.base import literal
from londiste.lake.columns import Evolved, retyped
from londiste.lake.source import Described
from londiste.lake.versions import Version

log = logging.getLogger(__name__)

#: What copies can do and a lake cannot.
_LOCALLY = re.compile(r'[,;] or (?:use|run without Spark:) engine = "local"$')


def hint_of(table: TableName, mode: str, place: Place, error: LondisteError) -> str:
    """What to do about an error of reading or of files, in settings of this job.  Pure."""
    return storage_hint(table, mode, place, error) or hint_for(table, mode, error.hint)


def storage_hint(table: TableName, mode: str, place: Place, error: LondisteError) -> str:
    """What to do about an error of the directory of a table; '' for other errors.

    Pure.  A server that has no space has no such numbers in its errors.
    """
    text = f"{error.message} {error.detail}"
    number = re.search(r"\[Errno (\d+)\]|\(os error (\d+)\)", text)
    where = place.uri if place.is_local else tempfile.gettempdir()
    match number and int(number[1] or number[2]):
        case errno.ENOSPC | errno.EDQUOT:
            return f"free space in the directory: df -h {shlex.quote(where)}"
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return f"make the directory writable: {where}"
    if re.search(r"PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundError", text):
        resync = f"londiste lake resync {argument(table)}"
        again = f", or read the rows again: {resync}" if mode == "state" else ""
        return f"restore the missing files from a backup{again}"
    return ""


def hint_for(table: TableName, mode: str, hint: str) -> str:
    """What to do about an error of reading, in settings of this job."""
    resync = f"londiste lake resync {argument(table)}"
    if "newColumns=" in hint:
        more = "" if mode == "append" else f"; or read the rows again: {resync}"
        return f"set unknown_columns = ignore to continue without its values{more}"
    if "missingColumns=" in hint:
        if mode == "append":
            return "set unknown_columns = ignore to store NULL"
        return f"read the rows again: {resync}"
    if "stringColumns=" in hint:
        column = hint.partition("stringColumns=")[2].split(",")[0]
        return (
            f"store it as text: string_columns = {table}.{column}; or all such columns:"
            " unsupported_values = string; or store NULL: unsupported_values = null"
        )
    elsewhere = "start with another lake_path"
    return position_hint(hint, elsewhere if mode == "append" else f"read the rows again: {resync}")


def position_hint(hint: str, again: str) -> str:
    """What to do about an error of reading that concerns no column.  Pure.

    hint -- for a query of Spark; again -- what to do where the position is lost.
    """
    if "restart the query: " in hint:
        return hint.replace("the query", "the process")
    if "onSnapshotLost=" in hint or "londiste.spark.snapshot" in hint:
        return "repeat the command"
    if "another checkpoint" in hint or "startingOffsets=" in hint:
        return again
    if ".option('consumer'" in hint:
        return "set another consumer_name"
    return _LOCALLY.sub("", hint.removeprefix("use payload=json, or "))


def other_mode(table: TableName, version: Version, mode: str, directory: str) -> StateError:
    """The error of a table that is kept in another mode than the settings ask for."""
    return StateError(
        f"table {table}: its mode is {version.mode}, not {mode}",
        detail=directory,
        hint=f"set lake_mode = {version.mode}, or use another lake_path",
    )


def require_later(
    table: TableName, version: Version, queue: str, tick: int, other: str | None
) -> None:
    """Raises an error when a version at a tick cannot follow what was published.

    other -- why the version was not read from this queue; None: it was.  A state is replaced as a
    whole, so the ticks of another queue may be smaller.
    """
    if tick > version.tick or (other and version.mode == "state"):
        return
    if other:
        raise StateError(
            f"table {table}: its history ends at tick {version.tick} of another queue",
            detail=f"{other}; newest tick: {tick}",
            hint="start with another lake_path",
        )
    raise TransientError(
        f"queue {queue}: no tick since tick {version.tick}",
        hint="start the ticker: londiste ticker; then repeat the command",
    )


def require_key(table: TableName, version: Version, key: Sequence[str]) -> None:
    """Raises StateError when the primary key has changed."""
    if tuple(key) != version.key:
        raise StateError(
            f"table {table}: the primary key is ({', '.join(key)}), was ({', '.join(version.key)})",
            hint=f"read the rows again: londiste lake resync {argument(table)}"
            if version.mode == "state"
            else "start with another lake_path",
        )


def require_same_rows(
    table: TableName, version: Version, described: Described, evolved: Evolved, queue: str
) -> None:
    """Raises StateError if rows of a state or history may have changed without an event."""
    resync = f"londiste lake resync {argument(table)}"
    changed_partitions = [one for one in described.partitions if one not in version.partitions]
    if not version.is_whole:
        if version.oid not in (0, described.oid):
            log.warning(
                "table %s: was dropped and created again; no event reports the deletion of its"
                " rows",
                table,
            )
        for name in changed_partitions:
            log.warning("table %s: a partition has changed without an event: %s", table, name)
        return
    if described.oid != version.oid:
        raise StateError(
            f"table {table}: was dropped and created again since it was read",
            detail="no event reports the deletion of its rows",
            hint=f"read its rows again: {resync}"
            if described.captured
            else "capture it again first: select londiste.create_capture("
            f"{literal(queue)}, {literal(str(table))}), or with a node: londiste add-table"
            f" {argument(table)}; then read its rows again: {resync}",
        )
    if changed_partitions:
        raise StateError(
            f"table {table}: rows of a partition have changed without an event",
            detail="; ".join(changed_partitions),
            hint=f"read the rows again: {resync}",
        )
    changed = retyped(version.columns, evolved.columns, rewritten=_rewritten(version, described))
    if changed is not None:
        before, now = changed
        raise StateError(
            f"table {table}: column {now.name} changed its type: {now.type}, was {before.type}",
            detail="no event contains the values that ALTER TABLE has changed",
            hint=f"read the rows again: {resync}",
        )
    filled = _filled(version, described, evolved)
    if filled:
        raise StateError(
            f"table {table}: no event contains the values of new columns in older rows:"
            f" {', '.join(filled)}",
            detail="it has or had a default, is NOT NULL, was renamed, generated or excluded, or"
            " the table was rewritten",
            hint=f"read the rows again: {resync}; or exclude it: skip_columns ="
            f" {table}.{filled[0]}",
        )


def _rewritten(version: Version, described: Described) -> bool:
    """Whether the table has other files: by ALTER TABLE, VACUUM FULL or TRUNCATE.  Pure."""
    return version.filenode not in (0, described.filenode)


def _filled(version: Version, described: Described, evolved: Evolved) -> list[str]:
    """New columns that can have values in rows that no event contains.  Pure."""
    # A rewrite stores the first default of a new column in its rows, and forgets it.
    rewritten = _rewritten(version, described)
    numbers = {column.name: column.number for column in evolved.columns}
    return [
        name
        for name in evolved.added
        if rewritten
        or name in evolved.filled
        or name in described.filled
        # It existed before: the lake did not read it.
        or numbers[name] <= version.highest
    ]


def require_mergeable(table: TableName, facts: Any, passed_scripts: Collection[int]) -> None:
    """Raises EventError for scripts, and for events without the primary key."""
    scripts = [id for id in facts.scripts if id not in passed_scripts]
    if scripts:
        raise EventError(
            f"script event {scripts[0]}: its row changes are not in events",
            detail=f"table {table} stops before it",
            hint=f"if it changed no row of the table: --set passed_scripts={scripts[0]};"
            f" else: londiste lake resync {argument(table)}",
            event_id=scripts[0],
        )
    if facts.keyless:
        raise EventError(
            f"table {table}: {facts.keyless} events do not contain its primary key",
            detail="the table had another key, or is captured with another one (pkey=…)",
            hint=f"read the rows again: londiste lake resync {argument(table)}; londiste check"
            " shows how it is captured",
        )
