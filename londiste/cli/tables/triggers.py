"""``londiste triggers``: lists triggers of replicated tables and repairs captures."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.documents import Done, Rows, Steps
from londiste.cli.plan_output import execute_plan, sites
from londiste.db.connection import session
from londiste.errors import BadOption, LockTimeout
from londiste.replication import replicated_rows
from londiste.replication.commands import triggers as firing
from londiste.replication.patterns import parsed
from londiste.settings import NodeSettings

TRIGGERS = Rows("triggers", firing.ListedTrigger)


@click.command()
@options.pass_context
@click.argument("names", nargs=-1, metavar="TABLE...")
@click.option("--restore", is_flag=True, help="Re-create lost or stale capture triggers.")
@click.option("--always", is_flag=True, help="Capture rows that replication writes, too (root).")
@options.explain
@options.json_output(TRIGGERS, Steps, Done)
def triggers(
    context: options.Context,
    names: Sequence[str],
    restore: bool,
    always: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """List the triggers of replicated tables, and whether they fire on apply.

    Shows Londiste's triggers and your own. A table without a trigger of Londiste may have been
    added with --no-triggers; --restore creates its triggers when the table is named. --always is
    for a root whose tables another queue, or a subscription of PostgreSQL, fills.
    """
    settings = context.settings(NodeSettings)
    wanted = [parsed(name) for name in names]
    if restore and always:
        raise BadOption("--restore and --always: only one of them", hint="use --restore first")
    if restore or always or explain:
        with sites(settings) as reach:
            plan_of = replicated_rows.plan if always else firing.plan
            plan = plan_of(reach, settings.db, settings.queue_name, wanted)
            for line in plan.notes:
                output.warning(line)
            execute_plan(plan.steps, reach, options.Execution(explain, as_json))
        if plan.skipped:
            raise LockTimeout(
                "other sessions have locked tables: the triggers of these were not checked",
                detail="; ".join(plan.skipped),
                hint="repeat the command when those sessions have ended their transactions",
            )
        return
    with session(settings.db, name="londiste triggers", autocommit=True) as conn:
        found = firing.collect(conn, settings.queue_name, wanted)
    output.show(
        TRIGGERS,
        found,
        json_wanted=as_json,
        empty="no replicated table has a trigger: londiste add-table TABLE",
    )
