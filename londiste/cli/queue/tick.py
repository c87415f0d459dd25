"""Ticks and maintenance by hand, and the newest ticks of a queue."""

from __future__ import annotations

import click
import psycopg
from psycopg.rows import dict_row

from londiste.cli import options, output
from londiste.cli.daemons.ticker import tick
from londiste.cli.queue.common import opened
from londiste.cli.setup.install import install as _install
from londiste.db.connection import whereabouts
from londiste.db.queries import query
from londiste.errors import from_database
from londiste.install import source
from londiste.pgq import admin, queues
from londiste.ticker import cron, retry, rotate

__all__ = ["install", "maint", "schedule", "tick", "ticks"]


@click.command()
@options.database
@click.option("--dry-run", "--explain", "dry_run", is_flag=True, help="Print the plan only.")
@options.json_output
@click.pass_context
def install(click_context: click.Context, db: str | None, dry_run: bool, as_json: bool) -> None:
    """Bring the SQL of the queue into a database, or up to date.

    Without the parts that replication needs; londiste install has all of them.
    """
    click_context.invoke(
        _install,
        components=tuple(source.of_queues(source.load())),
        db=db,
        dry_run=dry_run,
        as_sql=False,
        after=False,
        as_json=as_json,
    )


@click.command()
@click.argument("name", metavar="QUEUE")
@click.option("--count", default=20, show_default=True, help="How many.")
@options.database
@options.json_output
@options.pass_context
def ticks(ctx: options.Context, name: str, count: int, db: str | None, as_json: bool) -> None:
    """List the newest ticks of a queue; events is the most that lie before each."""
    with opened(ctx, db) as conn:
        admin.find_queue(conn, name)
        try:
            with conn.cursor(row_factory=dict_row) as cursor:
                cursor.execute(query("queue_ticks"), {"queue": name, "count": count})
                rows = cursor.fetchall()
        except psycopg.Error as error:
            raise from_database(error, where=whereabouts(conn)) from error
    output.show(["tick", "time", "event_seq", "events", "snapshot"], rows, json_wanted=as_json)


@click.command()
@options.database
@options.explain
@options.json_output
@options.pass_context
def maint(ctx: options.Context, db: str | None, explain: bool, as_json: bool) -> None:
    """Do the maintenance that is due now: retries, rotation, vacuum.

    What the ticker does every maint_period; each operation in a transaction of its own.
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
        retries = retry.run_once(conn)
        operations = rotate.run_once(conn)
    if as_json:
        output.as_json({"retries": retries, "maintenance": operations})
    else:
        output.message(f"{retries} retries, {operations} maintenance operations")


@click.command()
@click.option("--period", default=1, show_default=True, help="Seconds between ticks, up to 59.")
@click.option(
    "--database", metavar="NAME", help="Where the queues are, if pg_cron is in another database."
)
@click.option("--remove", is_flag=True, help="Print what takes the jobs away again.")
def schedule(period: int, database: str | None, remove: bool) -> None:
    """Print SQL that has pg_cron tick and clean the queues, instead of a daemon.

    Needs pg_cron 1.5 or later.  Nothing is changed here: run it with psql, in the database of
    pg_cron, as a member of pgq_admin.
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
        "-- pg_cron notes every run in cron.job_run_details: cron.log_run = off, or clean it."
    )
    for line in lines:
        click.echo(line)
