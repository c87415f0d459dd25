"""Lake table as a Spark DataFrame."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from londiste.db.names import TableName
from londiste.errors import StateError
from londiste.lake.versions import Store, Version


def schema(version: Version) -> Any:
    """The columns of the files of a version."""
    from londiste.engine.spark.lake import dataframes, dispatch, merge_changes

    more = {
        "append": dataframes.CHANGE,
        "state": merge_changes.STATE,
        "history": merge_changes.HISTORY,
    }
    found = {column.name: column.column for column in version.columns}
    if version.names:
        found = {here: replace(found[there], name=here) for there, here in version.names}
    return dataframes.columns(list(found.values()), more.get(version.mode, dispatch.MORE))


def frame(spark: Any, directory: Path, tick: int | None) -> Any:
    """See ``londiste.spark.lake``."""
    from londiste.engine.spark.lake import dataframes

    store = Store(directory, TableName.parse(unquote(directory.name)))
    version = store.newest() if tick is None else store.at(tick)
    if version is None or version.position is None:
        raise StateError(
            f"{directory}: not a directory of a lake table, or without rows",
            hint="list the tables: londiste lake status; a lake has a directory for each",
        )
    if version.format != "parquet":
        raise StateError(
            f"{directory}: its files are {version.format}",
            hint="read the files that londiste dispatch --files lists:"
            f" spark.read.{version.format}(…)",
        )
    return dataframes.files(spark, store.paths(version.files), schema(version))
