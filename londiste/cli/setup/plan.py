"""``londiste plan``: shows the steps that make a cascade like its file."""

from __future__ import annotations

import click

from londiste.cli import options
from londiste.cli.setup import cascade_plan

#: Something would be changed.
EXIT_CHANGES = 2


@click.command()
@cascade_plan.copy_rate
@options.json_output(cascade_plan.ACTIONS)
@options.pass_context
def plan(context: options.Context, copy_rate: float, as_json: bool) -> int:
    """Show the steps that make a cascade like its file.

    Compares the file with the databases and changes nothing. Each step is printed with its locks,
    the bytes and the estimated time of its copies, and its losses. The exit code is 0 if there is
    nothing to do, and 2 if there are changes.
    """
    with cascade_plan.planned(context) as found:
        cascade_plan.show(found.actions, copy_rate, json_wanted=as_json)
    return EXIT_CHANGES if found.actions else 0
