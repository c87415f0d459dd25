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
    "status": Entry("status", "Show queues and consumers, and what is wrong.", QUEUES),
    "ticks": Entry("tick", "List the newest ticks of a queue.", QUEUES),
    "consumers": Entry("consumers", "List consumers and their positions.", CONSUMERS),
    "register": Entry("register", "Register consumers, or move them.", CONSUMERS),
    "unregister": Entry("register", "Forget consumers and their positions.", CONSUMERS),
    "pause-consumer": Entry("pause_consumer", "Have consumers take no batch.", CONSUMERS),
    "resume-consumer": Entry("pause_consumer", "Let them go on.", CONSUMERS),
    "batch": Entry("batch", "Show an open batch.", CONSUMERS),
    "events": Entry("events", "Look at events without consuming them.", EVENTS),
    "retry": Entry("retry", "Events that are delivered again later.", EVENTS),
    "delayed": Entry("delayed", "Events that wait for their time.", EVENTS),
    "dead": Entry("dead_letters", "Events that a consumer gave up on.", EVENTS),
    "schedule": Entry("maint", "Print SQL that ticks by pg_cron.", UPKEEP),
    "shell": Entry("shell", "An interactive prompt for queues.", UPKEEP),
    "install": Entry("install", "Bring the SQL of the queue into a database.", UPKEEP),
    "tick": Entry("tick", "Make a tick now.", UPKEEP),
    "maint": Entry("maint", "Do the maintenance that is due now.", UPKEEP),
    "rebase": Entry("rebase", "Make restored queues work on this server.", UPKEEP),
    "mover": Entry("movers", "Move the events of a queue into another one.", PROGRAMS),
    "splitter": Entry("movers", "Move each event into the queue it names.", PROGRAMS),
    "simple-consumer": Entry("movers", "Run a statement for every row change.", PROGRAMS),
}


@click.group(cls=LazyGroup, package="londiste.cli.queue", table=COMMANDS)
def queue() -> None:
    """Queues without replication: create, consume, look, repair."""
