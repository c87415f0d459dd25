"""``londiste copy pause`` and ``resume``: whether chunks of copies may begin."""

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
