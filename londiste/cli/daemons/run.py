"""``londiste run``: runs all daemons of a cascade file as children of one process."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence

import click

from londiste import settings
from londiste.cascadefile.daemons import daemons, refuse_shared
from londiste.cli import options, output
from londiste.daemon.pidfile import control
from londiste.daemon.process import process
from londiste.daemon.supervisor import Daemon, Supervisor, lines
from londiste.metrics.endpoint import listening
from londiste.settings import RunSettings, WorkerSettings
from londiste.settings.cascade_file import CascadeFile
from londiste.settings.fields import ENV_PREFIX

#: Groups of daemons that stop one after the other: lakes and dispatchers, workers, tickers.
_GROUPS = 3


@click.command()
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    help="Run the daemons of this node only; repeatable (default: all nodes).",
)
@options.daemon
@options.pass_context
def run(
    context: options.Context,
    nodes: Sequence[str],
    daemon: bool,
    reload: bool,
    stop: bool,
    kill: bool,
) -> None:
    """Run all daemons of a cascade file: ticker, workers, lakes and dispatchers.

    A daemon that fails is started again. Every line of the log contains its program and node.
    SIGHUP (-r) reads the file again, and restarts daemons that cannot change without a restart.
    """
    chosen = (*nodes, *([context.node] if context.node else ()))
    plain = dataclasses.replace(context, node=None)
    own = plain.in_background(plain.settings(RunSettings), daemon or reload or stop or kill)
    pid = control(own.pidfile, reload=reload, stop=stop, kill=kill)
    if pid is not None:
        output.message(f"sent signal to process {pid}")
        return

    # The endpoint of this process is none of its children.
    os.environ.pop(f"{ENV_PREFIX}METRICS", None)
    of_children = {key: value for key, value in context.overrides.items() if key != "metrics"}
    # One log has one form of lines.
    of_children["log_format"] = own.log_format
    program = _program(dataclasses.replace(context, overrides=of_children))

    def read() -> list[Daemon]:
        file = context.cascade_file()
        addresses = [("[run]", own.metrics), ("[ticker]", _metrics_of_ticker(file))]

        def of_worker(node: str) -> WorkerSettings:
            found = settings.load(WorkerSettings, file.path, of_children, node=node)
            addresses.append((f"the worker of {node}", found.metrics))
            return found

        wanted = daemons(file, chosen, program, of_worker)
        refuse_shared(file.path, addresses)
        return wanted

    # Wrong settings are reported before the start in the background.
    read()
    with (
        listening(own.metrics) as endpoint,
        process(
            pid=own.pidfile,
            log=context.log_target(own),
            background=daemon,
            quiet=context.quiet,
            verbose=context.verbose,
            stop_timeout=_GROUPS * own.stop_timeout + 5,
        ) as signals,
    ):
        supervisor = Supervisor(
            read,
            signals,
            stop_timeout=own.stop_timeout,
            longest=own.max_retry_delay,
            output=lines(own.logfile, console=not daemon),
            form=own.log_format,
        )
        if endpoint is not None:
            from londiste.metrics.daemons import of_run, places

            endpoint.serve(
                of_run(
                    lambda: places(context.cascade_file(), of_children),
                    chosen,
                    supervisor,
                    own.metrics_max_lag,
                )
            )
        supervisor.run()


def _metrics_of_ticker(file: CascadeFile) -> str:
    return str(file.common["ticker"].get("metrics", ""))


def _program(context: options.Context) -> list[str]:
    """The command line of the children, up to ``--node``."""
    assert context.config is not None
    argv = [sys.executable, "-m", "londiste", "-c", str(context.config.resolve())]
    for key, value in context.overrides.items():
        argv += ["--set", f"{key}={value}"]
    return [*argv, *["-v"] * context.verbose, *["-q"] * context.quiet]
