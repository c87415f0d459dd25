"""Settings of ``londiste lake``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator

from londiste.settings import CommaList, DatabaseSettings, SparkSettings


def _a_directory(value: Path) -> Path:
    if re.match(r"[a-z0-9]+:/", str(value)):
        raise ValueError("an address: only directories of a file system can be written to")
    return value.expanduser().absolute()


#: A directory for files that Spark writes.
Directory = Annotated[Path, AfterValidator(_a_directory)]


class LakeSettings(DatabaseSettings):
    """A lake: tables of one queue in a directory."""

    sections: ClassVar[tuple[str, ...]] = ("lake",)

    queue_name: str = Field(description="The queue (required).")
    job_name: str = Field("lake", description="Name of this job; the file's name when empty.")
    consumer_name: str = Field(
        "",
        description="Begin of the names of the consumers, one for each table; job_name if empty.",
    )
    lake_path: Directory = Field(
        description="Directory of the lake, which all executors see under this name (required)."
    )
    lake_tables: CommaList = Field(description="The tables: schema.table, … (required).")
    lake_mode: Literal["append", "state", "history"] = Field(
        "state",
        description="append: every change; state: the rows as they are; history: as they were.",
    )
    lake_format: Literal["parquet", "delta"] = Field(
        "parquet", description="delta: other programs find the files by a log of Delta Lake, too."
    )
    lake_start: Literal["snapshot", "earliest", "latest"] = Field(
        "snapshot",
        description="Where a new table begins: with its rows, or (append only) with changes.",
    )
    lake_buckets: int = Field(
        16,
        ge=1,
        le=4096,
        description="Parts of a new table by its key; those with changes are written anew.",
    )
    lake_period: float = Field(
        60.0, gt=0, description="Seconds between two looks for changes, when none are left."
    )
    lake_epoch_events: int = Field(
        1_000_000, ge=1, description="Events of the queue taken at a time, one tick at least."
    )
    lake_retention: float = Field(
        86_400.0,
        ge=0,
        description="Seconds for which a version that is not the newest can still be read.",
    )
    lake_compact_files: int = Field(
        32,
        ge=0,
        description="So many small files of a part are joined to a larger one; 0: none are.",
    )
    lake_compact_size: int = Field(
        64 << 20, ge=1, description="Bytes from which on a file is not small any more."
    )
    lake_tasks: int = Field(4, ge=1, description="Tasks that read a table or its events, at most.")
    unsupported_values: Literal["fail", "string", "null"] = Field(
        "fail", description="Values that the columns of Spark cannot hold: stop, text, or NULL."
    )
    string_columns: CommaList = Field(
        (), description="Columns that come as text: schema.table.column, …"
    )
    skip_columns: CommaList = Field(
        (), description="Columns that the lake shall not have: schema.table.column, …"
    )
    unknown_columns: Literal["fail", "ignore"] = Field(
        "fail",
        description="Columns of events that the table does not have any more: stop, or go on"
        " without their values.",
    )
    passed_scripts: tuple[int, ...] = Field(
        (), description="Events of scripts that have changed no rows of these tables."
    )
    max_retry_delay: float = Field(
        20.0,
        gt=0,
        description="Maximum delay in seconds before a retry after an error; delays start at 0.1.",
    )
    spark: SparkSettings = Field(
        default_factory=dict,
        description="Settings of Spark: spark.master (default: local[*]) and any spark.* key.",
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
            raise ValueError("no table is named")
        return value

    @field_validator("queue_name")
    @classmethod
    def _some_name(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the queue needs a name")
        return value

    @property
    def consumer(self) -> str:
        """What the names of the consumers begin with."""
        return self.consumer_name or self.job_name
