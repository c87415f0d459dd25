"""What all commands of a move share: its two databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from londiste.cli import options
from londiste.migrate.databases import MigrateSettings, Pair, pair

F = TypeVar("F", bound=Callable[..., Any])

SCHEMA = click.option(
    "--schema",
    "way",
    type=click.Choice(["auto", "pg_dump", "create", "existing"]),
    default="auto",
    show_default=True,
    help="Who makes the structure of the new database; auto: pg_dump if there is one.",
)

PG_DUMP = click.option(
    "--pg-dump",
    "pg_dump",
    metavar="PATH",
    help="Make the structure with this pg_dump (default: one of the old server's release).",
)


@dataclass(frozen=True)
class Asked:
    """How the structure is to be made: ``--schema`` and ``--pg-dump``."""

    way: str
    pg_dump: str | None = None


def databases(function: F) -> F:
    """``--from`` and ``--to``."""
    for flag, name, text in (
        ("--to", "target", "Connection string of the new database."),
        ("--from", "source", "Connection string of the old database."),
    ):
        function = click.option(flag, name, metavar="DSN", help=text)(function)
    return function


def the_pair(context: options.Context, source: str | None, target: str | None) -> Pair:
    """The two databases, from options, environment or file."""
    return pair(context.settings(MigrateSettings, from_db=source, to_db=target))


def verbose(context: options.Context) -> list[str]:
    """How much the daemons of a command say: warnings, unless more is asked for."""
    return ["-v"] * context.verbose or ["-q"]
