"""Settings of ``londiste lake``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from londiste.settings import CommaList, DatabaseSettings, SparkSettings
from londiste.settings.fields import ReadyFields, in_home, spark_texts

#: Object stores of the package deltalake.
_STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "adl", "azure")


_UNKNOWN = re.compile(r"[][^|?#\\\x00-\x1f]|%[0-9A-Fa-f]{2}")


def _a_location(value: str) -> str:
    scheme, colon, rest = value.partition("://")
    if colon and scheme in _STORES and rest.strip("/"):
        return value.rstrip("/")
    if re.match(r"[a-z0-9]+:/", value.removeprefix("file://")):
        raise ValueError("not a directory, and not an address s3://, abfs:// or gs://")
    found = str(in_home(Path(value.removeprefix("file://"))).absolute())
    if _UNKNOWN.search(found):
        raise ValueError("the package deltalake opens no path with [ ] ^ | ? # \\ or %41")
    return found


#: A directory, or an address in an object store, for files that tasks write.
Location = Annotated[str, BeforeValidator(str), AfterValidator(_a_location)]
#: Options of an object store, as the package deltalake knows them.
Storage = Annotated[dict[str, str], BeforeValidator(spark_texts)]


class LakeSettings(ReadyFields, DatabaseSettings):
    """A lake: tables of one queue in a directory."""

    sections: ClassVar[tuple[str, ...]] = ("lake",)
    always: ClassVar[Mapping[str, str]] = {"engine": "spark"}

    queue_name: str = Field(description="Queue (required).")
    job_name: str = Field(
        "lake", description="Name of this job (default: name of the settings file)."
    )
    consumer_name: str = Field(
        "",
        description="Prefix of the consumers' names, one consumer per table (default: job_name).",
    )
    lake_path: Location = Field(
        description="Directory of the lake, under the same path on all executors, or address in an"
        " object store: s3://, abfs:// or gs:// (required)."
    )
    lake_storage: Storage = Field(
        default_factory=dict,
        description="Options of the object store, as the package deltalake knows them.",
    )
    lake_tables: CommaList = Field(description="Tables: schema.table, … (required).")
    lake_mode: Literal["append", "state", "history"] = Field(
        "state",
        description="Mode: append (all changes), state (current rows) or history (all row"
        " versions).",
    )
    lake_change_feed: bool = Field(
        False,
        description="Enable Delta's change data feed of new tables; modes state and history.",
    )
    lake_start: Literal["snapshot", "earliest", "latest"] = Field(
        "snapshot",
        description="Start of a new table: snapshot (its rows); append only: earliest or latest.",
    )
    lake_buckets: int = Field(
        16,
        ge=1,
        le=4096,
        description="Parts of a new table by its key; parts with changes are rewritten.",
    )
    lake_period: float = Field(60.0, gt=0, description="Poll interval in seconds.")
    lake_epoch_events: int = Field(
        1_000_000, ge=1, description="Maximum events per epoch (at least one tick)."
    )
    lake_retention: float = Field(
        86_400.0,
        ge=0,
        description="Seconds for which old versions of a table can be read.",
    )
    lake_compact_files: int = Field(
        32,
        ge=0,
        description="Number of small files of a part that are joined into a larger one (0: never).",
    )
    lake_compact_size: int = Field(
        64 << 20, ge=1, description="Size in bytes below which a file is small."
    )
    lake_tasks: int = Field(
        4, ge=1, description="Maximum parallel tasks that read a table or its events."
    )
    unsupported_values: Literal["fail", "string", "null"] = Field(
        "fail",
        description="Action for values that Spark's types cannot hold: fail, string or null.",
    )
    string_columns: CommaList = Field(
        (), description="Columns stored as text: schema.table.column, …"
    )
    skip_columns: CommaList = Field((), description="Excluded columns: schema.table.column, …")
    unknown_columns: Literal["fail", "ignore"] = Field(
        "fail",
        description="Action for events with columns that the table no longer has: fail or ignore.",
    )
    passed_scripts: tuple[int, ...] = Field(
        (), description="Ids of script events that changed no rows of these tables."
    )
    max_retry_delay: float = Field(
        20.0,
        gt=0,
        description="Maximum delay in seconds before a retry after an error; delays start at 0.1.",
    )
    spark: SparkSettings = Field(
        default_factory=dict,
        description="Spark settings: spark.master (default: local[*]) and any spark.* key.",
    )

    @field_validator("passed_scripts", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(word for word in re.split(r"[\s,]+", value) if word)
        return (value,) if isinstance(value, int) else value

    @field_validator("lake_tables")
    @classmethod
    def _some(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("is empty")
        return value

    @model_validator(mode="after")
    def _no_feed_of_changes(self) -> Self:
        if self.lake_change_feed and self.lake_mode == "append":
            raise ValueError("lake_change_feed: a table of mode append is a change feed itself")
        return self

    @field_validator("queue_name")
    @classmethod
    def _some_name(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("is required")
        return value

    @property
    def consumer(self) -> str:
        """What the names of the consumers begin with."""
        return self.consumer_name or self.job_name
