"""Options of the commands of ``londiste lake``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from londiste.cli import options
from londiste.lake.settings import LakeSettings

F = TypeVar("F", bound=Callable[..., Any])

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
