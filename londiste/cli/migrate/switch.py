"""``londiste migrate switch`` and ``back``."""

from __future__ import annotations

from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.migrate import common
from londiste.cli.plan_output import execute_plan, reported
from londiste.migrate import daemons, switching
from londiste.migrate.databases import Pair, Side
from londiste.orchestration.connections import Connections


def _common(function: Any) -> Any:
    for decorate in (
        options.pass_context,
        common.databases,
        click.option(
            "--timeout",
            default=60.0,
            show_default=True,
            type=click.FloatRange(min=0),
            help="Seconds for each wait while writes go on.",
        ),
        click.option(
            "--block",
            default=10.0,
            show_default=True,
            type=click.FloatRange(min=0),
            help="Seconds for which nobody may be able to write; then everything is undone.",
        ),
        click.option("--force", is_flag=True, help="Although something is missing there."),
        click.option("--rollback", is_flag=True, help="Undo a switch that was begun."),
        options.explain,
        options.json_output,
    )[::-1]:
        function = decorate(function)
    return function


@click.command()
@_common
def switch(context: options.Context, **given: Any) -> None:
    """Let the new database take the writes.

    Writes are refused in the old one from its last tick on, and taken in the new one as soon as it
    has that tick; sequences go on behind the last value. From then on the old database follows the
    new one. Interrupted, the same command finishes what it began.
    """
    _switch(context, to_new=True, **given)


@click.command()
@_common
def back(context: options.Context, **given: Any) -> None:
    """Let the old database take the writes again: the switch in the other direction.

    Nothing that was written in the new one is lost; the new database follows the old one again.
    """
    _switch(context, to_new=False, **given)


def _switch(
    context: options.Context,
    *,
    to_new: bool,
    source: str | None,
    target: str | None,
    timeout: float,
    block: float,
    force: bool,
    rollback: bool,
    explain: bool,
    as_json: bool,
) -> None:
    pair = common.the_pair(context, source, target)
    to = pair.new if to_new else pair.old
    with pair.sites() as sites:
        if rollback:
            steps = switching.rollback(sites, pair, to)
            execute_plan(steps, sites, explain=explain, json_wanted=as_json)
            if not explain:
                output.message(f"undone: the {pair.other(to).name} database takes writes again")
            return
        found = switching.prepare(
            sites, pair, to, timeout=timeout, block=block, force=force, warn=output.warning
        )
        if found is None:
            execute_plan([], sites, explain=explain, json_wanted=as_json)
            output.message(f"the {to.name} database takes the writes already, nothing to do")
            return
        if explain:
            execute_plan(found.steps(), sites, explain=True, json_wanted=as_json)
            return
        with daemons.at_work(pair, verbose=common.verbose(context)) as children:
            carry(sites, pair, to, found, as_json)
            if children.own:
                output.warning(
                    "ticker and workers ran for this command only:"
                    " londiste migrate start keeps the other database in step"
                )


def carry(
    sites: Connections, pair: Pair, to: Side, found: switching.Switch, as_json: bool = False
) -> None:
    """Does what is left of a switch, and prints each step."""
    with reported(as_json) as report:
        switching.run(found, sites, report)
    output.message(
        f"the {to.name} database takes the writes, the {pair.other(to).name} one follows it"
    )
