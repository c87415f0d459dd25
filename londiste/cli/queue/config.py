"""``queue config``: shows or sets the parameters of queues."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.documents import Done, Rows, Steps
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import opened, without_writers
from londiste.errors import BadOption
from londiste.orchestration.connections import Connections
from londiste.pgq import admin
from londiste.pgq import config as parameters
from londiste.settings import DatabaseSettings

#: A queue with its parameters, by their names in docs/reference/queue-parameters.md.
QUEUES = Rows("queues", dict[str, str | None])


@click.command()
@click.argument("name", required=False, metavar="[QUEUE]")
@click.argument("assigned", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--all", "every", is_flag=True, help="Apply to all queues, like the name *.")
@options.database
@options.explain
@options.json_output(QUEUES, Steps, Done)
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
    """Show the parameters of a queue, or set some in one transaction.

    Without QUEUE, shows those of all queues.  The value null removes a limit.  With
    disable_insert=true it also waits for open transactions that have inserted events, and names
    those that do not end within lock_timeout.
    """
    words = list(assigned)
    if name is not None and every:
        words.insert(0, name)
        name = None
    if name is not None and "=" in name and not every:
        raise BadOption(
            f"no queue given before {name}",
            hint=f"londiste queue config QUEUE {name}, or --all for every queue",
        )
    values = parameters.assignments(words)
    with opened(ctx, db) as conn:
        names = admin.find_queues(conn, [name or "*"], every=every)
        if values:
            changes = [change for one in names for change in admin.configuring(conn, one, values)]
            closed = names if values.get("disable_insert") == "true" else []
            settings = ctx.settings(DatabaseSettings, db=db)
            how = options.Execution(explain, as_json)
            execute_changes(conn, changes, how, after=lambda: _wait_for_writers(settings, closed))
            return
        known = parameters.read(conn)
    if as_json:
        output.as_json({QUEUES.key: [{"queue": one, **known[one]} for one in names]})
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


def _wait_for_writers(settings: DatabaseSettings, names: Sequence[str]) -> None:
    """Returns when no open transaction has events that it can commit into these closed queues."""
    with Connections(name="londiste queue", lock_timeout=settings.lock_timeout) as sites:
        for name in names:
            # The second time for those that had waited behind us, and read the parameter before.
            for _ in range(2):
                without_writers(
                    sites, settings.db, [name], lambda _: None, "the queue refuses new events"
                )
