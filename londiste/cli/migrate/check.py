"""``londiste migrate check``: checks both databases before a migration."""

from __future__ import annotations

from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.migrate import common
from londiste.migrate import schema_copy
from londiste.monitor.catalog import ShownFinding, shown
from londiste.monitor.queues.rules import worst


class Checked(TypedDict):
    """The obstacles.

    schema -- what creates the structure of the new database: pg_dump, create, existing.
    """

    schema: str
    findings: list[ShownFinding]


@click.command()
@options.pass_context
@common.databases
@common.SCHEMA
@common.PG_DUMP
@common.ACCEPT_DEFINERS
@options.json_output(Checked)
def check(
    context: options.Context,
    source: str | None,
    target: str | None,
    way: str,
    pg_dump: str | None,
    accept_definers: bool,
    as_json: bool,
) -> int:
    """Check both databases and report obstacles and excluded objects.

    Changes nothing. Each finding contains its fix. The exit code is 0, 1 (warnings) or 2 (start
    refuses to run).
    """
    pair = common.the_pair(context, source, target)
    with pair.sites() as sites:
        found, made = common.examine(sites, pair, common.Asked(way, pg_dump, accept_definers))
    how = {
        schema_copy.SchemaMethod.PG_DUMP: "created by pg_dump"
        + (f" {made.dumper.version} ({made.dumper.program})" if made.dumper else "")
        + (", owners and grants one by one" if made.one_by_one else ""),
        schema_copy.SchemaMethod.CREATE: "created by londiste",
        schema_copy.SchemaMethod.EXISTING: "expected to exist",
    }[made.way]
    if as_json:
        output.as_json(Checked(schema=made.way.value, findings=shown(found)))
    else:
        output.findings(found)
        output.message(f"structure of the new database: {how}")
        output.message(f"{len(found)} findings")
    return int(worst(found))
