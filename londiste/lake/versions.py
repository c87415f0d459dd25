"""Versions of a lake table: its files, up to a tick.

A directory of a table has:

    _versions/00000000000000000007.json   a version; the newest is the table
    _attempts/…                           where jobs write, until their files are moved
    data/…                                files, none of which is ever changed

A version is there as a whole or not at all: its file is written beside, brought to the disk, and
linked under its number, which fails when the number is taken.  So of two processes that both take
themselves for the only one, one gets no further.  What no version names is nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from londiste.daemon import crash
from londiste.daemon.files import flush, write_atomically
from londiste.db.names import TableName
from londiste.errors import LondisteError, StateError, Superseded
from londiste.lake.columns import LakeColumn

#: Of what is in the file of a version.
FORMAT = 1

_NAME = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class File:
    """A file of data.

    path -- below the directory of the table.
    part -- what it holds: ``day=2026-01-31``, ``bucket=0007``, ``closed`` or ``rows``.
    digest -- of all its bytes.
    """

    path: str
    part: str
    rows: int
    bytes: int
    digest: str


@dataclass(frozen=True)
class Version:
    """A table of the lake as it was published.

    position -- offset of the stream, as ``offsets.write`` makes it; None: nothing is there yet.
    key -- columns; empty without one.  oid -- of the table.
    complete -- it began with the rows of the table.
    buckets -- parts by key; what -- why there is this version: ``begin``, ``rows``, ``changes``,
        ``resync`` or ``compact``.
    names -- columns that files have, and their names there; empty: all of them.
    layout -- format of the files, and name of their folders where that is chosen.
    """

    number: int
    table: str
    mode: str
    what: str
    key: tuple[str, ...]
    buckets: int
    oid: int = 0
    complete: bool = True
    columns: tuple[LakeColumn, ...] = ()
    position: dict[str, Any] | None = None
    files: tuple[File, ...] = ()
    made: str = ""
    changes: int = 0
    names: tuple[tuple[str, str], ...] = ()
    layout: str = "parquet"

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
        """Up to which it has everything; 0 before the first rows."""
        return 0 if self.position is None else int(self.position["tick"])

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


@dataclass
class Store:
    """The directory of one table.  What changes it is called by its one writer."""

    directory: Path
    table: TableName
    _attempt: str = field(default="", init=False)

    @classmethod
    def of(cls, lake: Path, table: TableName) -> Store:
        """That of a table in a lake."""
        return cls(lake / quote(str(table), safe=".-_ "), table)

    # -- reading ----------------------------------------------------------------------------------

    def numbers(self) -> list[int]:
        """Of all versions that are there."""
        names = [path.name for path in self._versions.glob("*.json")]
        return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))

    def newest(self) -> Version | None:
        """The table as it is; None when there is none."""
        while numbers := self.numbers():
            found = self._read(numbers[-1])
            if found is not None:
                return found
        return None

    def at(self, tick: int) -> Version:
        """The last version up to a tick.  Raises StateError."""
        for version in reversed(list(self.versions())):
            if version.position is not None and version.tick <= tick:
                return version
        raise StateError(
            f"table {self.table}: the lake has no version at tick {tick}",
            hint="list the versions: londiste lake status --versions",
        )

    def versions(self) -> Iterator[Version]:
        """All that are there, the oldest first."""
        for number in self.numbers():
            found = self._read(number)
            if found is not None:
                yield found

    def numbered(self, number: int) -> Version | None:
        """One of them; None when it is not there any more."""
        return self._read(number)

    def paths(self, files: Iterable[File]) -> list[str]:
        """Where files are."""
        return [str(self.directory / file.path) for file in files]

    def damaged(self, version: Version) -> list[str]:
        """What is wrong with the files of a version: each is read and held against its digest."""
        found = []
        for file in version.files:
            try:
                digest = _digest(self.directory / file.path)
            except OSError as error:
                found.append(f"{file.path}: {error.strerror}")
                continue
            if digest != file.digest:
                found.append(f"{file.path}: content differs from what was written")
        return found

    def _read(self, number: int) -> Version | None:
        path = self._path(number)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            # Vacuumed since it was listed.
            return None
        try:
            found = json.loads(text)
            if found.pop("format") != FORMAT:
                raise StateError(
                    f"{path}: written by another version of this program",
                    hint="install the newest version of this program",
                )
            found["columns"] = tuple(LakeColumn(**column) for column in found["columns"])
            found["files"] = tuple(File(**file) for file in found["files"])
            found["key"] = tuple(found["key"])
            found["names"] = tuple((a, b) for a, b in found.get("names", ()))
            return Version(**found)
        except (ValueError, KeyError, TypeError) as error:
            raise LondisteError(
                f"{path}: damaged",
                detail=str(error),
                hint="restore it from a backup; or remove the directory of the table, and its"
                " rows are read again",
            ) from None

    @property
    def _versions(self) -> Path:
        return self.directory / "_versions"

    def _path(self, number: int) -> Path:
        return self._versions / f"{number:020d}.json"

    # -- writing ----------------------------------------------------------------------------------

    def begin(self) -> Path:
        """A directory for what the next job writes."""
        self._attempt = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        path = self.directory / "_attempts" / self._attempt
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def take(self, written: Path, rows: Any) -> tuple[File, ...]:
        """Moves what a job has written to its place, and brings it to the disk.

        written -- with a directory ``_part=…`` for each part.
        rows -- tells the number of rows of a file.
        """
        found = []
        for number, source in enumerate(sorted(written.glob("_part=*/part-*"))):
            part = _unescaped(source.parent.name.partition("=")[2])
            path = Path("data", part, f"{self._attempt}-{number:05d}{source.suffix}")
            target = self.directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            flush(source)
            source.rename(target)
            flush(target.parent)
            found.append(
                File(str(path), part, rows(target), target.stat().st_size, _digest(target))
            )
        if found:
            flush(self.directory / "data")
            flush(self.directory)
        shutil.rmtree(written, ignore_errors=True)
        return tuple(found)

    def publish(self, version: Version) -> Version:
        """Publishes the version.  Raises Superseded when another process has published one."""
        version = replace(version, made=datetime.now(UTC).isoformat())
        self._versions.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, **asdict(version)}, ensure_ascii=False)
        try:
            link_once(self._path(version.number), text)
        except FileExistsError:
            raise Superseded(
                f"table {self.table}: another process wrote version {version.number} in the lake",
                hint="run one process per lake",
            ) from None
        return version

    def sweep(self, version: Version | None, empty: Version) -> Version | None:
        """Removes what attempts have left that were killed; the newest version.

        empty -- the first version of a table, should there be none.

        Somebody who has stood still since may be about to publish these files: a version of the
        same files takes the number that he would need, before the first is removed.
        """
        left = self._left()
        if not left:
            return version
        now = empty if version is None else replace(version, number=version.number + 1)
        now = self.publish(replace(now, changes=0, what="begin" if version is None else "sweep"))
        crash.point("lake.mid-sweep")
        for path in left:
            _remove(path)
        return now

    def _left(self) -> list[Path]:
        known = {file.path for version in self.versions() for file in version.files}
        found = list(self.directory.glob("_attempts/*"))
        found += self.directory.glob("_versions/.*")
        found += self.directory.glob("_delta_log/.*")
        for path in self.directory.glob("data/**/*"):
            if path.is_file() and str(path.relative_to(self.directory)) not in known:
                found.append(path)
        return found

    def vacuum(self, until: datetime) -> tuple[int, int]:
        """Forgets versions that were replaced before a time; the numbers of versions and files."""
        found = list(self.versions())
        if not found:
            return 0, 0
        # What was replaced after that time may still be read.
        keep = {
            version.number
            for version, later in zip(found, [*found[1:], None], strict=True)
            if later is None or later.made_at > until
        }
        needed = {file.path for v in found if v.number in keep for file in v.files}
        old = {f.path for v in found if v.number not in keep for f in v.files} - needed
        for version in found:
            if version.number not in keep:
                # Before its files: a version that is there is complete.
                self._path(version.number).unlink(missing_ok=True)
                crash.point("lake.mid-vacuum")
        for path in old:
            (self.directory / path).unlink(missing_ok=True)
        return len(found) - len(keep), len(old)


def link_once(path: Path, text: str) -> None:
    """Makes a file that is there as a whole or not at all.  Raises FileExistsError."""
    write_atomically(path, text, replace=False, private=False)


def _unescaped(text: str) -> str:
    """The value of a partition; Spark writes ``=`` as ``%3D``."""
    return re.sub(r"%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
