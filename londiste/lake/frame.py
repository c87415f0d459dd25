"""Lake table as a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from londiste.engine.spark.lake.file_writer import Place
from londiste.errors import StateError
from londiste.lake.directory_names import table_of
from londiste.lake.store import Store
from londiste.lake.versions import schema


def frame(spark: Any, directory: str, tick: int | None, storage: Mapping[str, str]) -> Any:
    """See ``londiste.spark.lake``."""
    from londiste.engine.spark.lake import dataframes

    place = Place(directory.rstrip("/"), dict(storage))
    store = Store(place, table_of(place.uri.rpartition("/")[2]))
    version = store.newest() if tick is None else store.at(tick)
    if version is None:
        raise StateError(
            f"{directory}: not a directory of a lake table",
            hint="list the tables: londiste lake status; a lake has a directory for each",
        )
    if version.format != "parquet":
        raise StateError(
            f"{directory}: its files are {version.format}",
            hint="read the files that londiste dispatch --files lists:"
            f" spark.read.{version.format}(…)",
        )
    paths = [file.path for file in version.files]
    return dataframes.files(spark, place, paths, schema(version))
