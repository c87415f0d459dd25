"""``londiste copy``: the process that copies tables, and the commands that watch and steer it.

``londiste copy [TABLE]...`` without one of the commands' names is ``londiste copy run``.
"""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, LazyGroup

COPYING = "Copying"
STEERING = "Watching and steering"

COMMANDS: dict[str, Entry] = {
    "run": Entry("run", "Copy tables; the worker starts this by itself.", COPYING),
    "status": Entry("status", "Show how far the copies are, or what they took.", STEERING),
    "pause": Entry("pause", "Let no chunk begin any more.", STEERING),
    "resume": Entry("pause", "Let the copies go on.", STEERING),
    "throttle": Entry("throttle", "Limit bytes per second, or tasks.", STEERING),
}


class _RunByDefault(LazyGroup):
    """Takes what is no command for arguments of ``run``: names of tables, and its options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.table and args[0] not in ctx.help_option_names):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_RunByDefault, package="londiste.cli.copy", table=COMMANDS)
def copy() -> None:
    """Copy tables, watch the copies, steer them.

    Without a command: londiste copy [TABLE]... is londiste copy run [TABLE]...
    """
