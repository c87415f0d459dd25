"""``queue rebase``: adapts queues after a restore on another server."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.queue.common import opened
from londiste.db.connection import describe_dsn
from londiste.errors import BadOption
from londiste.pgq import rebase as rebasing
from londiste.settings import DatabaseSettings

FOUND = Rows("queues", rebasing.RebaseReason)
DONE = Rows("queues", rebasing.Rebased)


@click.command()
@click.option(
    "--lock-timeout",
    default=rebasing.LOCK_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="Maximum seconds to wait for transactions that write to the queues.",
)
@options.database
@options.explain
@options.json_output(FOUND, DONE)
@options.pass_context
def rebase(
    ctx: options.Context, lock_timeout: float, db: str | None, explain: bool, as_json: bool
) -> None:
    """Adapt the queues of a restored database to this server.

    All queues in one transaction. Every consumer then gets the events that it had not finished when
    the dump was taken, and those inserted since the restore.  A database that was not restored from
    another server is unchanged.
    """
    if lock_timeout <= 0:
        raise BadOption("--lock-timeout must be above 0", hint="use --lock-timeout 10")
    if explain:
        with opened(ctx, db) as conn:
            found = rebasing.explain(conn)
        output.show(FOUND, found, json_wanted=as_json)
        return
    settings = ctx.settings(DatabaseSettings, db=db)
    done = rebasing.rebase(settings.db, lock_timeout=lock_timeout)
    if as_json or done:
        output.show(DONE, done, json_wanted=as_json)
    if not done:
        output.message(f"nothing to do: the queues of {describe_dsn(settings.db)} need no rebase")
