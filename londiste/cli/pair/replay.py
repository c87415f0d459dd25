"""``londiste FILE.ini replay``: the workers of both nodes of a pair in one process."""

from __future__ import annotations

import logging
import threading
from contextlib import closing

import click

from londiste.cli import options, output
from londiste.cli.pair.common import Call, of_side, require_pair
from londiste.cli.worker_once import run_once
from londiste.daemon.loop import report
from londiste.daemon.pidfile import running
from londiste.daemon.signals import Signals
from londiste.errors import LondisteError
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings
from londiste.settings.pair import PROVIDER, SUBSCRIBER

#: Seconds until the provider's worker is tried again, for instance while another pair runs it.
PROVIDER_PERIOD = 20.0


@click.command()
@click.option("--rewind", "--reset", "rewinding", is_flag=True, hidden=True)
@click.option("--once", is_flag=True, help="Work until nothing is left, then exit.")
@options.daemon
@options.pass_context
def replay(
    context: options.Context,
    rewinding: bool,
    once: bool,
    daemon: options.DaemonCall,
) -> None:
    """Replicate a pair: apply the provider's batches to the subscriber.

    Also does the duties of the provider's worker: watermark and sequences.
    """
    require_pair(context)
    words = ("worker", "--rewind") if rewinding else ("worker",)
    if rewinding:
        from londiste.replication.worker.rewind import rewind

        output.message(f"replay is now: {Call(SUBSCRIBER, words).text(context.config)}")
        output.message(
            f"the provider's consumer is at tick {rewind(context.settings(WorkerSettings))}"
        )
        return

    def read() -> WorkerSettings:
        return context.settings(WorkerSettings)

    settings = read()
    if daemon.signalled(settings.pidfile):
        return
    for side in (SUBSCRIBER, PROVIDER):
        output.message(f"replay is now: {Call(side, words).text(context.config)}")
    if daemon.background and not once and settings.pidfile and running(settings.pidfile) is None:
        with closing(Signals()) as none:
            Worker(read, none).try_out()
    with context.process(
        settings,
        pid=None if once else settings.pidfile,
        background=daemon.background and not once,
        announced=not once,
    ) as signals:
        copying = [*context.program(), "copy"]
        work = Worker(read, signals, copy_argv=copying)
        if once:
            run_once(work)
            return
        with closing(Signals()) as stopping:
            root = threading.Thread(target=_provider, args=(context, stopping), name="provider")
            root.start()
            try:
                work.run()
            finally:
                stopping.stop()
                root.join()


def _provider(context: options.Context, signals: Signals) -> None:
    """The worker of the provider, until a stop; another pair may run it as well."""
    context = of_side(context, PROVIDER)
    said = ""
    while not signals.stopping:
        try:
            Worker(lambda: context.settings(WorkerSettings), signals).run()
        except LondisteError as error:
            if error.message != said:
                report(error)
                said = error.message
        except Exception:
            logging.getLogger(__name__).exception("the provider's worker has failed")
        if not signals.stopping:
            signals.wait(PROVIDER_PERIOD)
