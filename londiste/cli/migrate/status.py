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
def status(context: options.Context, source: str | None, target: str | None, as_json: bool) -> int:
    """Show the phase of the migration and the next step.

    If one database does not answer, this shows what the other one knows; the exit code is 6.
    """
    pair = common.the_pair(context, source, target)
    with pair.sites() as sites:
        found, silent = phase.look_at_answering(sites, pair)
    if as_json:
        output.as_json(found)
        return 0 if silent is None else silent.exit_code
    nobody = {
        phase.Phase.SWITCHING: "none at the moment",
        phase.Phase.UNKNOWN: "unknown",
    }.get(found.phase)
    in_step = f"{found.in_step} of {found.tables}"
    if silent is not None and found.root is not None:
        in_step = f"unknown, of {found.tables}"
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
            ["tables in sync", in_step],
            ["lag of the other", found.behind],
            ["running", ", ".join(found.running) or None],
            ["not running", ", ".join(found.missing) or None],
            *(["error", text] for text in found.errors),
        ],
    )
    if silent is not None:
        raise silent
    output.next_step(found.next)
    return 0
