"""``londiste install``: the SQL of a database, new or brought up to date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.setup.common import connection
from londiste.errors import BadOption
from londiste.install import adopt as adopting
from londiste.install import apply
from londiste.install.plan import Action, PlanStep
from londiste.install.script import script


@click.command()
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@options.database
@click.option("--dry-run", "--explain", "dry_run", is_flag=True, help="Print the plan only.")
@click.option("--sql", "as_sql", is_flag=True, help="Print a script for psql; needs no database.")
@click.option(
    "--after",
    is_flag=True,
    help="Also drop what only programs of the previous release use; none may run any more.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Take over the schemas of the original's extensions: rows and triggers stay.",
)
@options.json_output
@options.pass_context
def install(
    ctx: options.Context,
    components: Sequence[str],
    db: str | None,
    dry_run: bool,
    as_sql: bool,
    after: bool,
    adopt: bool,
    as_json: bool,
) -> None:
    """Bring the SQL into a database, or up to date.

    All components unless some are named; what they require comes along.  A database that only
    applies events of queues elsewhere needs no more than pgq_ext.
    """
    if adopt:
        if as_sql or after or components:
            raise BadOption(
                "--adopt with --sql, --after or components",
                hint="it takes over all extensions that are there, and brings them up to date",
            )
        _adopt(ctx, db, dry_run, as_json)
        return
    if as_sql:
        click.echo(script(components), nl=False)
        return
    with connection(ctx, db) as conn:
        plans = apply.plan_for(conn, components, after=after)
        if not dry_run:
            steps = apply.install(conn, components, after=after)
    if dry_run:
        steps = [step for plan in plans for step in plan.steps]
    if as_json:
        output.as_json(
            {
                "done": not dry_run,
                "components": {plan.component: plan.version for plan in plans},
                "steps": [_as_dict(step) for step in steps],
                "waiting": {p.component: list(p.waiting) for p in plans if p.waiting},
                "leftovers": {p.component: list(p.leftovers) for p in plans if p.leftovers},
            }
        )
        return
    if dry_run:
        _print_steps(steps)
    for plan in plans:
        ran = sum(s.component == plan.component and s.action is Action.RUN for s in steps)
        if not dry_run:
            output.message(
                f"{plan.component} {plan.version}: "
                + (f"{ran} files ran" if ran else "was there, nothing to do")
            )
        for path in plan.waiting:
            output.message(f"{plan.component}/{path} waits: londiste install --after")
        for path in plan.leftovers:
            output.message(f"{plan.component}/{path} is no longer part of it, but still there")


def _adopt(ctx: options.Context, db: str | None, explain: bool, as_json: bool) -> None:
    """Takes over the extensions that are there, or says what would be."""
    with connection(ctx, db) as conn:
        extensions = adopting.found(conn)
        grants = adopting.grants(conn, extensions)
        steps = [] if explain else adopting.adopt(conn)
    if as_json:
        output.as_json(
            {
                "done": not explain,
                "extensions": extensions,
                "steps": [_as_dict(s) for s in steps],
                "grants": grants,
            }
        )
        return
    if not extensions:
        output.message("no extension of the original is here, nothing to do")
    for name in extensions:
        # The queue's tables stay where they are; of the others the rows move into tables of ours.
        text = f"{name}: not an extension any more; tables, rows, functions and triggers stay"
        output.message(f"would: {text}" if explain else text)
    for component in dict.fromkeys(step.component for step in steps):
        ran = sum(s.component == component and s.action is Action.RUN for s in steps)
        output.message(f"{component}: {ran} files ran")
    if grants:
        output.message("roles that consume here need, as an administrator:")
        for statement in grants:
            output.message(f"  {statement};")


def _print_steps(steps: Sequence[PlanStep]) -> None:
    if not steps:
        click.echo("nothing to do")
        return
    output.table(
        ["action", "file", "why"], [[s.action, f"{s.component}/{s.path}", s.reason] for s in steps]
    )


def _as_dict(step: PlanStep) -> dict[str, Any]:
    return {
        "component": step.component,
        "path": step.path,
        "action": step.action.value,
        "reason": step.reason,
    }
