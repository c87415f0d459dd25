"""``londiste copy``: runs, monitors, pauses and throttles table copies.

``londiste copy [TABLE]...`` without one of the commands' names is ``londiste copy run``.
"""

from __future__ import annotations

import click

from londiste.cli.lazy import Entry, RunByDefault

COPYING = "Copying"
STEERING = "Monitor and control"

COMMANDS: dict[str, Entry] = {
    "run": Entry("run", "Copy tables; the worker starts this automatically.", COPYING),
    "status": Entry("status", "Show the progress of copies, or their durations.", STEERING),
    "pause": Entry("pause", "Stop starting new chunks.", STEERING),
    "resume": Entry("pause", "Resume copies.", STEERING),
    "throttle": Entry("throttle", "Limit bytes per second, or parallel chunks.", STEERING),
}


@click.group(cls=RunByDefault, package="londiste.cli.copy", table=COMMANDS, alone=True)
def copy() -> None:
    """Run, monitor, pause and throttle table copies.

    Without a command: londiste copy [TABLE]... is londiste copy run [TABLE]...
    """
