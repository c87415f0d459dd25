"""``londiste columns``: compares the columns of tables with the provider's."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.documents import Done, Rows, Steps
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.cli.plan_output import execute_plan, sites
from londiste.errors import BadOption
from londiste.replication.commands import columns as comparing
from londiste.replication.patterns import parsed
from londiste.settings import NodeSettings

COLUMNS = Rows("columns", comparing.ColumnDifference)


@click.command()
@options.pass_context
@click.argument("names", nargs=-1, metavar="TABLE...")
@click.option("--add", is_flag=True, help="Create the columns that are missing on this node.")
@options.flag(
    "--ignore-renames",
    "With --add: proceed even if a missing column may have another name on this node.",
)
@options.explain
@options.json_output(COLUMNS, Steps, Done)
def columns(
    context: options.Context,
    names: Sequence[str],
    add: bool,
    ignore_renames: bool,
    explain: bool,
    as_json: bool,
) -> int:
    """List columns that differ between this node's tables and its provider's; add missing ones.

    Columns that a table excludes or changes are skipped. Without --add, the exit code is 3 when
    columns differ.
    """
    if ignore_renames and not (add or explain):
        raise BadOption(
            "--ignore-renames requires --add", hint="londiste columns --add --ignore-renames"
        )
    settings = context.settings(NodeSettings)
    wanted = [parsed(name) for name in names]
    with sites(settings) as reach:
        if add or explain:
            plan = comparing.plan_add(
                reach, settings.db, settings.queue_name, wanted, ignore_renames=ignore_renames
            )
            execute_plan(plan.steps, reach, options.Execution(explain, as_json))
            for line in plan.notes:
                output.warning(line)
            return 0
        compared = comparing.differences(reach, settings.db, settings.queue_name, wanted)
    for line in (*compared.skipped, *compared.lossy):
        output.warning(line)
    output.show(
        COLUMNS,
        compared.found,
        json_wanted=as_json,
        empty="no column differs from the provider"
        if compared.compared or not compared.skipped
        else "no table was compared",
    )
    return EXIT_DIFFERENT if compared.found else 0
