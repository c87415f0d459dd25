"""``londiste execute status``: shows the state of scripts on every node."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.replication.ddl import report
from londiste.settings import NodeSettings

SCRIPTS = Rows("scripts", report.NodeScript)


@click.command()
@options.pass_context
@click.option("--failed", is_flag=True, help="Show only scripts that wait for a decision.")
@options.json_output(SCRIPTS)
def status(context: options.Context, failed: bool, as_json: bool) -> None:
    """Show the state of scripts on every node: done, pending, running, failed, skipped, marked."""
    settings = context.settings(NodeSettings)
    found, unknown = report.status(
        settings.db, settings.queue_name, extra=settings.remote_extra_connstr
    )
    rows = [row for row in found if not failed or row.state == "failed"]
    for node, why in unknown:
        output.warning(f"node {node}: its scripts are unknown: {why}")
    waits = " waits for a decision" if failed else ""
    where = " on the nodes that answer" if unknown else ""
    columns = ["script", "node", "state", "since", "statement", "error"]
    output.show(
        SCRIPTS,
        rows,
        json_wanted=as_json,
        columns=columns,
        empty=f"no script{where}{waits}"
        if where or waits
        else "no script yet: londiste execute FILE",
    )
