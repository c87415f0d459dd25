"""Conversion of a table's directory of an earlier release: its files become a Delta table.

The list of versions (``_versions``) is removed last, and until then it is what counts: a conversion
that was killed starts again.  The files stay where they are; only the newest version is kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from londiste.daemon import crash
from londiste.daemon.files import flush
from londiste.db.names import TableName
from londiste.engine.spark.lake.file_writer import Place, Written, require
from londiste.errors import BadOption, LondisteError, StateError
from londiste.lake.directory_names import SHORTENED, directory_name, table_of
from londiste.lake.store import Store
from londiste.lake.versions import Version, read

_NAME = re.compile(r"\d{20}\.json")
#: Directories of earlier releases, and the one in which the Delta table is created.
_VERSIONS, _OLD, _OLD_LOG, _NEW = "_versions", "_versions.old", "_delta_log.old", "_converted"


@dataclass(frozen=True)
class TableDirectory:
    """The directory of a table, and the path that it has after the conversion."""

    found: Path
    path: Path
    table: TableName


def table_directory(directory: Path) -> TableDirectory:
    """The directory to convert; raises BadOption for one that contains no table of a lake."""
    require()
    given = directory.expanduser().absolute()
    table = TableName.parse(unquote(given.name)) if "%" in given.name else table_of(given.name)
    path = given if SHORTENED in given.name else given.with_name(directory_name(table))
    # A conversion that was killed may have renamed it.
    found = given if given.exists() else path
    if _is_table(found, table):
        if path != found and path.exists():
            raise StateError(
                f"{given}: {path.name} exists beside it",
                detail="the directory gets this name, which readers of Delta open",
                hint=f"move one of them: mv {shlex.quote(str(path))} ELSEWHERE",
            )
        return TableDirectory(found, path, table)
    inside = sorted(str(one.parent) for one in given.glob(f"*/{_VERSIONS}") if one.is_dir())
    raise BadOption(
        f"{given}: {'contains no table of a lake' if given.is_dir() else 'no such directory'}",
        hint=f"londiste lake convert {' '.join(map(shlex.quote, inside))}"
        if inside
        else "name the directory of a table below lake_path or target_path, which contains"
        f" {_VERSIONS}",
    )


def _is_table(directory: Path, table: TableName) -> bool:
    for name in (_VERSIONS, _OLD):
        if (directory / name).is_dir():
            return all(_NAME.fullmatch(path.name) for path in (directory / name).iterdir())
    if not (directory / "_delta_log").is_dir():
        return False
    try:
        return Store(Place(str(directory)), table).newest() is not None
    except LondisteError:
        return False


def convert(directory: TableDirectory) -> Version | None:
    """Converts the directory of a table; None if there is nothing to convert.

    Raises LondisteError when files are damaged, or one cannot be written.
    """
    try:
        return _convert(directory.found, directory.path, directory.table)
    except OSError as error:
        raise LondisteError(
            f"{directory.found}: cannot be converted: {error.strerror}",
            hint="run the command as the user of the lake, who may write in this directory and in"
            f" {directory.found.parent}",
        ) from error


def _convert(found: Path, root: Path, table: TableName) -> Version | None:
    if found != root:
        found.rename(root)
        flush(root.parent)
    numbers = sorted(path for path in root.glob(f"{_VERSIONS}/*") if _NAME.fullmatch(path.name))
    if not (root / _VERSIONS).is_dir():
        _tidy(root)
        return Store(Place(str(root)), table).newest()
    if numbers:
        old = _old(numbers[-1])
        if old["position"] is not None and not _is_newer(root, table, old["position"]["tick"]):
            _create_log(root, table, old)
    crash.point("lake.converted")
    shutil.rmtree(root / _OLD, ignore_errors=True)
    (root / _VERSIONS).rename(root / _OLD)
    flush(root)
    _tidy(root)
    return Store(Place(str(root)), table).newest()


def _old(path: Path) -> dict[str, Any]:
    try:
        given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LondisteError(
            f"{path}: damaged", detail=str(error), hint="restore it from a backup"
        ) from None
    if given.pop("format", None) != 1:
        raise StateError(
            f"{path}: unknown format",
            hint="install the newest version of this program: pip install --upgrade londiste4",
        )
    return given


def _create_log(root: Path, table: TableName, given: dict[str, Any]) -> None:
    """Creates the log of a Delta table beside, and gives it its place."""
    files = [_file(root, **file) for file in given.pop("files")]
    shutil.rmtree(root / _NEW, ignore_errors=True)
    version = read(given, number=-1, files=(), what="convert", changes=0, made="")
    Store(Place(str(root / _NEW)), table).publish(version, files)
    crash.point("lake.converting")
    log = root / "_delta_log"
    if log.exists():
        # Of an earlier release: a copy of its versions.
        shutil.rmtree(root / _OLD_LOG, ignore_errors=True)
        log.rename(root / _OLD_LOG)
    (root / _NEW / "_delta_log").rename(log)
    flush(root)


def _file(root: Path, *, path: str, part: str, rows: int, bytes: int, digest: str) -> Written:
    try:
        with (root / path).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        found = error.strerror or "unreadable"
    if found != digest:
        raise LondisteError(
            f"{root / path}: content differs from what was written",
            detail="nothing was converted",
            hint="restore the file from a backup",
        )
    return Written(path, part, rows, bytes, json.dumps({"numRecords": rows}))


def _is_newer(root: Path, table: TableName, tick: int) -> bool:
    """Whether a Delta table of this release is there already, with later changes."""
    library = require()
    if not list(root.glob("_delta_log/*.json")):
        return False
    found = library.DeltaTable(str(root)).transaction_version(Store(Place(""), table).application)
    return found is not None and found > tick


def _tidy(root: Path) -> None:
    """Removes what is of no use any more."""
    for name in (_OLD, _OLD_LOG, _NEW, "_attempts"):
        shutil.rmtree(root / name, ignore_errors=True)
