"""Documents of ``--json``: each is an object with a version.

A command names the types of its documents in ``options.json_output``: dataclasses of its results,
or TypedDicts beside them. From these types docs/reference/json.md is generated, and the tests
compare with them what is printed.
"""

from __future__ import annotations

import codecs
import dataclasses
import json
import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Generic, NotRequired, Protocol, TypedDict, TypeVar

import click

from londiste.wording import escaped_json

#: Of the form of the documents. New keys do not change it.
VERSION = 1

R = TypeVar("R")


class DataclassInstance(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass(frozen=True)
class Rows(Generic[R]):
    """A document that contains one list, which is also printed as a table.

    key -- of the list.  row -- type of its items: a dataclass, a NamedTuple or a TypedDict.
    """

    key: str
    row: type[R]

    @property
    def columns(self) -> list[str]:
        """The keys of an item."""
        return list(self.row.__annotations__)


class Steps(TypedDict):
    """The steps that the command would execute.

    steps -- a text for each; its SQL follows on further lines.
    """

    steps: list[str]


class Done(TypedDict):
    """The steps that the command has executed.

    done -- a text for each.
    """

    done: list[str]


class Failure(TypedDict):
    """An error.

    error, detail, hint -- as on stderr.
    exit_code -- of the process.
    done -- the steps that were executed before the error.
    lost -- as `resurrect` prints it.
    equal, tick, tables, failed -- as `compare` prints them: the other tables were compared.
    findings -- as `migrate verify` prints them.
    """

    error: str
    detail: str | None
    hint: str | None
    exit_code: int
    done: NotRequired[list[str]]
    lost: NotRequired[dict[str, Any] | None]
    equal: NotRequired[bool]
    tick: NotRequired[int]
    tables: NotRequired[list[dict[str, Any]]]
    failed: NotRequired[list[dict[str, Any]]]
    findings: NotRequired[list[dict[str, Any]]]


def as_json(document: Mapping[str, Any] | DataclassInstance) -> None:
    """Prints one JSON document to stdout, in one line: an object, with the version of its form."""
    # What the terminal's encoding does not have would break the document.
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    click.echo(dumped(document, ascii_only=codecs.lookup(encoding).name != "utf-8"))


def dumped(document: Mapping[str, Any] | DataclassInstance, *, ascii_only: bool) -> str:
    """The text of a document."""
    return escaped_json(
        json.dumps({"version": VERSION, **plain(document)}, ensure_ascii=ascii_only)
    )


def plain(value: Any) -> Any:
    """A value in the types of JSON: durations in seconds, times in UTC."""
    if isinstance(value, bool | None):
        return value
    if isinstance(value, Enum):
        return getattr(value, "word", value.value)
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        # It needs the driver, which --help does not load.
        from londiste.db.names import TableName

        return str(value) if isinstance(value, TableName) else plain(value._asdict())
    if isinstance(value, Set):
        return sorted(map(plain, value))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    # Paths, UUIDs.
    return str(value)
