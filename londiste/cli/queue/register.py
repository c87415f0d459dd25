"""``queue register`` and ``unregister``: registers and drops consumers."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cascade.own_consumers import refuse_move, refuse_unregister
from londiste.cli import options, output
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import opened
from londiste.db.names import word
from londiste.errors import BadOption
from londiste.pgq import admin
from londiste.pgq.admin import QueueChange

_queue = click.argument("queue_name", metavar="QUEUE")
_worker = click.option(
    "--sub",
    "workers",
    multiple=True,
    metavar="NAME",
    help="Cooperative consumer of CONSUMER; repeatable.",
)
_allow_resync = click.option(
    "--allow-resync",
    is_flag=True,
    help="Proceed even if a node of the cascade loses its position and must be copied again.",
)


@click.command()
@_queue
@click.argument("names", nargs=-1, required=True, metavar="CONSUMER...")
@click.option("--at", type=int, metavar="TICK", help="Start after (or move to) this tick.")
@click.option(
    "--copy", metavar="OTHER", help="Start at (or move to) the position of this consumer."
)
@_worker
@_allow_resync
@options.database
@options.changes
@options.pass_context
def register(
    ctx: options.Context,
    queue_name: str,
    names: Sequence[str],
    at: int | None,
    copy: str | None,
    workers: Sequence[str],
    allow_resync: bool,
    db: str | None,
    how: options.Execution,
) -> None:
    """Register consumers, in one transaction.

    They get the events after the newest tick, or after the given one.  A registered consumer moves
    with --at or --copy, and is unchanged otherwise.  Consumers that the cascade has registered
    require --allow-resync.
    """
    if workers and (at is not None or copy is not None):
        raise BadOption(
            "--at and --copy exclude --sub: a cooperative consumer has the position of its main"
            " consumer",
            hint="omit --at and --copy, or move the main consumer",
        )
    with opened(ctx, db) as conn:
        changes: list[QueueChange] = []
        if not allow_resync:
            refuse_move(conn, queue_name, names, at=at, copy=copy)
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
                output.message(f"consumer {name} is already registered on queue {queue_name}")
        execute_changes(conn, changes, how)


@click.command()
@_queue
@click.argument("names", nargs=-1, metavar="CONSUMER...")
@click.option("--all", "every", is_flag=True, help="Drop all consumers of the queue.")
@_worker
@_allow_resync
@click.option(
    "--close-batch",
    is_flag=True,
    help="Proceed even if a consumer loses its open batch, dead letters or events to retry.",
)
@options.database
@options.changes
@options.pass_context
def unregister(
    ctx: options.Context,
    queue_name: str,
    names: Sequence[str],
    every: bool,
    workers: Sequence[str],
    allow_resync: bool,
    close_batch: bool,
    db: str | None,
    how: options.Execution,
) -> None:
    """Drop consumers and their positions, in one transaction.

    Cooperative consumers of a main consumer are dropped with it.  With --sub, only the named
    cooperative consumers are dropped, or all of them for *.  A cooperative consumer with an open
    batch requires --close-batch, also where it is dropped with its main consumer: the events of the
    batch are not delivered then.  So does a consumer with dead letters or events to retry: they are
    deleted with it.  Consumers that the cascade has registered require
    --allow-resync: its own commands drop them with their node.
    """
    if bool(names) == every:
        raise BadOption(
            "no consumers given" if not names else "names and --all exclude each other",
            hint=f"londiste queue unregister {word(queue_name)} CONSUMER..., or --all",
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
            if not allow_resync:
                refuse_unregister(conn, queue_name, names)
            lose = close_batch or how.explain
            changes = admin.unregistering(conn, queue_name, names, every=every, close_batch=lose)
        execute_changes(conn, changes, how)
