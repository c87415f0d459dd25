"""``londiste migrate status``: shows the phase of a migration."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.migrate import common
from londiste.migrate import phase


@click.command()
@options.pass_context
@common.databases
@options.json_output(phase.Progress)
def status(context: options.Context, source: str | None, target: str | None, as_json: bool) -> None:
    """Show the phase of the migration and the next step."""
    pair = common.the_pair(context, source, target)
    with pair.sites() as sites:
        found = phase.look(sites, pair)
    if as_json:
        output.as_json(found)
        return
    nobody = "none at the moment" if found.phase is phase.Phase.SWITCHING else None
    lag = None if found.lag is None else f"{found.lag:.1f} s"
    output.table(
        ["what", "value"],
        [
            [
                "phase",
                "none: not begun, or finished"
                if found.phase is phase.Phase.NOT_BEGUN
                else found.phase.value,
            ],
            ["takes writes", found.root or nobody],
            ["tables in sync", f"{found.in_step} of {found.tables}"],
            ["lag of the other", lag],
            ["running", ", ".join(found.running) or None],
            ["not running", ", ".join(found.missing) or None],
            *(["error", text] for text in found.errors),
        ],
    )
    output.next_step(found.next)
