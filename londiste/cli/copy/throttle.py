"""``londiste copy throttle``: limits for running and future copies."""

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
    metavar="BYTES",
    help="Limit for all copies together, in bytes per second (suffix k, M or G).",
)
@click.option(
    "--tasks",
    metavar="N",
    type=click.IntRange(1, 2**31 - 1),
    help="Maximum chunks that are copied in parallel.",
)
@click.option(
    "--full-speed",
    is_flag=True,
    help="Copy at full speed even if writers of the provider wait, until --off.",
)
@click.option("--off", is_flag=True, help="Remove all limits, and give way to writers again.")
@options.json_output(control.Control)
def throttle(
    context: options.Context,
    rate: str | None,
    tasks: int | None,
    full_speed: bool,
    off: bool,
    as_json: bool,
) -> None:
    """Limit the copies of this node while they run, or show the limits.

    A limit that is not given is unchanged. Running chunks obey a rate within a second. A smaller
    number of chunks takes effect when running chunks are finished.
    """
    if off and (rate is not None or tasks is not None or full_speed):
        raise BadOption(
            "--off excludes --bytes-per-second, --tasks and --full-speed",
            hint="londiste copy throttle --off",
        )
    wanted = None if rate is None else number(rate)
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste copy throttle", autocommit=True) as conn:
        queue = settings.queue_name
        if off:
            control.copy_throttle(conn, queue, None, None, full_speed=False)
        elif wanted is not None or tasks is not None or full_speed:
            with conn.transaction():
                now = control.get_copy_control(conn, queue)
                control.copy_throttle(
                    conn,
                    queue,
                    now.bytes_per_second if wanted is None else wanted,
                    now.tasks if tasks is None else tasks,
                    full_speed=full_speed or None,
                )
        found = control.get_copy_control(conn, queue)
    if as_json:
        output.as_json(found)
        return
    for line in orders(found) or ["copies have no limits"]:
        output.message(line)


def number(text: str) -> int:
    """``10M`` -> 10000000.  Raises BadOption, also for less than the slowest limit."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)(?:B(?:/s)?)?", text.strip())
    if found is None:
        raise BadOption(
            f"--bytes-per-second {text}: must be a number of bytes", hint="write 10M, or 10000000"
        )
    # A number without end is as good as the largest that the database knows.
    result = int(min(float(found[1]) * _UNITS[found[2]], 2.0**62))
    if result < control.SLOWEST:
        raise BadOption(
            f"--bytes-per-second {text}: must be at least {control.SLOWEST}",
            hint="londiste copy pause stops all copies",
        )
    return result
