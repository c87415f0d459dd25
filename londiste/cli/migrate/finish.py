"""``londiste migrate finish``: removes the replication of a migration."""

from __future__ import annotations

import click

from londiste.cascade.commands import install_sql
from londiste.cli import options, output
from londiste.cli.migrate import common
from londiste.cli.plan_output import reported
from londiste.daemon.waiting import wait_until
from londiste.db.connection import describe_dsn
from londiste.migrate import daemons
from londiste.migrate import finish as ending
from londiste.migrate.databases import Pair
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.daemons import still_running, ticker_runs
from londiste.orchestration.steps import Step

#: Seconds for the ticker that ends with them.
_TICKER_SECONDS = 5.0


@click.command()
@options.pass_context
@common.databases
@click.option(
    "--abandon", is_flag=True, help="Abandon the migration and keep using the old database."
)
@click.option("--keep-sql", is_flag=True, help="Keep the schemas of the queue.")
@options.changes
def finish(
    context: options.Context,
    source: str | None,
    target: str | None,
    abandon: bool,
    keep_sql: bool,
    how: options.Execution,
) -> None:
    """Remove the replication of the migration from both databases; tables and rows stay.

    Drops nodes, queues and triggers, and the schemas that the migration has created. From then on
    the old database accepts writes, which are not replicated: close it first.
    """
    pair = common.the_pair(context, source, target)
    with pair.sites() as sites:
        if how.explain:
            steps: list[Step] = [
                *ending.nodes_left(sites, pair, abandon=abandon),
                *([] if keep_sql else ending.uninstalls(pair)),
            ]
            output.steps(plan.remaining(steps, sites), json_wanted=how.as_json)
            return
        with reported(how.as_json) as report:
            count = ending.finish(
                sites,
                pair,
                abandon=abandon,
                keep_sql=keep_sql,
                quiet=lambda: _wait_for_quiet(sites, pair),
                report=report,
            )
        for side in (pair.old, pair.new):
            if install_sql.installed(sites.at(side.dsn)):
                output.message(
                    f"{side.name}: kept the schemas of the queue, which existed before or are"
                    " used by others; londiste uninstall removes them"
                )
    if not count:
        output.message("no migration between these databases: it is finished, or has not begun")
        return
    gone = pair.new if abandon else pair.old
    output.message("migration finished; both databases are independent")
    what = "drop it" if abandon else "close it"
    output.warning(
        f"{describe_dsn(gone.dsn)} accepts writes again: {what}, for example by"
        + (
            " drop database …"
            if abandon
            else " alter database … set default_transaction_read_only = on"
        )
    )


def _wait_for_quiet(sites: Connections, pair: Pair) -> None:
    """Waits until the daemons of the nodes have ended; warns about those that have not."""
    conn = {side.name: sites.at(side.dsn) for side in (pair.old, pair.new)}
    if left := still_running(lambda: daemons.ask(sites, pair)):
        output.warning(f"still running: {', '.join(sorted(left))}; stop them")
    # The ticker of the migration ends with them, and would miss its SQL; another one stays.
    wait_until(lambda: not any(map(ticker_runs, conn.values())), _TICKER_SECONDS)
