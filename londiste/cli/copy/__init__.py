"""``londiste copy``: runs, monitors, pauses and throttles table copies.

``londiste copy [TABLE]...`` without one of the commands' names is ``londiste copy run``.
"""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, LazyGroup

COPYING = "Copying"
STEERING = "Monitor and control"

COMMANDS: dict[str, Entry] = {
    "run": Entry("run", "Copy tables; the worker starts this automatically.", COPYING),
    "status": Entry("status", "Show the progress of copies, or their durations.", STEERING),
    "pause": Entry("pause", "Stop starting new chunks.", STEERING),
    "resume": Entry("pause", "Resume copies.", STEERING),
    "throttle": Entry("throttle", "Limit bytes per second, or parallel chunks.", STEERING),
}


class _RunByDefault(LazyGroup):
    """Passes words that are no command to ``run``: names of tables, and its options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.table and args[0] not in ctx.help_option_names):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_RunByDefault, package="londiste.cli.copy", table=COMMANDS)
def copy() -> None:
    """Run, monitor, pause and throttle table copies.

    Without a command: londiste copy [TABLE]... is londiste copy run [TABLE]...
    """
