"""``londiste copy pause`` and ``resume``: stops and resumes the start of chunks."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.copy.sqlapi import control
from londiste.copy.sqlapi.attempts import copy_choices, copy_progress
from londiste.db.connection import session
from londiste.settings import NodeSettings


@click.command()
@options.pass_context
@click.option("--now", is_flag=True, help="Roll running chunks back instead of finishing them.")
def pause(context: options.Context, now: bool) -> None:
    """Stop starting new chunks until resume.

    Running chunks are finished. Copied rows stay. A table that is copied in one snapshot keeps that
    snapshot open on the source during the pause.
    """
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste copy pause", autocommit=True) as conn:
        if control.copy_pause(conn, settings.queue_name, break_off=now):
            output.message("copies paused; resume: londiste copy resume")
            choices = copy_choices(conn, settings.queue_name)
            for running in copy_progress(conn, settings.queue_name):
                choice = choices.get(running.table)
                if choice is not None and choice.mode == "snapshot":
                    output.warning(
                        f"table {running.table} is copied in one snapshot, which stays open on"
                        " the source"
                    )
        else:
            output.message("copies are already paused")


@click.command()
@options.pass_context
def resume(context: options.Context) -> None:
    """Resume copies."""
    settings = context.settings(NodeSettings)
    with session(settings.db, name="londiste copy resume", autocommit=True) as conn:
        if control.copy_resume(conn, settings.queue_name):
            output.message("copies resumed")
        else:
            output.message("copies are not paused")
