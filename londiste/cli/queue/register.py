"""``queue register`` and ``unregister``: consumers."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import opened
from londiste.errors import BadOption
from londiste.pgq import admin
from londiste.pgq.admin import QueueChange

_queue = click.argument("queue_name", metavar="QUEUE")
_worker = click.option(
    "--sub", "workers", multiple=True, metavar="NAME", help="A cooperative consumer of it."
)


@click.command()
@_queue
@click.argument("names", nargs=-1, required=True, metavar="CONSUMER...")
@click.option("--at", type=int, metavar="TICK", help="Begin behind this tick, or move there.")
@click.option("--copy", metavar="OTHER", help="Begin, or move, where this consumer is.")
@_worker
@options.database
@options.explain
@options.json_output
@options.pass_context
def register(
    ctx: options.Context,
    queue_name: str,
    names: Sequence[str],
    at: int | None,
    copy: str | None,
    workers: Sequence[str],
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Register consumers: all of them or none.

    They get the events after the newest tick, or after the one that is named.  A consumer that
    is registered moves if --at or --copy say so, and stays where it is otherwise.
    """
    if workers and (at is not None or copy is not None):
        raise BadOption(
            "a cooperative consumer begins where its main consumer is",
            hint="leave --at and --copy away, or move the main consumer",
        )
    with opened(ctx, db) as conn:
        changes: list[QueueChange] = []
        for name in dict.fromkeys(names):
            if workers:
                found = [
                    change
                    for worker in dict.fromkeys(workers)
                    for change in admin.registering_worker(conn, queue_name, name, worker)
                ]
            else:
                found = admin.registering(conn, queue_name, name, at=at, copy=copy)
            changes += found
            if not found:
                output.message(f"consumer {name} is registered on queue {queue_name}")
        execute_changes(conn, changes, explain=explain, json_wanted=as_json)


@click.command()
@_queue
@click.argument("names", nargs=-1, metavar="CONSUMER...")
@click.option("--all", "every", is_flag=True, help="All consumers of the queue.")
@_worker
@click.option("--close-batch", is_flag=True, help="Although its open batch is lost.")
@options.database
@options.explain
@options.json_output
@options.pass_context
def unregister(
    ctx: options.Context,
    queue_name: str,
    names: Sequence[str],
    every: bool,
    workers: Sequence[str],
    close_batch: bool,
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Forget consumers and their positions: all of them or none.

    With a main consumer go its cooperative consumers and the events that wait to be delivered to
    it again.  With --sub only the cooperative ones that are named go, or all of them for *.
    """
    if bool(names) == every:
        raise BadOption(
            "which consumers?" if not names else "names and --all exclude each other",
            hint=f"londiste queue unregister {queue_name} CONSUMER..., or --all",
        )
    with opened(ctx, db) as conn:
        if workers:
            changes = [
                change
                for name in dict.fromkeys(names)
                for worker in dict.fromkeys(workers)
                for change in admin.unregistering_worker(
                    conn, queue_name, name, worker, close_batch=close_batch
                )
            ]
        else:
            changes = admin.unregistering(conn, queue_name, names, every=every)
        execute_changes(conn, changes, explain=explain, json_wanted=as_json)
