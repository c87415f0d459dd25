"""``londiste install``: installs or upgrades the SQL in a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.setup.common import connection
from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.errors import BadOption, InstallError
from londiste.install import adopt as adopting
from londiste.install import apply, owners
from londiste.install.plan import Action, InstallPlan, PlanStep
from londiste.install.script import script
from londiste.pgq import event_indexes


class InstalledFile(TypedDict):
    """A file of SQL, and what is done with it."""

    component: str
    path: str
    action: str
    reason: str


class Installed(TypedDict):
    """The components, and the files that ran or would run.

    done -- false: `--dry-run`.
    components -- versions.
    waiting -- files that wait for `--after`.
    leftovers -- files of an earlier version.
    indexed -- event tables whose missing index is created.
    """

    done: bool
    components: dict[str, str]
    steps: list[InstalledFile]
    waiting: dict[str, list[str]]
    leftovers: dict[str, list[str]]
    indexed: list[str]


class Adopted(TypedDict):
    """With `--adopt`.

    grants -- statements for an administrator.
    """

    done: bool
    extensions: list[str]
    steps: list[InstalledFile]
    grants: list[str]


@click.command()
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@options.database
@options.explain
@click.option(
    "--sql", "as_sql", is_flag=True, help="Print a script for psql instead; requires no database."
)
@click.option(
    "--after",
    is_flag=True,
    help="Drop objects that only programs of the previous release use; stop those programs first.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Adopt the schemas of Londiste 3 extensions; keep rows and triggers.",
)
@options.json_output(Installed, Adopted)
@options.pass_context
def install(
    ctx: options.Context,
    components: Sequence[str],
    db: str | None,
    explain: bool,
    as_sql: bool,
    after: bool,
    adopt: bool,
    as_json: bool,
) -> None:
    """Install or upgrade the SQL in a database.

    All components unless some are named, with the components that they require.  A database that
    only applies events of queues elsewhere needs only pgq_ext.
    """
    if adopt:
        if as_sql or after or components:
            raise BadOption(
                "--adopt excludes --sql, --after and components",
                hint="omit the others: --adopt adopts and upgrades all extensions of the database",
            )
        _adopt(ctx, db, explain, as_json)
        return
    if as_sql:
        click.echo(script(components), nl=False)
        return
    with connection(ctx, db) as conn:
        plans = apply.plan_for(conn, components, after=after)
        steps = [step for plan in plans for step in plan.steps]
        if not explain:
            steps = apply.install(conn, components, after=after)
        restored = _indexes(conn, plans, explain)
        names = {plan.component for plan in plans}
        # Only what ran here has checked that its owner may be trusted by an installer.
        upgraded = bool(steps) and not explain and "londiste" in names
        is_node = upgraded and bool(tuples(conn, "queues_of_nodes"))
    if as_json:
        output.as_json(
            Installed(
                done=not explain,
                components={plan.component: plan.version for plan in plans},
                steps=[_as_dict(step) for step in steps],
                waiting={p.component: list(p.waiting) for p in plans if p.waiting},
                leftovers={p.component: list(p.leftovers) for p in plans if p.leftovers},
                indexed=restored,
            )
        )
        return
    if explain:
        _print_steps(steps)
    for plan in plans:
        ran = sum(s.component == plan.component and s.action is Action.RUN for s in steps)
        if not explain:
            output.message(
                f"{plan.component} {plan.version}: "
                + (f"{ran} files ran" if ran else "already installed, nothing to do")
            )
        for path in plan.waiting:
            output.message(f"{plan.component}/{path} waits: londiste install --after")
        for path in plan.leftovers:
            output.message(f"{plan.component}/{path}: left over from an earlier version")
    for table in restored:
        output.message(f"index of event table {table} {'is missing' if explain else 'created'}")
    if not explain and steps:
        output.next_step(_next(names, has_file=ctx.config is not None, is_node=is_node))


def _next(installed: set[str], *, has_file: bool, is_node: bool) -> str:
    if is_node:
        # An upgrade.
        return "restart the ticker and the workers of this database; then londiste check"
    if "londiste" not in installed:
        return "londiste queue create QUEUE"
    if has_file:
        return "londiste create-root NAME, or londiste create-leaf NAME --provider DSN"
    # A node needs more than its database.
    return (
        "write db and queue_name into a file (londiste config worker lists the settings), then"
        " londiste -c FILE create-root NAME, or londiste -c FILE create-leaf NAME --provider DSN"
    )


def _adopt(ctx: options.Context, db: str | None, explain: bool, as_json: bool) -> None:
    """Adopts the extensions of the database, or prints what would be done."""
    with connection(ctx, db) as conn:
        extensions = adopting.found(conn)
        adopting.require_owners(conn, extensions)
        grants = adopting.grants(conn, extensions)
        steps = [] if explain else adopting.adopt(conn)
    if as_json:
        output.as_json(
            Adopted(
                done=not explain,
                extensions=extensions,
                steps=[_as_dict(step) for step in steps],
                grants=grants,
            )
        )
        return
    if not extensions:
        output.message("no extension of Londiste 3 found, nothing to do")
    for name in extensions:
        # The queue's tables stay; the rows of the others move into tables of Londiste.
        text = f"{name}: adopted, no longer an extension; tables, rows, functions and triggers stay"
        output.message(f"would: {text}" if explain else text)
    for component in dict.fromkeys(step.component for step in steps):
        ran = sum(s.component == component and s.action is Action.RUN for s in steps)
        output.message(f"{component}: {ran} files ran")
    if grants:
        output.message("roles of consumers need these grants; run them as an administrator:")
        for statement in grants:
            output.message(f"  {statement};")


def _indexes(conn: Connection, plans: Sequence[InstallPlan], explain: bool) -> list[str]:
    """Creates missing indexes of event tables, or finds them; returns the tables."""
    if all(plan.component != "pgq" for plan in plans):
        return []
    if owners.find(conn, ["pgq"], installing=True):
        # The schema is up to date, by a ledger that another role has written.
        return []
    try:
        found = event_indexes.find(conn) if explain else event_indexes.restore(conn)
    except InstallError:
        # Nothing is installed yet.
        return []
    return [f"{one.schema}.{one.name}" for one in found]


def _print_steps(steps: Sequence[PlanStep]) -> None:
    if not steps:
        click.echo("nothing to do")
        return
    output.table(
        ["action", "path", "reason"],
        [[s.action, f"{s.component}/{s.path}", s.reason] for s in steps],
    )


def _as_dict(step: PlanStep) -> InstalledFile:
    return {
        "component": step.component,
        "path": step.path,
        "action": step.action.value,
        "reason": step.reason,
    }
