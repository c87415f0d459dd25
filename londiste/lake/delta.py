"""Delta Lake log of a lake table, for programs that read Delta tables.

The versions of ``versions.py`` stay what is true: one is published first, and the log follows.
Should the process die between the two, the next one writes what is missing.  A commit of the log
says which version it stands for, so it is written once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from londiste.errors import StateError, Superseded
from londiste.lake import frame
from londiste.lake.versions import File, Store, Version, link_once

_LOG = "_delta_log"
_ENGINE = "londiste"


def catch_up(store: Store, version: Version) -> None:
    """Writes the commit that leads to a version, unless it is there.  Raises Superseded."""
    log = store.directory / _LOG
    known = _numbers(log)
    last = _actions(log, known[-1]) if known else []
    told = _version(store, last) if known else None
    if told == version.number or version.position is None:
        return
    before = _before(store, log, known, told)
    meta = _metadata(version)
    # Only to other files: nobody who follows the changes of the table has to look at them.
    same = version.what == "compact" and told == version.number - 1
    actions: list[dict[str, Any]] = [_info(version, "OPTIMIZE" if same else "WRITE")]
    if not known:
        actions.append({"protocol": _protocol(meta["schemaString"])})
    old = _last_metadata(log, known)
    if old is None or old["schemaString"] != meta["schemaString"]:
        actions.append({"metaData": {**meta, "id": old["id"] if old else str(uuid.uuid4())}})
    now = {file.path: file for file in version.files}
    moment = int(version.made_at.timestamp() * 1000)
    actions += [
        {"remove": {"path": quote(path), "deletionTimestamp": moment, "dataChange": not same}}
        for path in before
        if path not in now
    ]
    actions += [
        {"add": {**_add(file, version, moment), "dataChange": not same}}
        for path, file in now.items()
        if path not in before
    ]
    log.mkdir(exist_ok=True)
    number = known[-1] + 1 if known else 0
    text = "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions)
    try:
        link_once(log / f"{number:020d}.json", text)
    except FileExistsError:
        raise Superseded(
            f"table {store.table}: another process wrote commit {number} of its Delta log",
            hint="run one process per lake",
        ) from None


def _before(store: Store, log: Path, known: list[int], told: int | None) -> set[str]:
    """The files that the log names."""
    if told is not None:
        found = store.numbered(told)
        if found is not None:
            return {file.path for file in found.files}
    files: dict[str, None] = {}
    for number in known:
        for action in _actions(log, number):
            if "add" in action:
                files[unquote(action["add"]["path"])] = None
            elif "remove" in action:
                files.pop(unquote(action["remove"]["path"]), None)
    return set(files)


def _version(store: Store, actions: list[dict[str, Any]]) -> int:
    for action in actions:
        info = action.get("commitInfo", {})
        if info.get("engineInfo") == _ENGINE:
            return int(info["operationParameters"]["version"])
    raise StateError(
        f"table {store.table}: another program wrote to its Delta log",
        detail=str(store.directory / _LOG),
        hint="other programs must only read it; remove _delta_log, and it is created again",
    )


def _info(version: Version, operation: str) -> dict[str, Any]:
    return {
        "commitInfo": {
            "timestamp": int(version.made_at.timestamp() * 1000),
            "operation": operation,
            "operationParameters": {"version": str(version.number), "tick": str(version.tick)},
            "engineInfo": _ENGINE,
        }
    }


def _metadata(version: Version) -> dict[str, Any]:
    from londiste.engine.spark.lake import dataframes

    schema = frame.schema(version)
    days = version.mode == "append"
    if days:
        schema = dataframes.with_day(schema)
    return {
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema.json(),
        "partitionColumns": ["_day"] if days else [],
        "configuration": {},
        "name": version.table,
    }


def _protocol(schema: str) -> dict[str, Any]:
    if '"timestamp_ntz"' not in schema:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    features = ["timestampNtz"]
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }


def _add(file: File, version: Version, moment: int) -> dict[str, Any]:
    values = {"_day": file.part.partition("=")[2]} if version.mode == "append" else {}
    return {
        "path": quote(file.path),
        "partitionValues": values,
        "size": file.bytes,
        "modificationTime": moment,
        "stats": json.dumps({"numRecords": file.rows}),
    }


def _numbers(log: Path) -> list[int]:
    names = [path.stem for path in log.glob("*.json")]
    return sorted(int(name) for name in names if name.isdigit())


def _actions(log: Path, number: int) -> list[dict[str, Any]]:
    text = (log / f"{number:020d}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line]


def _last_metadata(log: Path, known: list[int]) -> dict[str, Any] | None:
    for action in _backwards(log, known):
        if "metaData" in action:
            found: dict[str, Any] = action["metaData"]
            return found
    return None


def _backwards(log: Path, known: list[int]) -> Iterator[dict[str, Any]]:
    for number in reversed(known):
        yield from _actions(log, number)
