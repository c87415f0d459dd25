"""``londiste lake run`` and ``once``: maintains the tables of a lake."""

from __future__ import annotations

from typing import Any

import click

from londiste.cli import options
from londiste.cli.lake.common import lake_options, settings_of
from londiste.lake.worker import LakeWorker
from londiste.metrics.endpoint import listening
from londiste.metrics.tally import ConsumerTally, inherited


@click.command()
@lake_options
@options.daemon
@options.pass_context
def run(ctx: options.Context, /, daemon: options.DaemonCall, **given: Any) -> None:
    """Keep the tables of a lake up to date until stopped.

    A table that fails does not stop the others; it is retried.
    """
    settings = ctx.in_background(settings_of(ctx, given), daemon)
    if daemon.signalled(settings.pidfile, by_run=True):
        return
    with (
        listening(settings) as endpoint,
        ctx.process(settings, pid=settings.pidfile, background=daemon.background) as signals,
        LakeWorker(settings) as worker,
    ):
        tally = ConsumerTally("lake", inherited())
        worker.observe = tally.batch
        if endpoint is not None:
            from londiste.metrics.daemons import of_lake

            endpoint.serve(of_lake(settings, tally))
        worker.run(signals)


@click.command()
@lake_options
@options.pass_context
def once(ctx: options.Context, /, **given: Any) -> None:
    """Apply what is in the queue now to the tables of a lake, then exit.

    For cron, and for the first rows of large tables.
    """
    settings = settings_of(ctx, given)
    with (
        ctx.process(settings, announced=False) as signals,
        LakeWorker(settings) as worker,
    ):
        worker.once(lambda: signals.stopping)
