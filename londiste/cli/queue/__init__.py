"""``londiste queue``: a table of commands for queues, each imported only when it is used.

To add one: a line here, a click command of that name in a module of this package, and a section
``### `queue NAME …` `` in docs/reference/commands.md (tests/docs/test_reference.py asks for it).
"""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, LazyGroup

QUEUES = "Queues"

COMMANDS: dict[str, Entry] = {
    "create": Entry("queues", "Create queues.", QUEUES),
    "list": Entry("queues", "List the queues of the database.", QUEUES),
}


@click.group(cls=LazyGroup, package="londiste.cli.queue", table=COMMANDS)
def queue() -> None:
    """Queues without replication: create, consume, look, repair."""
