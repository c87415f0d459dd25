"""``queue pause-consumer`` and ``resume-consumer``: pauses and resumes consumers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from londiste.cli import options
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import opened
from londiste.db.connection import Connection
from londiste.pgq import admin, pause
from londiste.pgq.admin import QueueChange

_queue = click.argument("queue_name", metavar="QUEUE")
_names = click.argument("names", nargs=-1, required=True, metavar="CONSUMER...")


@click.command("pause-consumer")
@_queue
@_names
@click.option("--reason", help="Reason, shown by the paused consumer.")
@options.database
@options.explain
@options.json_output
@options.pass_context
def pause_consumer(
    ctx: options.Context,
    queue_name: str,
    names: Sequence[str],
    reason: str | None,
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Pause consumers, in one transaction.

    Their programs finish the current batch and wait, also after a restart.  The queue keeps the
    events during the pause, so its tables grow.  Only programs based on londiste.Consumer support
    this.
    """
    with opened(ctx, db) as conn:
        changes = []
        for name in dict.fromkeys(names):
            admin.find_consumer(conn, queue_name, name)
            changes.append(
                QueueChange(
                    f"pause consumer {name} of queue {queue_name}",
                    partial(_pause, queue=queue_name, name=name, reason=reason),
                )
            )
        execute_changes(conn, changes, explain=explain, json_wanted=as_json)


@click.command("resume-consumer")
@_queue
@_names
@options.database
@options.explain
@options.json_output
@options.pass_context
def resume_consumer(
    ctx: options.Context,
    queue_name: str,
    names: Sequence[str],
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Resume paused consumers, in one transaction."""
    with opened(ctx, db) as conn:
        changes = []
        for name in dict.fromkeys(names):
            admin.find_consumer(conn, queue_name, name)
            changes.append(
                QueueChange(
                    f"resume consumer {name} of queue {queue_name}",
                    partial(_resume, queue=queue_name, name=name),
                )
            )
        execute_changes(conn, changes, explain=explain, json_wanted=as_json)


def _pause(conn: Connection, *, queue: str, name: str, reason: str | None) -> None:
    pause.pause_consumer(conn, queue, name, reason)


def _resume(conn: Connection, *, queue: str, name: str) -> None:
    pause.resume_consumer(conn, queue, name)
