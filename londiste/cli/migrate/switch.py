"""``londiste migrate switch`` and ``back``: switches writes between the databases."""

from __future__ import annotations

from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.migrate import common
from londiste.cli.plan_output import execute_plan, reported
from londiste.migrate import daemons, switching
from londiste.migrate.databases import Pair, Side
from londiste.orchestration.connections import Connections

_common = options.together(
    options.pass_context,
    common.databases,
    common.TIMEOUT,
    common.BLOCK,
    options.flag(
        "--ignore-missing",
        "Proceed even if tables, events or other objects are missing in the target.",
        earlier="--force",
    ),
    click.option("--rollback", is_flag=True, help="Undo an unfinished switch."),
    options.changes,
)


@click.command()
@_common
def switch(context: options.Context, **given: Any) -> None:
    """Switch writes to the new database.

    The old database refuses writes after its last tick, and the new one takes writes when it has
    that tick. Sequences continue after their last value. Afterwards the old database follows the
    new one. Repeat an interrupted command to finish it.
    """
    _switch(context, to_new=True, **given)


@click.command()
@_common
def back(context: options.Context, **given: Any) -> None:
    """Switch writes back to the old database.

    No row that was written in the new database is lost; it follows the old one again.
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
    ignore_missing: bool,
    rollback: bool,
    how: options.Execution,
) -> None:
    pair = common.the_pair(context, source, target)
    to = pair.new if to_new else pair.old
    with pair.sites() as sites:
        if rollback:
            steps = switching.rollback(sites, pair, to, explain=how.explain)
            execute_plan(steps, sites, how)
            if not how.explain:
                output.message(
                    f"rolled back: the {pair.other(to).name} database takes writes again"
                )
            return
        found = switching.prepare(
            sites,
            pair,
            to,
            timeout=timeout,
            block=block,
            force=ignore_missing,
            explain=how.explain,
            warn=output.warning,
        )
        if found is None:
            execute_plan([], sites, how)
            output.message(f"the {to.name} database already takes the writes, nothing to do")
            return
        if how.explain:
            execute_plan(found.steps(), sites, how)
            return
        with daemons.at_work(pair, verbose=common.verbose(context)) as children:
            carry(sites, pair, to, found, how.as_json)
            if children.own:
                output.warning(
                    "ticker and workers have stopped with this command: londiste migrate start"
                    " keeps the other database in sync"
                )


def carry(
    sites: Connections, pair: Pair, to: Side, found: switching.Switch, as_json: bool = False
) -> None:
    """Executes the remaining steps of a switch, and prints each step."""
    with reported(as_json) as report:
        switching.run(found, sites, report)
    output.message(
        f"the {to.name} database takes the writes, the {pair.other(to).name} database follows"
    )
