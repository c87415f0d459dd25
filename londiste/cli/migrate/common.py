"""Databases, options and findings of the commands of a migration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from londiste.cli import options, output
from londiste.db.structure.tables import NAMED_NOT_NULL
from londiste.migrate import database_settings, rights, schema_copy, setup
from londiste.migrate.checks import (
    event_trigger_findings,
    findings,
    not_valid_findings,
    owner_findings,
    table_findings,
)
from londiste.migrate.databases import MigrateSettings, Pair, pair
from londiste.monitor.doctor import collect
from londiste.monitor.doctor.examine import worst_first
from londiste.monitor.queues.model import Finding
from londiste.orchestration.connections import Connections, without_event_triggers

F = TypeVar("F", bound=Callable[..., Any])

SCHEMA = click.option(
    "--schema",
    "way",
    type=click.Choice(["auto", "pg_dump", "create", "existing"]),
    default="auto",
    show_default=True,
    help="Tool that creates the structure of the new database (auto: pg_dump if available).",
)

PG_DUMP = click.option(
    "--pg-dump",
    "pg_dump",
    metavar="PATH",
    help="Path of pg_dump (default: the one of the old server's release).",
)

ACCEPT_DEFINERS = click.option(
    "--accept-definers",
    is_flag=True,
    help="Accept that SECURITY DEFINER functions run as you if their owners cannot be set.",
)

TIMEOUT = options.seconds("--timeout", "Maximum seconds for each wait before writes are blocked.")
BLOCK = options.seconds(
    "--block",
    "Maximum seconds without writes; the switch is rolled back after that.",
    default=10.0,
)


@dataclass(frozen=True)
class Asked:
    """How the structure is to be made: ``--schema``, ``--pg-dump``, ``--accept-definers``."""

    way: str
    pg_dump: str | None = None
    accept_definers: bool = False


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
    """Verbosity of the daemons of a command: warnings, unless -v is given."""
    return ["-v"] * context.verbose or ["-q"]


def examine(
    sites: Connections, pair: Pair, asked: Asked
) -> tuple[list[Finding], schema_copy.MakeStructure]:
    """Obstacles of the migration, and how its structure would be created."""
    setup.require_two(sites, pair)
    begun = setup.node(sites, pair.new, pair.queue) is not None
    conn = sites.at(pair.new.dsn)
    old = collect.examine(sites.at(pair.old.dsn), pair.old.dsn)
    new = collect.examine(conn, pair.new.dsn)
    chosen, dumper = schema_copy.choose(asked.way, old, new, begun=begun, program=asked.pg_dump)
    held = [] if begun else schema_copy.rows_in_the_way(conn, old)
    owners = rights.state(sites.at(pair.old.dsn)), rights.state(conn)
    found = findings(old, new, chosen, held=held, begun=begun)
    if chosen is not schema_copy.SchemaMethod.EXISTING:
        found = worst_first([*found, *owner_findings(*owners, new, asked.accept_definers)])
    creates = chosen is schema_copy.SchemaMethod.CREATE
    if creates:
        foreseen = schema_copy.foreseen(sites.at(pair.old.dsn), conn)
        found = worst_first([*found, *table_findings(*foreseen)])
    triggers = collect.event_triggers(sites.at(pair.old.dsn))
    # pg_dump creates them in the new database, too.
    there = triggers if chosen is schema_copy.SchemaMethod.PG_DUMP else {}
    for side, ones in ((pair.old, triggers), (pair.new, there | collect.event_triggers(conn))):
        off = without_event_triggers(sites.at(side.dsn))
        found = worst_first([*found, *event_trigger_findings(side.name, ones, off)])
    if not begun:
        not_null = not creates or new.version >= NAMED_NOT_NULL
        rest = [
            *not_valid_findings(collect.not_valid(sites.at(pair.old.dsn), not_null=not_null)),
            *database_settings.findings(
                database_settings.read(sites.at(pair.old.dsn)), database_settings.read(conn)
            ),
        ]
        found = worst_first([*found, *rest])
    one_by_one = bool(rights.named(owners[0]) - owners[1].roles.keys()) or not new.superuser
    return found, schema_copy.MakeStructure(
        pair, chosen, dumper, one_by_one, asked.accept_definers, output.warning
    )
