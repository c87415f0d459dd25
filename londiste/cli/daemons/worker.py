"""``londiste worker``: the daemon that applies batches to a node."""

from __future__ import annotations

from contextlib import closing

import click

from londiste.cli import options, output, start
from londiste.cli.worker_once import run_once
from londiste.daemon.pidfile import running
from londiste.daemon.signals import Signals
from londiste.errors import BadOption
from londiste.metrics.endpoint import listening
from londiste.metrics.tally import WorkerTally, inherited
from londiste.replication.worker.rewind import rewind
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings


@click.command()
@click.option(
    "--once", is_flag=True, help="Work until nothing is left to apply or to copy, then exit."
)
@click.option(
    "--rewind",
    "rewinding",
    is_flag=True,
    help="Move the provider's consumer back to this node's position, then exit.",
)
@click.option(
    "--force-resync",
    is_flag=True,
    help="With --rewind: if the provider has another history, copy all tables again.",
)
@options.daemon
@options.pass_context
def worker(
    ctx: options.Context,
    once: bool,
    rewinding: bool,
    force_resync: bool,
    daemon: options.DaemonCall,
) -> None:
    """Apply the provider's batches to this node.

    Runs until it is stopped, and starts the process that copies new tables.  On a root, publishes
    the watermark and the sequences.
    """

    def read() -> WorkerSettings:
        return ctx.settings(WorkerSettings)

    settings = ctx.in_background(read(), daemon)
    if daemon.signalled(settings.pidfile, by_run=True):
        return
    if force_resync and not rewinding:
        raise BadOption(
            "--force-resync requires --rewind", hint="londiste worker --rewind --force-resync"
        )
    if rewinding and daemon.background:
        raise BadOption(
            "--rewind and -d exclude each other: --rewind ends when the position is moved",
            hint="londiste worker --rewind; londiste worker -d",
        )
    if rewinding:
        tick = rewind(settings, force_resync=force_resync)
        output.message(f"the provider's consumer is at tick {tick}")
        output.message("start the worker: londiste worker")
        return
    if daemon.background and not once and settings.pidfile and running(settings.pidfile) is None:
        # What is wrong at the start is said here, not in a log that nobody reads yet.
        with closing(Signals()) as none:
            Worker(read, none).try_out()
    with (
        listening(settings, once=once) as endpoint,
        ctx.process(
            settings,
            pid=None if once else settings.pidfile,
            background=daemon.background and not once,
            announced=not once,
        ) as signals,
    ):
        copy_argv = [*ctx.program(), "copy"]
        tally = WorkerTally("worker", inherited())
        work = Worker(read, signals, copy_argv=copy_argv, observe=tally.batch)
        if endpoint is not None:
            from londiste.metrics.daemons import of_worker

            endpoint.serve(of_worker(lambda: work.settings, tally))
        if once:
            run_once(work, lambda node: start.worker_command(ctx.config, ctx.overrides)(node, ""))
        else:
            work.run()
