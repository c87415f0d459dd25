"""``queue create`` and ``drop``: creates and drops queues."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import execute_changes, report_changes
from londiste.cli.queue.common import opened, without_writers
from londiste.db.connection import Connection
from londiste.errors import BadOption
from londiste.orchestration.connections import Connections
from londiste.pgq import admin, queues
from londiste.pgq import config as parameters
from londiste.pgq.admin import QueueChange
from londiste.settings import DatabaseSettings

_some = click.argument("names", nargs=-1, required=True, metavar="QUEUE...")


@click.command()
@_some
@click.option(
    "--set", "assigned", multiple=True, metavar="KEY=VALUE", help="Queue parameter; repeatable."
)
@click.option(
    "--consumer",
    "consumers",
    multiple=True,
    metavar="NAME",
    help="Register this consumer, too; repeatable.",
)
@options.database
@options.changes
@options.pass_context
def create(
    ctx: options.Context,
    names: Sequence[str],
    assigned: Sequence[str],
    consumers: Sequence[str],
    db: str | None,
    how: options.Execution,
) -> None:
    """Create queues in one transaction.

    Of an existing queue only the parameters of --set are set, and consumers registered.
    """
    values = parameters.assignments(list(assigned))
    for word in (*names, *consumers):
        if word.startswith("-"):
            raise BadOption(
                f"{word!r} begins with -", hint="other commands would read it as an option"
            )
    for word in names:
        if "=" in word:
            raise BadOption(
                f"{word!r} contains =, and would be the name of a queue",
                hint=f"a parameter has its own --set: --set {shlex.quote(word)}",
            )
    with opened(ctx, db) as conn:
        changes: list[QueueChange] = []
        for name in dict.fromkeys(names):
            if queues.get_queue_info(conn, name):
                output.message(f"queue {name} already exists")
            changes += admin.creating(conn, name, values, list(dict.fromkeys(consumers)))
        execute_changes(conn, changes, how)
    if changes and not how.explain:
        register = (
            "" if consumers else f"londiste queue register {shlex.quote(names[0])} CONSUMER; "
        )
        output.next_step(f"{register}londiste ticker")


@click.command()
@_some
@options.flag(
    "--drop-consumers",
    "Proceed even if the queue has consumers, sinks or delayed events; they are dropped, too.",
    earlier="--force",
)
@options.database
@options.changes
@options.pass_context
def drop(
    ctx: options.Context,
    names: Sequence[str],
    drop_consumers: bool,
    db: str | None,
    how: options.Execution,
) -> None:
    """Drop queues with their events, in one transaction.

    A queue with consumers requires --drop-consumers. Prints what is lost. Open transactions that
    have inserted events are waited for; those that do not end within lock_timeout are named, and
    nothing is dropped. The queue of a root or branch is dropped with its node: londiste drop-node.
    """

    names, force = list(dict.fromkeys(names)), drop_consumers or how.explain

    def dropped(conn: Connection) -> tuple[list[QueueChange], list[str]]:
        found = admin.dropping(conn, names, force=force)
        for change in found[0]:
            change.act(conn)
        return found

    settings = ctx.settings(DatabaseSettings, db=db)
    dsn = settings.db
    with Connections(name="londiste queue", lock_timeout=settings.lock_timeout) as sites:
        # First without a lock: nobody waits for a command that is refused.
        changes, lost = admin.dropping(sites.at(dsn), names, force=force)
        if not how.explain:
            # What was committed meanwhile is counted, and nothing is after that.
            changes, lost = without_writers(sites, dsn, names, dropped)
        for line in lost:
            output.warning(f"{line}: {'requires --drop-consumers' if how.explain else 'lost'}")
        if how.explain:
            output.steps(changes, json_wanted=how.as_json)
        else:
            report_changes(changes, how)
