"""``londiste change-handler``: sets the handler or the filter of tables."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import changing_sites, execute_plan
from londiste.errors import BadOption
from londiste.handlers import registry, table_rules
from londiste.replication.commands import change_handler as changing
from londiste.settings import NodeSettings


@click.command("change-handler")
@options.pass_context
@click.argument("names", nargs=-1, metavar="TABLE...")
@click.option(
    "--handler", default=None, metavar="NAME", help="The new handler (none: the default handler)."
)
@click.option(
    "--handler-arg",
    "arguments",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Option of the handler; repeatable.",
)
@click.option(
    "--where",
    default=None,
    metavar="CONDITION",
    help="Replicate only rows that match this SQL condition ('' = all).",
)
@click.option(
    "--columns", default=None, metavar="A,B", help="Replicate only these columns ('' = all)."
)
@click.option(
    "--skip-columns", default=None, metavar="A,B", help="Exclude these columns ('' = none)."
)
@click.option(
    "--continue",
    "resume",
    is_flag=True,
    help="Change nothing; only finish what an interrupted change has left to do.",
)
@options.changes
def change_handler(
    context: options.Context,
    names: Sequence[str],
    handler: str | None,
    arguments: Sequence[str],
    where: str | None,
    columns: str | None,
    skip_columns: str | None,
    resume: bool,
    how: options.Execution,
) -> None:
    """Set the handler or the filter of tables on this node.

    The trigger is re-created where necessary. If the handler or filter needs other rows than
    before, the tables are copied again; below a branch, on every node. With a filter and without
    --handler, a table keeps its handler. TABLE may contain * and ?.

    If the command is interrupted, londiste status and londiste check name the tables that the nodes
    below have yet to copy again. The same command, or --continue, finishes it.
    """
    settings = context.settings(NodeSettings)
    filters = table_rules.changes(where, columns, skip_columns)
    stored = None
    if resume and (handler is not None or arguments or filters):
        raise BadOption(
            "--continue excludes a new handler or filter",
            hint="londiste change-handler TABLE --continue",
        )
    if not resume and (handler is not None or arguments or not filters):
        stored = registry.parse(handler or "", arguments)
    with changing_sites(settings) as reach:
        plan = changing.plan(reach, settings.db, settings.queue_name, names, stored, filters)
        for name in plan.already:
            output.message(f"{name}: already set, nothing to do")
        for line in plan.notes:
            output.warning(line)
        execute_plan(plan.steps, reach, how)
