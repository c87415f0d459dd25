"""``londiste execute status``: shows the state of scripts on every node."""

from __future__ import annotations

import dataclasses

import click

from londiste.cli import options, output
from londiste.replication.ddl import report
from londiste.settings import NodeSettings


@click.command()
@options.pass_context
@click.option("--failed", is_flag=True, help="Show only scripts that wait for a decision.")
@options.json_output
def status(context: options.Context, failed: bool, as_json: bool) -> None:
    """Show the state of scripts on every node: done, pending, running, failed, skipped, marked."""
    settings = context.settings(NodeSettings)
    found = report.status(settings.db, settings.queue_name, extra=settings.remote_extra_connstr)
    rows = [dataclasses.asdict(row) for row in found if not failed or row.state == "failed"]
    columns = ["script", "node", "state", "since", "statement", "error"]
    output.show(
        columns,
        rows,
        json_wanted=as_json,
        empty="no script yet: londiste execute FILE",
    )
