"""The settings of ``londiste dispatch``: those of a consumer, and the options of the handler."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, create_model, field_validator, model_validator

from londiste.handlers import registry
from londiste.handlers.dispatch import Dispatch
from londiste.lake.settings import Location, Storage
from londiste.settings import CommaList
from londiste.tools.dispatch import skips
from londiste.tools.dispatch.rules import text
from londiste.tools.parallel_batches import JobSettings

#: The options of the handler, by name; ``event_types`` is also a setting of consumers.
OPTIONS = {option.name: option for option in registry.options(Dispatch)}
_SHARED = "event_types"


class DispatchBase(JobSettings):
    """The table dispatcher."""

    sections: ClassVar[tuple[str, ...]] = ("dispatch",)

    event_types: CommaList = Field(
        (), description="Changes to dispatch, of I, U and D (default: all)."
    )
    handler: str = Field(
        "dispatch",
        description="Handler: dispatch, or one of its presets (daily_event, bulk_direct, …).",
    )
    target_path: Location | None = Field(
        None,
        description="Directory for files instead of tables, which all Spark executors must see, or"
        " address in an object store: s3://, abfs:// or gs://.",
    )
    target_storage: Storage = Field(
        default_factory=dict,
        description="With target_path: options of the object store, as the package deltalake knows"
        " them.",
    )
    file_format: Literal["parquet", "orc", "json", "csv"] = Field(
        "parquet", description="With target_path: format of the files."
    )
    files_retention: float = Field(
        86_400.0,
        ge=0,
        description="With target_path: seconds for which replaced files stay readable.",
    )
    string_columns: CommaList = Field(
        (),
        description="With target_path: columns to write as text: schema.table.column, …",
    )
    with_copy: bool = Field(
        False,
        description="With --register: write the existing rows of the tables first. With"
        " target_path, also at the first start.",
    )
    skip_events: CommaList = Field(
        (),
        description="Events to skip, by id: 4711; or one row of an event with several: 4711:50."
        " Not with target_path.",
    )
    tables: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Handler and options of one table, in its own section [table schema.name].",
    )

    @model_validator(mode="before")
    @classmethod
    def _options(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {
            key: text(value) if key in OPTIONS and key != _SHARED and value is not None else value
            for key, value in values.items()
        }

    @field_validator("skip_events")
    @classmethod
    def _some_events(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        skips.parse(value)
        return value

    @field_validator("handler")
    @classmethod
    def _some_handler(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the handler needs a name")
        return value

    @property
    def options(self) -> dict[str, str]:
        """The options of the handler that are given for all tables."""
        found = {name: getattr(self, name) for name in OPTIONS if name != _SHARED}
        if self.event_types:
            found[_SHARED] = text(self.event_types)
        return {name: str(value) for name, value in found.items() if value is not None}


_fields: dict[str, Any] = {
    name: (str | None, Field(None, description=option.help))
    for name, option in OPTIONS.items()
    if name != _SHARED
}
#: With a field for each option of the handler.
DispatchSettings: type[DispatchBase] = create_model(
    "DispatchSettings",
    __base__=DispatchBase,
    __module__=__name__,
    __doc__=DispatchBase.__doc__,
    **_fields,
)
