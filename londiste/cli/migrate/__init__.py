"""``londiste migrate``: moves a whole database to another server.

To add a command: a line here, a click command of that name in a module of this package that has the
name too, and a section ``### `migrate NAME …` `` in docs/reference/commands.md.
"""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, LazyGroup

LOOKING = "Inspect"
DOING = "Migrate"

COMMANDS: dict[str, Entry] = {
    "check": Entry(
        "check", "Check both databases and report obstacles and excluded objects.", LOOKING
    ),
    "status": Entry("status", "Show the phase of the migration and the next step.", LOOKING),
    "verify": Entry("verify", "Compare rows, structure and sequences of both databases.", LOOKING),
    "run": Entry("run", "Run the whole migration, up to the switch or including it.", DOING),
    "start": Entry("start", "Set up, copy, and keep both databases in sync.", DOING),
    "switch": Entry("switch", "Switch writes to the new database.", DOING),
    "back": Entry("switch", "Switch writes back to the old database.", DOING),
    "finish": Entry("finish", "Remove the replication of the migration; tables stay.", DOING),
}


@click.group(cls=LazyGroup, package="londiste.cli.migrate", table=COMMANDS)
def migrate() -> None:
    """Move a whole database to another server.

    \b
    londiste migrate check  --from DSN --to DSN
    londiste migrate start  --from DSN --to DSN     (keeps running and syncing)
    londiste migrate verify --from DSN --to DSN
    londiste migrate switch --from DSN --to DSN
    londiste migrate finish --from DSN --to DSN
    \b
    londiste migrate run --switch runs start, verify and switch.
    """
