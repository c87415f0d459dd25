"""``londiste change-handler``: another handler, or another filter, for tables."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan, sites
from londiste.handlers import registry, table_rules
from londiste.replication.commands import change_handler as changing
from londiste.settings import NodeSettings


@click.command("change-handler")
@options.pass_context
@click.argument("names", nargs=-1, metavar="TABLE...")
@click.option("--handler", default=None, metavar="NAME", help="The new one; none: the default.")
@click.option(
    "--handler-arg", "arguments", multiple=True, metavar="OPTION=VALUE", help="An option of it."
)
@click.option("--where", default=None, metavar="CONDITION", help="Another row filter; '' for none.")
@click.option("--columns", default=None, metavar="A,B", help="Keep these only; '' for all.")
@click.option("--skip-columns", default=None, metavar="A,B", help="Leave these out; '' for none.")
@options.explain
@options.json_output
def change_handler(
    context: options.Context,
    names: Sequence[str],
    handler: str | None,
    arguments: Sequence[str],
    where: str | None,
    columns: str | None,
    skip_columns: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Give tables of this node another handler, or another filter.

    Their trigger is made anew where it has to be, and they are copied again when other rows are
    wanted than before; below a branch, on every node. With a filter and without --handler a table
    keeps its handler. TABLE may hold * and ?.
    """
    settings = context.settings(NodeSettings)
    filters = table_rules.changes(where, columns, skip_columns)
    stored = None
    if handler is not None or arguments or not filters:
        stored = registry.parse(handler or "", arguments)
    with sites(settings) as reach:
        plan = changing.plan(reach, settings.db, settings.queue_name, names, stored, filters)
        for name in plan.already:
            output.message(f"{name}: already processed, nothing would change")
        execute_plan(plan.steps, reach, explain=explain, json_wanted=as_json)
