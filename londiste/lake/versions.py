"""Versions of a lake table: what a commit contains besides the files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise, takewhile
from typing import Any

from londiste.lake.columns import LakeColumn

#: What Londiste writes into a commit, as JSON.
KEY = "londiste"
#: Commits that change no rows.
_SILENT = ("VACUUM START", "VACUUM END", "vacuum")


@dataclass(frozen=True)
class File:
    """A file of the table; part -- as in ``Written``."""

    path: str
    part: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Version:
    """A table of the lake as it was published.

    position -- offset of the stream, as ``offsets.write`` creates it.
    key -- columns; empty without one.  oid -- of the table.
    filenode -- of the table; highest -- number of its newest column; 0: not known.
    partitions -- changes of rows without an event that were known, as ``Described`` has them.
    complete -- it began with the rows of the table.
    buckets -- parts by key; what -- why there is this version: ``begin``, ``rows``, ``changes``,
        ``resync``, ``vacuum``, or the operation of another program.
    names -- columns that files have, and their names there; empty: all of them.
    layout -- format of the files, and name of their folders where that is chosen.
    feed -- whether the change data feed of Delta is enabled.
    origin -- the queue, as ``origin.of`` names it.
    """

    number: int
    table: str
    mode: str
    what: str
    key: tuple[str, ...]
    buckets: int
    position: dict[str, Any]
    oid: int = 0
    filenode: int = 0
    highest: int = 0
    partitions: tuple[str, ...] = ()
    complete: bool = True
    columns: tuple[LakeColumn, ...] = ()
    files: tuple[File, ...] = ()
    made: str = ""
    changes: int = 0
    names: tuple[tuple[str, str], ...] = ()
    layout: str = "parquet"
    feed: bool = False
    origin: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it has, by key, all rows of the table."""
        return self.mode in ("state", "history")

    @property
    def by_key(self) -> bool:
        """Whether its rows are found by their key."""
        return self.is_whole or self.mode == "keep_latest"

    @property
    def format(self) -> str:
        """Of its files."""
        return self.layout.partition(" ")[0]

    @property
    def tick(self) -> int:
        """Up to which it has everything."""
        return int(self.position["tick"])

    @property
    def rows(self) -> int:
        """Of all its files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Of all its files."""
        return sum(file.bytes for file in self.files)

    @property
    def made_at(self) -> datetime:
        """When it was published."""
        return datetime.fromisoformat(self.made)

    @property
    def column(self) -> str:
        """The column with the part of a row."""
        return "_day" if self.mode == "append" else "_part"

    def value(self, part: str) -> str:
        """A part in that column."""
        return part.removeprefix("day=") if self.column == "_day" else part

    def inside(self, parts: Collection[str] | None) -> tuple[File, ...]:
        """Its files in some parts; None: in all."""
        return tuple(file for file in self.files if parts is None or file.part in parts)


def read(given: dict[str, Any], **more: Any) -> Version:
    """A version as ``asdict`` has written it."""
    given["columns"] = tuple(LakeColumn(**column) for column in given["columns"])
    given["key"] = tuple(given["key"])
    given["partitions"] = tuple(given.get("partitions", ()))
    given["names"] = tuple((a, b) for a, b in given.get("names", ()))
    return Version(**{**given, **more})


def crowded(files: Sequence[File], least: int, limit: int) -> list[str]:
    """The parts with so many files below a size in bytes.  Pure."""
    small = Counter(file.part for file in files if file.bytes < limit)
    return sorted(part for part, count in small.items() if count >= max(2, least))


def schema(version: Version) -> Any:
    """The columns of the files of a version."""
    from londiste.engine.spark.lake import dataframes, dispatch, merge_changes

    more = {
        "append": dataframes.CHANGE,
        "state": merge_changes.FED_STATE if version.feed else merge_changes.STATE,
        "history": merge_changes.HISTORY,
    }
    found = {column.name: column.column for column in version.columns}
    if version.names:
        found = {here: replace(found[there], name=here) for there, here in version.names}
    return dataframes.columns(list(found.values()), more.get(version.mode, dispatch.MORE))


def of_newest_queue(found: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Numbers and ticks, the newest first, up to where a tick is larger than the one after it.

    A queue that was created again begins with small ticks.  Pure.
    """
    rising = takewhile(lambda pair: pair[1][1] <= pair[0][1], pairwise(found))
    return [*found[:1], *(older for _, older in rising)]


def readable(commits: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    """Numbers and ticks of the versions whose files are there, the newest first.

    commits -- all of a Delta table, the newest first.
    """
    until = max(
        (
            commit["timestamp"] - int(commit["operationParameters"]["specifiedRetentionMillis"])
            for commit in commits
            if commit["operation"] == "VACUUM START"
        ),
        default=0,
    )
    found: list[tuple[int, int]] = []
    replaced: int | None = None
    own = [json.loads(commit[KEY]) for commit in commits if KEY in commit]
    for commit in commits:
        what = json.loads(commit[KEY])["what"] if KEY in commit else commit["operation"]
        if what in _SILENT:
            continue
        if replaced is not None and replaced <= until:
            break
        before = [one for one in own if one["number"] <= commit["version"]]
        if not before:
            break
        found.append((commit["version"], int(before[0]["position"]["tick"])))
        replaced = commit["timestamp"]
    return found
