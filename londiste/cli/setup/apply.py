"""``londiste apply``: makes a cascade like its file."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cascadefile.action import REMOVALS, Action
from londiste.cascadefile.perform import Performer
from londiste.cli import options, output
from londiste.cli.cascade.common import block_option, timeout_option
from londiste.cli.documents import Done
from londiste.cli.plan_output import reported
from londiste.cli.setup import cascade_plan
from londiste.errors import LondisteError, StateError
from londiste.replication.commands.create_table import code_refused


@click.command()
@click.option("--allow-remove", is_flag=True, help="Remove tables and nodes that the file omits.")
@click.option(
    "--allow-unfiltered",
    is_flag=True,
    help="Remove or widen filters and handlers: nodes may get more rows, columns or values.",
)
@click.option(
    "--allow-resync",
    is_flag=True,
    help="Copy tables again if the new provider of a moved node has other row filters.",
)
@timeout_option
@block_option
@cascade_plan.copy_rate
@options.explain
@options.json_output(Done, cascade_plan.ACTIONS)
@options.pass_context
def apply(
    context: options.Context,
    allow_remove: bool,
    allow_unfiltered: bool,
    allow_resync: bool,
    timeout: float,
    block: float,
    copy_rate: float,
    explain: bool,
    as_json: bool,
) -> None:
    """Make a cascade like its file.

    Executes the steps that londiste plan shows, in that order. Repeat an interrupted command to
    continue. Workers copy added tables afterwards: londiste wait-sync --node NAME.
    """
    with cascade_plan.planned(context) as found:
        if explain:
            cascade_plan.show(found.actions, copy_rate, json_wanted=as_json)
            return
        if not allow_remove:
            removals = [action for action in found.actions if action.kind in REMOVALS]
            _refuse(removals, "what the cascade has", "nothing was changed", "--allow-remove")
        if not allow_unfiltered:
            exposing = [action for action in found.actions if action.exposes]
            more = "the node may get more rows, columns or values; nothing was changed"
            _refuse(exposing, "a filter or handler", more, "--allow-unfiltered")
        for action in found.actions:
            if action.code:
                raise code_refused(action.code, f"node {action.node}")
        total = len(found.actions)
        with reported(as_json) as report:
            worker = Performer(
                found.where,
                found.file,
                found.settings,
                report,
                output.warning,
                timeout=timeout,
                block=block,
                allow_resync=allow_resync,
            )
            for number, action in enumerate(found.actions, 1):
                output.message(f"step {number} of {total}: {action.describe()}")
                try:
                    worker.perform(action)
                except LondisteError as error:
                    error.say_more(
                        f"at step {number} of {total}: {action.describe()}",
                        "" if error.hint else "londiste plan shows what is left to do",
                    )
                    raise
    output.message(
        f"{total} step{'' if total == 1 else 's'} done"
        if total
        else "nothing to do: the databases are like the file"
    )


def _refuse(actions: Sequence[Action], what: str, detail: str, option: str) -> None:
    """Raises StateError if there are actions that need an option; what -- the file omits."""
    if actions:
        raise StateError(
            f"the file omits {what}: {actions[0].describe()}"
            + (f", and {len(actions) - 1} more" if len(actions) > 1 else ""),
            detail=detail,
            hint=f"add it to the file (londiste plan shows all), or run londiste apply {option}",
        )
