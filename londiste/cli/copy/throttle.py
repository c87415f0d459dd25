"""``londiste copy pause|resume|throttle``: orders to the copies that run, and to those to come."""

from __future__ import annotations

import re

import click

from londiste.cli import options, output
from londiste.cli.copy.status import orders
from londiste.copy.sqlapi import control
from londiste.copy.sqlapi.attempts import copy_choices, copy_progress
from londiste.db.connection import session
from londiste.errors import BadOption
from londiste.settings import NodeSettings

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


@click.command()
@options.pass_context
@click.option("--now", is_flag=True, help="Roll running chunks back instead of finishing them.")
def pause(context: options.Context, now: bool) -> None:
    """Let no chunk begin any more, until resume.

    Chunks that run are finished. The rows that are there stay. A table that is copied in one
    snapshot keeps that snapshot on the source meanwhile.
    """
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste copy pause", autocommit=True) as conn:
        if control.copy_pause(conn, settings.queue_name, break_off=now):
            output.message("the copies are paused; go on: londiste copy resume")
            choices = copy_choices(conn, settings.queue_name)
            for running in copy_progress(conn, settings.queue_name):
                choice = choices.get(running.table)
                if choice is not None and choice.mode == "snapshot":
                    output.warning(
                        f"{running.table} is copied in one snapshot, which stays open on the source"
                    )
        else:
            output.message("the copies were paused already")


@click.command()
@options.pass_context
def resume(context: options.Context) -> None:
    """Let the copies go on."""
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste copy resume", autocommit=True) as conn:
        if control.copy_resume(conn, settings.queue_name):
            output.message("the copies go on")
        else:
            output.message("the copies were not paused")


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
