"""``londiste copy throttle``: limits for the copies that run, and for those to come."""

from __future__ import annotations

import re

import click

from londiste.cli import options, output
from londiste.cli.copy.common import orders
from londiste.copy.sqlapi import control
from londiste.db.connection import session
from londiste.errors import BadOption
from londiste.settings import NodeSettings

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


@click.command()
@options.pass_context
@click.option(
    "--bytes-per-second",
    "rate",
    metavar="NUMBER",
    help="All copies together move no more; with k, M or G for thousands, millions, milliards.",
)
@click.option("--tasks", type=click.IntRange(1, 2**31 - 1), help="So many chunks at a time.")
@click.option("--off", is_flag=True, help="No limits.")
@options.json_output
def throttle(
    context: options.Context, rate: str | None, tasks: int | None, off: bool, as_json: bool
) -> None:
    """Limit the copies of this node while they run, or show the limits.

    A limit that is not named stays as it is. Running chunks obey a rate within a second, and a
    smaller number of tasks when they are finished.
    """
    if off and (rate is not None or tasks is not None):
        raise BadOption(
            "--off together with a limit", hint="londiste copy throttle --off, or the limit alone"
        )
    wanted = None if rate is None else number(rate)
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste copy throttle", autocommit=True) as conn:
        queue = settings.queue_name
        if off:
            control.copy_throttle(conn, queue, None, None)
        elif wanted is not None or tasks is not None:
            with conn.transaction():
                now = control.get_copy_control(conn, queue)
                control.copy_throttle(
                    conn,
                    queue,
                    now.bytes_per_second if wanted is None else wanted,
                    now.tasks if tasks is None else tasks,
                )
        found = control.get_copy_control(conn, queue)
    if as_json:
        output.as_json(found)
        return
    for line in orders(found) or ["the copies have no limits"]:
        output.message(line)


def number(text: str) -> int:
    """``10M`` -> 10000000.  Raises BadOption, also for less than the slowest limit."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)(?:B(?:/s)?)?", text.strip())
    if found is None:
        raise BadOption(
            f"--bytes-per-second {text}: not a number of bytes", hint="write 10M, or 10000000"
        )
    # A number without end is as good as the largest that the database knows.
    result = int(min(float(found[1]) * _UNITS[found[2]], 2.0**62))
    if result < control.SLOWEST:
        raise BadOption(
            f"--bytes-per-second {text}: the slowest is {control.SLOWEST}",
            hint="to let the copies stand still: londiste copy pause",
        )
    return result
