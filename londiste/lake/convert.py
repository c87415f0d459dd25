"""Conversion of a table's directory of an earlier release: its files become a Delta table.

The list of versions (``_versions``) is removed last, and until then it is what counts: a conversion
that was killed starts again.  The files stay where they are; only the newest version is kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from londiste.daemon import crash
from londiste.daemon.files import flush
from londiste.db.names import TableName
from londiste.engine.spark.lake.file_writer import Place, Written, require
from londiste.errors import LondisteError, StateError
from londiste.lake.directory_names import SHORTENED, directory_name, table_of
from londiste.lake.store import Store
from londiste.lake.versions import Version, read

_NAME = re.compile(r"\d{20}\.json")
#: Directories of earlier releases, and the one in which the Delta table is created.
_VERSIONS, _OLD, _OLD_LOG, _NEW = "_versions", "_versions.old", "_delta_log.old", "_converted"


def convert(directory: Path) -> Version | None:
    """Converts the directory of a table; None if there is nothing to convert.

    Raises LondisteError when files are damaged.
    """
    require()
    given = directory.expanduser().absolute()
    table = TableName.parse(unquote(given.name)) if "%" in given.name else table_of(given.name)
    root = given if SHORTENED in given.name else given.with_name(directory_name(table))
    if given != root and given.is_dir():
        given.rename(root)
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
