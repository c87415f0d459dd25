"""``queue rebase``: after the database was restored on another server."""

from __future__ import annotations

from dataclasses import asdict

import click

from londiste.cli import options, output
from londiste.cli.queue.common import opened
from londiste.db.connection import describe_dsn
from londiste.errors import BadOption
from londiste.pgq import rebase as rebasing
from londiste.settings import DatabaseSettings

FOUND = ["queue", "reason", "ticks", "events"]
DONE = ["queue", "ticks", "events", "unread", "arrived", "generation"]


@click.command()
@click.option(
    "--lock-timeout",
    default=rebasing.LOCK_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="Longest wait for transactions that write to the queues.",
)
@options.database
@options.explain
@options.json_output
@options.pass_context
def rebase(
    ctx: options.Context, lock_timeout: float, db: str | None, explain: bool, as_json: bool
) -> None:
    """Make the queues of a restored database work on this server.

    All that need it, in one transaction: every consumer then gets what it had not finished when
    the dump was made, and what was inserted since the restore.  A database that was not restored
    from another server stays as it is.
    """
    if lock_timeout <= 0:
        raise BadOption("--lock-timeout is a number of seconds above 0", hint="--lock-timeout 10")
    if explain:
        with opened(ctx, db) as conn:
            found = [asdict(row) for row in rebasing.explain(conn)]
        for row in found:
            row["reason"] = row["reason"] or ("" if not as_json else None)
        output.show(FOUND, found, json_wanted=as_json)
        return
    settings = ctx.settings(DatabaseSettings, db=db)
    done = [asdict(row) for row in rebasing.rebase(settings.db, lock_timeout=lock_timeout)]
    for row in done:
        row["generation"] = str(row["generation"])
    if as_json or done:
        output.show(DONE, done, json_wanted=as_json)
    if not done:
        output.message(f"nothing to do: the queues of {describe_dsn(settings.db)} are at home")
