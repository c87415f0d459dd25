"""``queue maint`` and ``schedule``: runs maintenance, or prints SQL that runs it by pg_cron."""

from __future__ import annotations

from typing import TypedDict

import click

from londiste.cli import errors, options, output
from londiste.cli.documents import Steps
from londiste.cli.queue.common import opened
from londiste.db.connection import whereabouts
from londiste.errors import LockTimeout
from londiste.pgq import queues
from londiste.ticker import cron, maintenance


class Maintained(TypedDict):
    """Numbers of events moved for a retry, and of operations."""

    retries: int
    maintenance: int


@click.command()
@options.database
@options.explain
@options.json_output(Maintained, Steps)
@options.pass_context
def maint(ctx: options.Context, db: str | None, explain: bool, as_json: bool) -> None:
    """Run the maintenance that is due: retries, rotation, vacuum.

    The ticker does the same every maint_period; each operation runs in its own transaction.  Exit
    code 6: a rotation is due, and a transaction holds a lock on the event table.  Exit code 1: an
    operation failed; the others ran all the same.
    """
    with opened(ctx, db) as conn:
        due = queues.maint_operations(conn)
        if explain:
            texts = [
                "pgq.maint_retry_events",
                *(f"{name} {arg or ''}".strip() for name, arg in due),
            ]
            output.lines(texts, json_wanted=as_json)
            return
        retries = maintenance.move_due_events(conn)
        operations = maintenance.run_once(conn)
        blocked = maintenance.blocked_rotations(conn)
        where = whereabouts(conn)
    done = f"{retries} retries, {operations.done} maintenance operations"
    if not as_json:
        output.message(done)
    with errors.also_told(done=[done]):
        if blocked:
            remedies = dict.fromkeys(one.remedy for one in blocked)
            raise LockTimeout(
                "; ".join(map(str, blocked)),
                hint=f"end the transaction: {'; '.join(remedies)}; then: londiste queue maint",
            )
        operations.require_success(where)
    if as_json:
        output.as_json(Maintained(retries=retries, maintenance=operations.done))


@click.command()
@click.option(
    "--period",
    metavar="SECONDS",
    default=1,
    show_default=True,
    help="Seconds between ticks (1 to 59).",
)
@click.option(
    "--database", metavar="NAME", help="Database of the queues, if pg_cron is in another one."
)
@click.option("--remove", is_flag=True, help="Print SQL that removes the jobs.")
def schedule(period: int, database: str | None, remove: bool) -> None:
    """Print SQL to run ticks and maintenance by pg_cron instead of a daemon.

    Requires pg_cron 1.5 or later.  This command changes nothing: run its output with psql, in the
    database of pg_cron, as a member of pgq_admin.
    """
    if remove:
        for line in cron.removal(database):
            click.echo(line)
        return
    lines = cron.statements(period, database)
    click.echo(
        "-- Ticks, retries and rotation by pg_cron (1.5 or later), instead of londiste ticker."
    )
    click.echo(
        "-- pg_cron logs every run in cron.job_run_details: set cron.log_run = off, or purge it."
    )
    for line in lines:
        click.echo(line)
