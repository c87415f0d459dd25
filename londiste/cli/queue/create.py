"""Queues themselves: create, drop, configure, list."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.queue.common import execute_changes, opened
from londiste.errors import BadOption
from londiste.pgq import admin, queues
from londiste.pgq import config as parameters
from londiste.pgq.admin import QueueChange
from londiste.pgq.types import QueueInfo

_some = click.argument("names", nargs=-1, required=True, metavar="QUEUE...")


@click.command()
@_some
@click.option(
    "--set", "assigned", multiple=True, metavar="KEY=VALUE", help="A parameter; may be repeated."
)
@options.database
@options.explain
@options.json_output
@options.pass_context
def create(
    ctx: options.Context,
    names: Sequence[str],
    assigned: Sequence[str],
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Create queues: all of them or none.

    A queue that is there stays as it is.
    """
    values = parameters.assignments(list(assigned))
    with opened(ctx, db) as conn:
        changes: list[QueueChange] = []
        for name in dict.fromkeys(names):
            found = admin.creating(conn, name, values)
            changes += found
            if not found:
                output.message(f"queue {name} is there")
        execute_changes(conn, changes, explain=explain, as_json=as_json)


@click.command()
@_some
@click.option("--force", is_flag=True, help="Although consumers or a node are lost.")
@options.database
@options.explain
@options.json_output
@options.pass_context
def drop(
    ctx: options.Context,
    names: Sequence[str],
    force: bool,
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Drop queues with their events: all of them or none.

    One that has consumers, or belongs to a node, needs --force; what is lost is said.
    """
    with opened(ctx, db) as conn:
        changes = admin.dropping(conn, names, force=force or explain)
        for name in names:
            for line in admin.losses(conn, name):
                output.warning(f"{line}: " + ("needs --force" if explain else "lost"))
        execute_changes(conn, changes, explain=explain, as_json=as_json)


@click.command()
@click.argument("name", required=False, metavar="[QUEUE]")
@click.argument("assigned", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--all", "every", is_flag=True, help="All queues; so does the name *.")
@options.database
@options.explain
@options.json_output
@options.pass_context
def config(
    ctx: options.Context,
    name: str | None,
    assigned: Sequence[str],
    every: bool,
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Show the parameters of a queue, or set some: all of them or none.

    Without QUEUE those of all queues are shown.  The value null takes a limit away.
    """
    words = list(assigned)
    if name is not None and every:
        words.insert(0, name)
        name = None
    if name is not None and "=" in name and not every:
        raise BadOption(
            f"no queue is named before {name}",
            hint=f"londiste queue config QUEUE {name}, or --all for every queue",
        )
    values = parameters.assignments(words)
    with opened(ctx, db) as conn:
        names = admin.find_queues(conn, [name or "*"], every=every)
        if values:
            changes = [change for one in names for change in admin.configuring(one, values)]
            execute_changes(conn, changes, explain=explain, as_json=as_json)
            return
        known = parameters.read(conn)
    if as_json:
        output.as_json([{"queue": one, **known[one]} for one in names])
    elif len(names) == 1 and name not in (None, "*"):
        output.table(
            ["parameter", "value", "meaning"],
            [[key, text, parameters.PARAMETERS[key].help] for key, text in known[names[0]].items()],
        )
    else:
        output.table(
            ["queue", "parameter", "value"],
            [[one, key, text] for one in names for key, text in known[one].items()],
        )


@click.command("list")
@options.database
@options.json_output
@options.pass_context
def list_(ctx: options.Context, db: str | None, as_json: bool) -> None:
    """List the queues of the database."""
    with opened(ctx, db) as conn:
        consumers = [each.queue_name for each in queues.get_consumer_info(conn)]
        rows = [row(q, consumers.count(q.queue_name)) for q in queues.get_queue_info(conn)]
    columns = ["queue", "consumers", "last_tick", "ticker_lag", "ev_per_sec", "ev_new"]
    output.show(columns, rows, json_wanted=as_json)


def row(queue: QueueInfo, consumers: int) -> dict[str, object]:
    """A line of the list of queues."""
    return {
        "queue": queue.queue_name,
        "consumers": consumers,
        "last_tick": queue.last_tick_id,
        "ticker_lag": queue.ticker_lag,
        "ev_per_sec": None if queue.ev_per_sec is None else round(queue.ev_per_sec, 1),
        "ev_new": queue.ev_new,
    }
