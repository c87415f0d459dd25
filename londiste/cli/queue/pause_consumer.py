"""``queue pause-consumer`` and ``resume-consumer``: pauses and resumes consumers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import click

from londiste.cli import options
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import opened
from londiste.pgq import admin, consumers
from londiste.pgq.admin import QueueChange

_changing = options.together(
    click.argument("queue_name", metavar="QUEUE"),
    click.argument("names", nargs=-1, required=True, metavar="CONSUMER..."),
    options.database,
    options.changes,
    options.pass_context,
)


@click.command("pause-consumer")
@click.option("--reason", help="Reason, shown by the paused consumer.")
@_changing
def pause_consumer(ctx: options.Context, reason: str | None, **given: Any) -> None:
    """Pause consumers, in one transaction.

    Their programs finish the current batch and wait, also after a restart.  The queue keeps the
    events during the pause, so its tables grow.  Only programs based on londiste.Consumer support
    this.
    """
    _change(ctx, "pause", partial(consumers.pause_consumer, reason=reason), **given)


@click.command("resume-consumer")
@_changing
def resume_consumer(ctx: options.Context, **given: Any) -> None:
    """Resume paused consumers, in one transaction."""
    _change(ctx, "resume", consumers.resume_consumer, **given)


def _change(
    ctx: options.Context,
    verb: str,
    act: Callable[..., object],
    *,
    queue_name: str,
    names: Sequence[str],
    db: str | None,
    how: options.Execution,
) -> None:
    with opened(ctx, db) as conn:
        changes = []
        for name in dict.fromkeys(names):
            admin.find_consumer(conn, queue_name, name)
            changes.append(
                QueueChange(
                    f"{verb} consumer {name} of queue {queue_name}",
                    partial(act, queue=queue_name, consumer=name),
                )
            )
        execute_changes(conn, changes, how)
