"""``londiste execute``: scripts for all nodes, and the commands about scripts that failed.

``londiste execute FILE...`` without one of the commands' names is ``londiste execute run``.
"""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, LazyGroup

RUNNING = "Running"
DECIDING = "Looking and deciding"

COMMANDS: dict[str, Entry] = {
    "run": Entry("run", "Run scripts here and on all nodes below, once, in order.", RUNNING),
    "status": Entry("status", "Show how scripts fare on every node.", DECIDING),
    "retry": Entry("decide", "Let a script that failed here be tried again.", DECIDING),
    "skip": Entry("decide", "Do not run a script on this node.", DECIDING),
    "mark-done": Entry("decide", "Take a script as done here: by hand.", DECIDING),
}


class _RunByDefault(LazyGroup):
    """Takes what is no command for arguments of ``run``: names of files, and its options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.table and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_RunByDefault, package="londiste.cli.execute", table=COMMANDS)
def execute() -> None:
    """Change the structure of all nodes: a script runs once on each, in order with the rows.

    Without a command: londiste execute FILE... is londiste execute run FILE...
    """
