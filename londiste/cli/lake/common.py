"""Options of the commands of ``londiste lake``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import click

from londiste.cli import options
from londiste.db.names import TableName
from londiste.lake.settings import LakeSettings
from londiste.lake.table import LakeTable
from londiste.lake.worker import Failures

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_FIELDS = LakeSettings.model_fields
_GIVEN = (
    ("--db", "db", "DSN"),
    ("--queue", "queue_name", "NAME"),
    ("--path", "lake_path", "DIRECTORY"),
    ("--tables", "lake_tables", "TABLE,..."),
    ("--mode", "lake_mode", "append|state|history"),
)


def lake_options(function: F) -> F:
    """The options of a lake; each overrides a setting."""
    for option, key, metavar in reversed(_GIVEN):
        function = click.option(option, key, metavar=metavar, help=_FIELDS[key].description)(
            function
        )
    return function


def settings_of(ctx: options.Context, given: dict[str, Any]) -> LakeSettings:
    """The settings; given -- what ``lake_options`` have brought."""
    return ctx.settings(LakeSettings, **given)


def of_each(
    settings: LakeSettings, tables: Iterable[TableName], work: Callable[[LakeTable], T]
) -> Iterator[tuple[TableName, T]]:
    """The result of each table; one that fails does not keep the others.

    Raises the last error after the last table.
    """
    failures = Failures()
    for name in tables:
        try:
            with closing(LakeTable(settings, name)) as table:
                found = work(table)
        except Exception as error:
            failures.add(error)
        else:
            yield name, found
    failures.end()
