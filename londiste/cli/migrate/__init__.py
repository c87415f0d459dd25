"""``londiste migrate``: a whole database moves to another server.

To add a command: a line here, a click command of that name in a module of this package that has the
name too, and a section ``### `migrate NAME …` `` in docs/reference/commands.md.
"""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, LazyGroup

LOOKING = "Looking"
DOING = "Doing"

COMMANDS: dict[str, Entry] = {
    "check": Entry("check", "Say what speaks against a move, and what will be left out.", LOOKING),
    "status": Entry("status", "Show how far the move is, and what to do next.", LOOKING),
    "verify": Entry("verify", "Compare rows, structure and sequences of both databases.", LOOKING),
    "run": Entry("run", "The whole move in one command, up to the switch or with it.", DOING),
    "start": Entry("start", "Set everything up, copy, and keep both in step.", DOING),
    "switch": Entry("switch", "Let the new database take the writes.", DOING),
    "back": Entry("switch", "Let the old database take the writes again.", DOING),
    "finish": Entry("finish", "Remove everything of the move; tables and rows stay.", DOING),
}


@click.group(cls=LazyGroup, package="londiste.cli.migrate", table=COMMANDS)
def migrate() -> None:
    """Move a whole database to another server.

    \b
    londiste migrate check  --from DSN --to DSN
    londiste migrate start  --from DSN --to DSN     (stays, and keeps both in step)
    londiste migrate verify --from DSN --to DSN
    londiste migrate switch --from DSN --to DSN
    londiste migrate finish --from DSN --to DSN
    \b
    londiste migrate run --switch does start, verify and switch.
    """
