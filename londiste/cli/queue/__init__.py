"""``londiste queue``: a table of commands for queues, each imported only when it is used.

To add one: a line here, a click command of that name in a module of this package that has the name
too, and a section ``### `queue NAME …` `` in docs/reference/commands.md. What the commands share is
in ``common``.
"""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, LazyGroup

QUEUES = "Queues"
CONSUMERS = "Consumers"
EVENTS = "Events"
UPKEEP = "Upkeep"
PROGRAMS = "Programs"

COMMANDS: dict[str, Entry] = {
    "create": Entry("create", "Create queues.", QUEUES),
    "drop": Entry("create", "Drop queues with their events.", QUEUES),
    "config": Entry("config", "Show or set the parameters of queues.", QUEUES),
    "list": Entry("list", "List the queues of the database.", QUEUES),
    "status": Entry("status", "Show queues, consumers and problems.", QUEUES),
    "ticks": Entry("tick", "List the newest ticks of a queue.", QUEUES),
    "consumers": Entry("consumers", "List consumers and their positions.", CONSUMERS),
    "register": Entry("register", "Register consumers, or move their positions.", CONSUMERS),
    "unregister": Entry("register", "Drop consumers and their positions.", CONSUMERS),
    "pause-consumer": Entry("pause_consumer", "Pause consumers.", CONSUMERS),
    "resume-consumer": Entry("pause_consumer", "Resume consumers.", CONSUMERS),
    "batch": Entry("batch", "Show an open batch.", CONSUMERS),
    "events": Entry("events", "Show events without consuming them.", EVENTS),
    "retry": Entry("retry", "List and schedule retries of events.", EVENTS),
    "delayed": Entry("delayed", "List and cancel delayed events.", EVENTS),
    "dead": Entry("dead_letters", "List, retry and drop dead letters.", EVENTS),
    "schedule": Entry("maint", "Print SQL to run the ticker by pg_cron.", UPKEEP),
    "shell": Entry("shell", "Open an interactive prompt for queues.", UPKEEP),
    "install": Entry("install", "Install or upgrade the SQL of queues in a database.", UPKEEP),
    "tick": Entry("tick", "Create a tick now.", UPKEEP),
    "maint": Entry("maint", "Run the maintenance that is due.", UPKEEP),
    "rebase": Entry("rebase", "Adapt restored queues to this server.", UPKEEP),
    "mover": Entry("movers", "Move the events of a queue into another queue.", PROGRAMS),
    "splitter": Entry("movers", "Move each event into the queue that the event names.", PROGRAMS),
    "simple-consumer": Entry("movers", "Run an SQL statement for every row change.", PROGRAMS),
}


@click.group(cls=LazyGroup, package="londiste.cli.queue", table=COMMANDS)
def queue() -> None:
    """Manage queues without replication: create, consume, inspect."""
