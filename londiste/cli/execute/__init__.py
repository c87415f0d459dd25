"""``londiste execute``: runs DDL scripts on all nodes, and decides about failed ones.

``londiste execute FILE...`` without one of the commands' names is ``londiste execute run``.
"""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, RunByDefault

RUNNING = "Running"
DECIDING = "Inspect and decide"

COMMANDS: dict[str, Entry] = {
    "run": Entry("run", "Run scripts on the root and all nodes below, once, in order.", RUNNING),
    "status": Entry("status", "Show the state of scripts on every node.", DECIDING),
    "retry": Entry("decide", "Retry a script that failed on this node.", DECIDING),
    "skip": Entry("decide", "Skip a script on this node.", DECIDING),
    "mark-done": Entry("decide", "Mark a script as done on this node.", DECIDING),
}


@click.group(cls=RunByDefault, package="londiste.cli.execute", table=COMMANDS)
def execute() -> None:
    """Run DDL scripts on all nodes: once on each, in order with the rows.

    Without a command: londiste execute FILE... is londiste execute run FILE...
    """
