"""Pause and resume consumers from anywhere: a row in the queue's database says so."""

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
@click.option("--reason", help="Why; shown where the consumer waits.")
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
    """Have consumers take no batch until they are resumed: all of them or none.

    Their programs finish the batch at hand and wait; one that starts again waits, too.  Events
    are kept meanwhile, and with them the queue's tables grow.  Only programs made with
    londiste.Consumer ask.
    """
    with opened(ctx, db) as conn:
        changes = []
        for name in dict.fromkeys(names):
            admin.find_consumer(conn, queue_name, name)
            changes.append(
                QueueChange(
                    f"consumer {name} of queue {queue_name} pauses",
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
    """Let paused consumers go on: all of them or none."""
    with opened(ctx, db) as conn:
        changes = []
        for name in dict.fromkeys(names):
            admin.find_consumer(conn, queue_name, name)
            changes.append(
                QueueChange(
                    f"consumer {name} of queue {queue_name} goes on",
                    partial(_resume, queue=queue_name, name=name),
                )
            )
        execute_changes(conn, changes, explain=explain, json_wanted=as_json)


def _pause(conn: Connection, *, queue: str, name: str, reason: str | None) -> None:
    pause.pause_consumer(conn, queue, name, reason)


def _resume(conn: Connection, *, queue: str, name: str) -> None:
    pause.resume_consumer(conn, queue, name)
