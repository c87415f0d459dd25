"""A version in the terms of Delta: settings, columns and files of its table."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from londiste.engine.spark.lake.file_writer import require
from londiste.lake import versions
from londiste.lake.versions import File, Version


def configuration(feed: bool) -> dict[str, str]:
    return {
        "delta.enableChangeDataFeed": "true" if feed else "false",
        "delta.checkpointInterval": "10",
    }


def schema(version: Version) -> Any:
    """The columns of a Delta table, the one of its parts last."""
    found = json.loads(versions.schema(version).json())
    kind = "date" if version.column == "_day" else "string"
    found["fields"].append({"name": version.column, "type": kind, "nullable": True, "metadata": {}})
    return require().Schema.from_json(json.dumps(found))


def files(table: Any, column: str) -> tuple[File, ...]:
    import pyarrow

    found = pyarrow.table(table.get_add_actions(flatten=True))
    if not found.num_rows:
        return ()
    prefix = "day=" if column == "_day" else ""
    names = ("path", f"partition.{column}", "num_records", "size_bytes")
    lists = [found.column(name).to_pylist() for name in names]
    return tuple(
        File(unquote(path), f"{prefix}{part}", rows or 0, size)
        for path, part, rows, size in zip(*lists, strict=True)
    )
