"""``londiste migrate finish``."""

from __future__ import annotations

import time

import click

from londiste.cli import options, output
from londiste.cli.migrate import common
from londiste.db.connection import describe_dsn
from londiste.migrate import daemons, setup
from londiste.migrate import finish as ending
from londiste.migrate.databases import Pair
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step

#: Seconds in which daemons notice that there is nothing left to do.
_QUIET_SECONDS = 30.0


@click.command()
@options.pass_context
@common.databases
@click.option("--abandon", is_flag=True, help="Give the move up: the old database goes on alone.")
@click.option("--keep-sql", is_flag=True, help="Leave the schemas of the queue where they are.")
@options.explain
@options.json_output
def finish(
    context: options.Context,
    source: str | None,
    target: str | None,
    abandon: bool,
    keep_sql: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Remove everything of the move from both databases; tables and rows stay.

    Nodes, queues and triggers go, and the schemas where the move has made them. From then on
    nothing refuses writes in the old database, and nobody carries them over: close it first.
    """
    pair = common.the_pair(context, source, target)
    done: list[str] = []

    def report(step: Step) -> None:
        done.append(step.describe())
        output.message(step.describe())

    with pair.sites() as sites:
        if explain:
            steps: list[Step] = [
                *ending.nodes_left(sites, pair, abandon=abandon),
                *([] if keep_sql else ending.uninstalls(pair)),
            ]
            output.steps(plan.remaining(steps, sites), json_wanted=as_json)
            return
        try:
            count = ending.finish(
                sites,
                pair,
                abandon=abandon,
                keep_sql=keep_sql,
                quiet=lambda: _wait_for_quiet(sites, pair),
                report=report,
            )
        finally:
            if as_json:
                output.as_json({"done": done})
        for side in (pair.old, pair.new):
            if setup.installed(sites.at(side.dsn)):
                output.message(
                    f"{side.name}: the schemas of the queue stay: they were there before, or are"
                    " used by others; londiste uninstall removes them"
                )
    if not count:
        output.message("nothing of the move is left, nothing to do")
        return
    gone = pair.new if abandon else pair.old
    output.message("the move is over; both databases are on their own")
    output.warning(
        f"{describe_dsn(gone.dsn)} refuses nothing any more: close it, for instance by"
        " alter database … set default_transaction_read_only = on"
    )


def _wait_for_quiet(sites: Connections, pair: Pair) -> None:
    """Until the daemons have ended, which look after the nodes; a warning when they do not."""
    conn = {side.name: sites.at(side.dsn) for side in (pair.old, pair.new)}
    deadline = time.monotonic() + _QUIET_SECONDS
    while True:
        left = daemons.running(pair, conn) - {daemons.TICKER}
        if not left:
            return
        if time.monotonic() >= deadline:
            output.warning(f"still running: {', '.join(sorted(left))}; stop them")
            return
        time.sleep(0.2)
